/* SPDX-License-Identifier: Apache-2.0 */
/* relaxed.c - GRID and InArt: relax the program, solve it, and round places and routes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "core/base/rng.h"
#include "eval.h"
#include "fit.h"
#include "relax.h"
#include "steps.h"

#define SAME 1e-9 /* relative: a smaller difference of shares counts as none */

/* ---- rounding of volumes to whole flows ---- */

/* 0 <= x < 1 */
static double unit_of(struct fan_rng *r)
{
	return (double)(fan_rng_next(r) >> 11) * 0x1p-53;
}

/* Pick one of `count` columns from `first` on, at random by volume; the first if all are zero. */
static uint32_t pick(const struct fan_relax *r, int first, uint32_t count, struct fan_rng *rng)
{
	double at = unit_of(rng) * fan_relax_volume(r, first, count);
	for (uint32_t i = 0; i < count; i++) {
		at -= fan_relax_volume(r, first + (int)i, 1);
		if (at < 0)
			return i;
	}
	return 0;
}

/* Pick a candidate sum, or c->sums for the server itself. */
static uint32_t pick_place(const struct fan_relax *r, uint32_t g, uint32_t s, struct fan_rng *rng)
{
	uint32_t sums = r->c->sums;
	double all = 0;
	for (uint32_t v = 0; v <= sums; v++)
		all += fan_relax_volume(r, fan_relax_q(r, g, s, v),
					fan_relax_q_routes(r, g, s, v).count);
	double at = unit_of(rng) * all;
	for (uint32_t v = 0; v <= sums; v++) {
		at -= fan_relax_volume(r, fan_relax_q(r, g, s, v),
				       fan_relax_q_routes(r, g, s, v).count);
		if (at < 0)
			return v;
	}
	return sums;
}

static void round_group(const struct fan_relax *r, uint32_t g, uint32_t s, struct fan_tree *tree,
			struct fan_rng *rng)
{
	const struct fan_cands *c = r->c;
	for (uint32_t i = 0; i < c->group[g].count; i++) {
		uint32_t v = pick_place(r, g, s, rng);
		struct fan_span span = fan_relax_q_routes(r, g, s, v);
		uint32_t route = span.first + pick(r, fan_relax_q(r, g, s, v), span.count, rng);
		uint32_t w = c->member[c->group[g].first + i];
		fan_cands_flow(c, &c->group[g], route, &tree->flow[w]);
		if (v == c->sums || fan_tree_sum(tree, c->sum[v]))
			continue;
		span = fan_relax_z_routes(r, tree->job, s, v);
		route = span.first + pick(r, fan_relax_z(r, tree->job, s, v), span.count, rng);
		fan_tree_add_sum(tree, c->sum[v])->route = c->route[route];
	}
}

/* Round once.  For every server each worker picks a switch or the server with a probability
 * proportional to its volume there, and a route to that place likewise; sums pick their routes.
 * Shares are those of `split` (by job and server, r->servers for each job).  Trees are fitted.  On
 * FAN_E_NOMEM `*p` is empty. */
static int round_volumes(struct fan_plan *p, const struct fan_relax *r, const double *split,
			 struct fan_rng *rng)
{
	const struct fan_topo *t = r->c->t;
	*p = (struct fan_plan){0};
	for (uint32_t j = 0; j < t->jobs; j++) {
		for (uint32_t s = 0; s < t->job[j].servers; s++) {
			double share = split[j * r->servers + s];
			if (!(share > 0))
				continue;
			struct fan_tree *tree = fan_plan_add(p, t, j, t->job[j].server[s], share);
			if (!tree) {
				fan_plan_free(p);
				return FAN_E_NOMEM;
			}
			for (uint32_t g = 0; g < r->c->groups; g++)
				if (r->c->group[g].job == j)
					round_group(r, g, s, tree, rng);
		}
	}
	int err = fan_fit_plan(t, p);
	if (err)
		fan_plan_free(p);
	return err;
}

