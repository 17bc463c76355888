/* SPDX-License-Identifier: Apache-2.0 */
#include "column.h"

#include <assert.h>
#include <stdio.h>

#include "by_sockets.h"

int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank)
{
	char suffix[16];
	assert(number < column->columns);
	assert(column->global && column->host_first && column->rank_at);
	struct fan_rank *c = *rank = fan_rank_new(&fan_rank_by_sockets);
	if (!c)
		return FAN_E_NOMEM;
	c->cfg = *cfg;
	c->trace = of->trace; /* which outlives it */
	fan_rank_set_column(c, column);
	c->idle.call = of->kind->join_on;
	c->idle.arg = of->host;
	snprintf(suffix, sizeof suffix, "/c%u", number);
	for (unsigned k = 0; k < of->parts.count; k++) {
		const struct fan_rank_part part = {of->parts.job[k].at, of->parts.inside[k],
						   of->parts.mbps[k]};
		fan_rank_add_part(c, &part, suffix);
	}
	c->complete = true;
	return fan_rank_begin(c);
}
