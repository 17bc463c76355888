/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c - GRID: relax, solve, and let each worker pick one place at random.
 *
 * The paper has one server; on several the model is split equally.  After a change the program is
 * solved and rounded again; nothing is known of the plan before. */
#include <stdlib.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "phase.h"

int fan_grid(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	     struct fan_planned *how)
{
	uint32_t servers = fan_relax_servers(t);
	double *split = calloc((size_t)t->jobs * servers, sizeof *split);

	fan_plan_init(p);
	if (!split)
		return FAN_E_NOMEM;
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			split[j * servers + s] = 1.0 / t->job[j].servers;
	int err = fan_phase_plan(p, t, o, split, how);
	free(split);
	return err;
}

int fan_grid_mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		  struct fan_planned *how)
{
	fan_plan_free(p);
	return fan_grid(t, o, p, how);
}
