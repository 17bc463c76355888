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
	c->column = *column;
	c->idle.call = of->kind->join_on;
	c->idle.arg = of->host;
	snprintf(suffix, sizeof suffix, "/c%u", number);
	for (c->parts.count = 0; c->parts.count < of->parts.count; c->parts.count++) {
		fan_rank_set_part(c, c->parts.count, &of->parts.job[c->parts.count].at, suffix);
		c->parts.inside[c->parts.count] = of->parts.inside[c->parts.count];
		c->parts.mbps[c->parts.count] = of->parts.mbps[c->parts.count];
	}
	c->complete = true;
	return fan_rank_begin(c);
}