/* ---- all drawings ---- */

static void note_rate(struct fan_planned *how, double gbps)
{
	how->least_gbps = how->drawings ? fmin(how->least_gbps, gbps) : gbps;
	how->most_gbps = how->drawings ? fmax(how->most_gbps, gbps) : gbps;
	how->mean_gbps += (gbps - how->mean_gbps) / ++how->drawings;
}

/* Take the plan after local search if its rate is higher. */
static int improve(struct fan_plan *p, const struct fan_relax *r)
{
	const struct fan_topo *t = r->c->t;
	struct fan_plan other;
	int err = fan_plan_copy(&other, p);
	if (!err)
		err = fan_search(r->c, &other, FAN_MOVE_PLACE, FAN_SEARCH_PASSES);
	if (!err)
		err = fan_fit_plan(t, &other);
	if (!err && fan_eval_gbps(t, &other) > fan_eval_gbps(t, p))
		fan_plan_move(p, &other);
	fan_plan_free(&other);
	if (err)
		fan_plan_free(p);
	return err;
}

/* Make one drawing, and improve it if `rounding` says so. */
static int draw(struct fan_plan *p, const struct fan_relax *r, const double *split,
		struct fan_rng *rng, enum fan_rounding rounding, struct fan_planned *how)
{
	int err = round_volumes(p, r, split, rng);
	if (err)
		return err;
	note_rate(how, fan_eval_gbps(r->c->t, p));
	return rounding == FAN_ROUND_SEARCH ? improve(p, r) : FAN_OK;
}

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

/* Round o->roundings times, and keep the best or combine all, as o->rounding says.  `how` gets the
 * rates of the drawings before any improvement.  FAN_E_STALLED: no drawing was feasible. */
static int round_all(struct fan_plan *p, const struct fan_relax *r, const double *split,
		     struct fan_rng *rng, const struct fan_plan_options *o, struct fan_planned *how)
{
	double best = -1;
	int err = FAN_OK;
	*p = (struct fan_plan){0};
	for (uint32_t i = 0; i < o->roundings && !err; i++) {
		struct fan_plan next;
		err = draw(&next, r, split, rng, o->rounding, how);
		double gbps = err ? err : fan_eval_gbps(r->c->t, &next);
		if (!err && o->rounding == FAN_ROUND_COLUMNS &&
		    p->trees + next.trees <= FAN_TREES_MAX) {
			for (uint32_t k = 0; k < next.trees && !err; k++)
				if (!fan_plan_add_like(p, r->c->t, &next.tree[k]))
					err = FAN_E_NOMEM;
			best = 0;
		} else if (gbps > best) {
			best = gbps;
			fan_plan_move(p, &next);
		}
		fan_plan_free(&next);
	}
	if (!err && o->rounding == FAN_ROUND_COLUMNS)
		err = fan_pack_few(r->c->t, p, (struct fan_few){o->trees, 10});
	if (err)
		fan_plan_free(p);
	return err ? err : best >= 0 ? FAN_OK : FAN_E_STALLED;
}

/* Relax, solve and round with a given split (by job and server).  how->bound_gbps becomes that of
 * the program unless it is set.  Errors are those of round_all; on error `*p` is empty. */
static int plan_split(struct fan_plan *p, const struct fan_topo *t,
		      const struct fan_plan_options *o, const double *split,
		      struct fan_planned *how)
{
	struct fan_rng rng = {o->seed};
	struct fan_cands c = {0};
	struct fan_relax r = {0};
	int err = open_cands(&c, t, o);
	*p = (struct fan_plan){0};
	if (!err)
		err = solve(&r, &c, o, split);
	if (!err && !(how->bound_gbps > 0))
		how->bound_gbps = r.bound;
	if (!err)
		err = round_all(p, &r, split, &rng, o, how);
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
	*p = (struct fan_plan){0};
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
		err = round_all(p, &r, split, &rng, o, how);
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
	*p = (struct fan_plan){0};
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
