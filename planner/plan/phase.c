/* SPDX-License-Identifier: Apache-2.0 */
#include "phase.h"

#include <stdlib.h>

#include "core/base/err.h"
#include "lagrange.h"
#include "round.h"

/* Ever smaller: routes at most, switches at most (0: all). */
static const struct {
	uint32_t paths, sums;
} sizes[] = {{FAN_PATHS_MAX, 0}, {4, 0}, {4, 24}, {2, 24}, {2, 12}, {1, 12}, {1, 6}, {1, 3}};

#define SIZES (sizeof sizes / sizeof sizes[0])

/* Columns of the program with so many groups, targets and routes; from above. */
static double columns(const struct fan_cands *c, uint32_t paths, uint32_t sums)
{
	double n = 0;

	for (uint32_t g = 0; g < c->groups; g++)
		n += (double)c->t->job[c->group[g].job].servers *
		     (1 + (sums && sums < c->sums ? sums : c->sums)) * paths;
	return n;
}

int fan_phase_cands(struct fan_cands *c, const struct fan_topo *t, const struct fan_plan_options *o)
{
	struct fan_cands_options few = {.paths = 1, .sums_max = 1};
	uint32_t i = 0;
	int err = fan_cands_open(c, t, &few);

	if (err)
		return err;
	c->sums = 0; /* count them all */
	for (uint32_t v = 0; v < t->nodes; v++)
		c->sums += fan_node_sums(t, v);
	for (; i < SIZES - 1; i++) {
		uint32_t paths = o->paths < sizes[i].paths ? o->paths : sizes[i].paths;
		if (columns(c, paths, sizes[i].sums) <= FAN_PHASE_COLUMNS)
			break;
	}
	fan_cands_close(c);
	few.paths = o->paths < sizes[i].paths ? o->paths : sizes[i].paths;
	few.sums_max = sizes[i].sums;
	return fan_cands_open(c, t, &few);
}

int fan_phase_solve(struct fan_relax *r, const struct fan_cands *c,
		    const struct fan_plan_options *o, const double *split)
{
	int err = fan_relax_open(r, c, split);

	if (err)
		return err;
	err = o->solver == FAN_SOLVER_LAGRANGE ? fan_lagrange(r, split)
					       : fan_relax_solve(r, o->vertex == FAN_VERTEX_FEW);
	if (err)
		fan_relax_close(r);
	return err;
}

int fan_phase_plan(struct fan_plan *p, const struct fan_topo *t, const struct fan_plan_options *o,
		   const double *split, struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};
	int err = fan_phase_cands(&c, t, o);

	fan_plan_init(p);
	if (!err)
		err = fan_phase_solve(&r, &c, o, split);
	if (!err && !(how->bound_gbps > 0))
		how->bound_gbps = r.bound;
	if (!err)
		err = fan_round_all(p, &r, split, &rng, o, how);
	fan_relax_close(&r);
	fan_cands_close(&c);
	return err;
}
