/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c - GRID: relax, solve, and let each worker pick one place at random.
 *
 * The paper has one server; on several the model is split equally. */
#include <stdlib.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "phase.h"
#include "round.h"

static double *equal_split(const struct fan_topo *t)
{
	uint32_t servers = fan_relax_servers(t);
	double *split = calloc((size_t)t->jobs * servers, sizeof *split);

	for (uint32_t j = 0; j < t->jobs && split; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			split[j * servers + s] = 1.0 / t->job[j].servers;
	return split;
}

int fan_grid(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	     struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};
	double *split = equal_split(t);
	int err = split ? fan_phase_cands(&c, t, o) : FAN_E_NOMEM;

	fan_plan_init(p);
	if (!err)
		err = fan_phase_solve(&r, &c, o, split);
	if (!err)
		err = fan_round_best(p, &r, split, &rng, o->roundings, NULL);
	if (!err)
		how->bound_gbps = r.bound;
	fan_relax_close(&r);
	fan_cands_close(&c);
	free(split);
	return err;
}
