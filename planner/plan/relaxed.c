/* SPDX-License-Identifier: Apache-2.0 */
/* relaxed.c - GRID and InArt: relax the program, solve it, and round places and routes. */
#include <math.h>
#include <stdlib.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "relax.h"
#include "steps.h"

#define SAME 1e-9 /* relative: a smaller difference of shares counts as none */

/* ---- what both do ---- */

/* Limits of candidates, ever tighter: most routes, and most switches (0: all). */
static const struct {
	uint32_t paths, sums;
} sizes[] = {{FAN_PATHS_MAX, 0}, {4, 0}, {4, 24}, {2, 24}, {2, 12}, {1, 12}, {1, 6}, {1, 3}};

#define SIZES (sizeof sizes / sizeof sizes[0])

/* An upper bound of the program's columns with these limits. */
static double columns(const struct fan_cands *c, uint32_t paths, uint32_t sums)
{
	double n = 0;

	for (uint32_t g = 0; g < c->groups; g++)
		n += (double)c->t->job[c->group[g].job].servers *
		     (1 + (sums && sums < c->sums ? sums : c->sums)) * paths;
	return n;
}

/* Open candidates whose program has at most FAN_PHASE_COLUMNS columns: all switches and o->paths
 * routes if that is possible, else fewer.  Errors are those of fan_cands_open. */
static int open_cands(struct fan_cands *c, const struct fan_topo *t,
		      const struct fan_plan_options *o)
{
	struct fan_cands_options few = {.paths = 1, .sums_max = 1};
	uint32_t i = 0;
	int err = fan_cands_open(c, t, &few);

	if (err)
		return err;
	c->sums = 0; /* count all switches that can sum */
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

/* Open and solve the program; `split` as for fan_relax_open. */
static int solve(struct fan_relax *r, const struct fan_cands *c, const struct fan_plan_options *o,
		 const double *split)
{
	int err = fan_relax_open(r, c, split);

	if (err)
		return err;
	err = fan_relax_solve(r, o->vertex == FAN_VERTEX_FEW);
	if (err)
		fan_relax_close(r);
	return err;
}

/* Relax, solve and round with a given split (by job and server).  how->bound_gbps becomes that of
 * the program unless it is set.  Errors are those of fan_round_all; on error `*p` is empty. */
static int plan_split(struct fan_plan *p, const struct fan_topo *t,
		      const struct fan_plan_options *o, const double *split,
		      struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};
	int err = open_cands(&c, t, o);

	fan_plan_init(p);
	if (!err)
		err = solve(&r, &c, o, split);
	if (!err && !(how->bound_gbps > 0))
		how->bound_gbps = r.bound;
	if (!err)
		err = fan_round_all(p, &r, split, &rng, o, how);
	fan_relax_close(&r);
	fan_cands_close(&c);
	return err;
}

static void split_equally(const struct fan_topo *t, double *split)
{
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			split[j * fan_relax_servers(t) + s] = 1.0 / t->job[j].servers;
}

/* ---- GRID: each worker picks one place at random ----
 *
 * The paper has one server; with several the model is split equally.  After a change the program is
 * solved and rounded again, without regard to the earlier plan. */

int fan_grid(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	     struct fan_planned *how)
{
	double *split = calloc((size_t)t->jobs * fan_relax_servers(t), sizeof *split);

	fan_plan_init(p);
	if (!split)
		return FAN_E_NOMEM;
	split_equally(t, split);
	int err = plan_split(p, t, o, split, how);
	free(split);
	return err;
}

int fan_grid_mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		  struct fan_planned *how)
{
	fan_plan_free(p);
	return fan_grid(t, o, p, how);
}

/* ---- InArt ----
 *
 * Phase 1 splits the model by the relaxed program; phase 2, with the split fixed, relaxes again,
 * rounds places and routes, and recomputes the rate.  After a change only phase 2 runs: the split
 * stays, and all flows are placed again. */

static bool is_equal(const struct fan_topo *t, const double *split)
{
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			if (fabs(split[j * fan_relax_servers(t) + s] - 1.0 / t->job[j].servers) >
			    SAME)
				return false;
	return true;
}

/* Run both phases.  A vertex of the program may leave servers idle without need, so the equal split
 * is given up only if a free one has a higher rate; otherwise the program is solved already. */
static int plan_both(const struct fan_topo *t, const struct fan_plan_options *o, double *split,
		     struct fan_plan *p, struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};

	split_equally(t, split);
	if (fan_relax_servers(t) == 1) /* nothing to split */
		return plan_split(p, t, o, split, how);
	int err = open_cands(&c, t, o);
	if (!err)
		err = solve(&r, &c, o, split);
	if (!err)
		err = fan_relax_split(&r, o->vertex == FAN_VERTEX_FEW, split, &how->bound_gbps);
	bool equal = is_equal(t, split);
	if (!err && equal)
		err = fan_round_all(p, &r, split, &rng, o, how);
	fan_relax_close(&r);
	fan_cands_close(&c);
	return err || equal ? err : plan_split(p, t, o, split, how);
}

/* Take a plan's split, among the servers that are left.  Jobs not in the plan are split equally. */
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

/* Plan with the split of `old`, or, if that is NULL, with one from phase 1. */
static int inart(const struct fan_topo *t, const struct fan_plan_options *o,
		 const struct fan_plan *old, struct fan_plan *p, struct fan_planned *how)
{
	double *split = calloc((size_t)t->jobs * fan_relax_servers(t), sizeof *split);
	int err = split ? FAN_OK : FAN_E_NOMEM;

	fan_plan_init(p);
	if (!err && !old)
		err = plan_both(t, o, split, p, how);
	if (!err && old) {
		take_split(t, old, split);
		err = plan_split(p, t, o, split, how);
	}
	free(split);
	return err;
}

int fan_inart(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	      struct fan_planned *how)
{
	return inart(t, o, NULL, p, how);
}

int fan_inart_mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		   struct fan_planned *how)
{
	struct fan_plan next;
	int err = inart(t, o, p, &next, how);

	fan_plan_move(p, &next);
	return err;
}
