/* SPDX-License-Identifier: Apache-2.0 */
/* inart.c - InArt: phase 1 splits the model by the relaxed program; phase 2, with the split
 * fixed, relaxes again, rounds places and routes, and recomputes the rate. */
#include <stdlib.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "eval.h"
#include "phase.h"
#include "round.h"

static int split_model(const struct fan_cands *c, const struct fan_plan_options *o, double *split,
		       struct fan_planned *how)
{
	struct fan_relax r;
	int err;

	if (fan_relax_servers(c->t) == 1) { /* nothing to split */
		for (uint32_t j = 0; j < c->t->jobs; j++)
			split[j] = 1;
		return FAN_OK;
	}
	err = fan_phase_solve(&r, c, o, NULL);

	if (err)
		return err;
	fan_relax_split(&r, split);
	how->bound_gbps = r.bound;
	fan_relax_close(&r);
	return FAN_OK;
}

/* The split of phase 1 is best for the relaxed plan, and one of many; where whole flows
 * fare better with an equal split, that is taken. */
static int try_equal(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p)
{
	struct fan_planned how = {0};
	struct fan_plan equal;
	int err;

	if (fan_relax_servers(t) == 1)
		return FAN_OK;
	err = fan_grid(t, o, &equal, &how);
	if (err)
		return err;
	if (fan_eval_gbps(t, &equal) > fan_eval_gbps(t, p))
		fan_plan_move(p, &equal);
	fan_plan_free(&equal);
	return FAN_OK;
}

int fan_inart(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	      struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};
	double *split = calloc((size_t)t->jobs * fan_relax_servers(t), sizeof *split);
	int err = split ? fan_phase_cands(&c, t, o) : FAN_E_NOMEM;

	fan_plan_init(p);
	if (!err)
		err = split_model(&c, o, split, how);
	if (!err)
		err = fan_phase_solve(&r, &c, o, split);
	if (!err && !(how->bound_gbps > 0))
		how->bound_gbps = r.bound;
	if (!err)
		err = fan_round_best(p, &r, split, &rng, o->roundings, NULL);
	if (!err)
		err = try_equal(t, o, p);
	fan_relax_close(&r);
	fan_cands_close(&c);
	free(split);
	return err;
}
