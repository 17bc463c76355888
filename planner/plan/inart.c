/* SPDX-License-Identifier: Apache-2.0 */
/* inart.c - InArt: phase 1 splits the model by the relaxed program; phase 2, with the split
 * fixed, relaxes again, rounds places and routes, and recomputes the rate.  After an event there is
 * phase 2 alone: the model stays split as it is, and all flows are placed anew. */
#include <math.h>
#include <stdlib.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "phase.h"
#include "round.h"

#define SAME	      1e-9 /* of parts of the model that are equal */
#define SAME_LAGRANGE 1e-2 /* relative, of rates: it is no nearer */

static void split_equally(const struct fan_topo *t, double *split)
{
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			split[j * fan_relax_servers(t) + s] = 1.0 / t->job[j].servers;
}

static bool is_equal(const struct fan_topo *t, const double *split)
{
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			if (fabs(split[j * fan_relax_servers(t) + s] - 1.0 / t->job[j].servers) >
			    SAME)
				return false;
	return true;
}

/* By subgradient: the free split is taken if it is better than equal parts. */
static int split_by_prices(const struct fan_cands *c, const struct fan_plan_options *o,
			   struct fan_relax *equal, double *split, struct fan_planned *how)
{
	struct fan_relax r = {0};
	int err = fan_phase_solve(&r, c, o, NULL);

	if (!err && !(equal->gbps >= r.gbps * (1 - SAME_LAGRANGE)))
		fan_relax_shares(&r, split);
	how->bound_gbps = r.bound;
	fan_relax_close(&r);
	return err;
}

/* Both phases.  A vertex of the program loads some servers alone where all would do: so the equal
 * split is left only if the program reaches more without; else it is solved already. */
static int plan_both(const struct fan_topo *t, const struct fan_plan_options *o, double *split,
		     struct fan_plan *p, struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};

	split_equally(t, split);
	if (fan_relax_servers(t) == 1) /* nothing to split */
		return fan_phase_plan(p, t, o, split, how);
	int err = fan_phase_cands(&c, t, o);
	if (!err)
		err = fan_phase_solve(&r, &c, o, split);
	if (!err && o->solver == FAN_SOLVER_LAGRANGE)
		err = split_by_prices(&c, o, &r, split, how);
	else if (!err)
		err = fan_relax_split(&r, o->vertex == FAN_VERTEX_FEW, split, &how->bound_gbps);
	bool equal = is_equal(t, split);
	if (!err && equal)
		err = fan_round_all(p, &r, split, &rng, o, how);
	fan_relax_close(&r);
	fan_cands_close(&c);
	return err || equal ? err : fan_phase_plan(p, t, o, split, how);
}

/* The split that a plan has, among the servers that are left of it.  Jobs that it does not have
 * are split equally. */
static void take_split(const struct fan_topo *t, const struct fan_plan *p, double *split)
{
	uint32_t servers = fan_relax_servers(t);

	for (uint32_t j = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		double sum = 0;
		for (uint32_t i = 0; i < p->trees; i++)
			for (uint32_t s = 0; s < job->servers; s++)
				if (p->tree[i].job == j && p->tree[i].server == job->server[s]) {
					split[j * servers + s] += p->tree[i].share;
					sum += p->tree[i].share;
				}
		for (uint32_t s = 0; s < job->servers; s++)
			split[j * servers + s] =
				sum > 0 ? split[j * servers + s] / sum : 1.0 / job->servers;
	}
}

/* `old`: the plan whose split is kept; NULL: phase 1 makes one. */
static int plan(const struct fan_topo *t, const struct fan_plan_options *o,
		const struct fan_plan *old, struct fan_plan *p, struct fan_planned *how)
{
	double *split = calloc((size_t)t->jobs * fan_relax_servers(t), sizeof *split);
	int err = split ? FAN_OK : FAN_E_NOMEM;

	fan_plan_init(p);
	if (!err && !old)
		err = plan_both(t, o, split, p, how);
	if (!err && old) {
		take_split(t, old, split);
		err = fan_phase_plan(p, t, o, split, how);
	}
	free(split);
	return err;
}

int fan_inart(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	      struct fan_planned *how)
{
	return plan(t, o, NULL, p, how);
}

int fan_inart_mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		   struct fan_planned *how)
{
	struct fan_plan next;
	int err = plan(t, o, p, &next, how);

	fan_plan_move(p, &next);
	return err;
}
