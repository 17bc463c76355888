/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - the best plan over candidate routes: by complete column generation with several trees
 * on a server (trees.c), by branch and bound with one.
 *
 * With one server for each job the only product is rate times an integer, and with u = 1 / f the
 * program is linear: minimise u such that no load of whole workers exceeds u times the capacity.
 * Workers that are alike are counted.  With several servers the split is free as well: then a
 * binary variable for each worker, server, place and route allows volumes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "eval.h"
#include "fit.h"
#include "relax.h"
#include "steps.h"

#define YES	   0.5	/* a binary variable above this is 1 */
#define MANY_SLACK 1e-6 /* relative: how far a proven plan may be below its bound */
#define FIT_SLACK  1e-9 /* relative: what a proven plan may lose by fitting */

struct exact {
	const struct fan_cands *c;
	const struct fan_topo *t;
	struct fan_lp lp;
	struct fan_relax at; /* used only for its tables of columns */
	bool split;	     /* some job has several servers: the split is free */
	double most;	     /* bound of all volumes */
	int *row;	     /* by resource: its row */
	int total;	     /* row of the first job's rate; with a free split only */
};

static void put_load(struct exact *x, const struct fan_arcs *route, uint32_t node, double load)
{
	for (uint32_t i = 0; i < route->hops; i++)
		fan_lp_put(&x->lp, x->row[route->arc[i]], load);
	if (isfinite(x->t->cap[fan_node_resource(x->t, node)]))
		fan_lp_put(&x->lp, x->row[fan_node_resource(x->t, node)], load);
}

/* Add column 0, u with objective -1, or f if the split is free, and the rows of resources. */
static void add_rate(struct exact *x)
{
	uint32_t resources = fan_topo_resources(x->t);
	for (uint32_t r = 0; r < resources; r++)
		x->row[r] = isfinite(x->t->cap[r])
				    ? fan_lp_row(&x->lp, -INFINITY, x->split ? x->t->cap[r] : 0)
				    : FAN_COL_NONE;
	if (x->split) {
		fan_lp_col(&x->lp, 0, x->c->access_gbps, 1);
		x->total = x->lp.rows;
		for (uint32_t j = 0; j < x->t->jobs; j++)
			fan_lp_put(&x->lp, fan_lp_row(&x->lp, 0, 0), -x->t->job[j].weight);
		return;
	}
	fan_lp_col(&x->lp, 1 / x->c->access_gbps, INFINITY, -1);
	for (uint32_t r = 0; r < resources; r++)
		if (x->row[r] >= 0)
			fan_lp_put(&x->lp, x->row[r], -x->t->cap[r]);
}

/* The rows of one server of a job. */
struct rows {
	int volume; /* adds up the server's part of the rate; with a free split only */
	int *one;   /* by group: its choices add up to its workers */
	int *open;  /* by group and sum: choices need the switch's sum */
	int *enter; /* by group and sum: at most what the sum carries; with a free split only */
};

/* Add the column of a choice: a count, or a binary variable.  With a free split the column of the
 * volume that it allows follows. */
static void add_choice(struct exact *x, double most, const struct fan_arcs *route, uint32_t node,
		       double load)
{
	fan_lp_whole(&x->lp, 0, most, 0);
	if (!x->split)
		put_load(x, route, node, load);
}

/* Add the volume of a choice; `allow`: the row in which the choice allows it. */
static void add_volume(struct exact *x, int allow, const struct fan_arcs *route, uint32_t node)
{
	fan_lp_col(&x->lp, 0, INFINITY, 0);
	fan_lp_put(&x->lp, allow, 1);
	put_load(x, route, node, 1);
}

static int add_allow(struct exact *x)
{
	int allow = fan_lp_row(&x->lp, -INFINITY, 0);
	fan_lp_put(&x->lp, allow, -x->most);
	return allow;
}

static void add_group(struct exact *x, uint32_t g, uint32_t s, const struct rows *rows)
{
	const struct fan_cands *c = x->c;
	const struct fan_worker_group *group = &c->group[g];
	const struct fan_job *job = &x->t->job[group->job];
	for (uint32_t v = 0; v <= c->sums; v++) {
		struct fan_span span = fan_relax_q_routes(&x->at, g, s, v);
		uint32_t node = v < c->sums ? c->sum[v] : job->server[s];
		size_t gv = (size_t)g * c->sums + v;
		x->at.q0[((size_t)g * x->at.servers + s) * (c->sums + 1) + v] =
			span.count ? x->lp.cols : FAN_COL_NONE;
		for (uint32_t i = 0; i < span.count; i++) {
			const struct fan_arcs *route = &c->route[span.first + i];
			add_choice(x, group->count, route, node, job->weight);
			fan_lp_put(&x->lp, rows->one[g], 1);
			if (v < c->sums)
				fan_lp_put(&x->lp, rows->open[gv], 1);
			if (!x->split)
				continue;
			add_volume(x, add_allow(x), route, node);
			fan_lp_put(&x->lp, rows->volume + 1 + (int)g, 1);
			if (v < c->sums)
				fan_lp_put(&x->lp, rows->enter[gv], 1);
		}
	}
}

/* Add the sum of candidate `v`, on one route at most. */
static void add_sum(struct exact *x, uint32_t j, uint32_t s, uint32_t v, const struct rows *rows)
{
	const struct fan_cands *c = x->c;
	const struct fan_job *job = &x->t->job[j];
	struct fan_span span = fan_relax_z_routes(&x->at, j, s, v);
	int once = fan_lp_row(&x->lp, -INFINITY, 1);
	x->at.z0[((size_t)j * x->at.servers + s) * c->sums + v] =
		span.count ? x->lp.cols : FAN_COL_NONE;
	for (uint32_t i = 0; i < span.count; i++) {
		const struct fan_arcs *route = &c->route[span.first + i];
		add_choice(x, 1, route, job->server[s], job->weight);
		fan_lp_put(&x->lp, once, 1);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				fan_lp_put(&x->lp, rows->open[(size_t)g * c->sums + v],
					   -(double)c->group[g].count);
		if (!x->split)
			continue;
		add_volume(x, add_allow(x), route, job->server[s]);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				fan_lp_put(&x->lp, rows->enter[(size_t)g * c->sums + v], -1);
	}
}

/* Add server `s` of job `j`. */
static void add_server(struct exact *x, uint32_t j, uint32_t s, struct rows *rows)
{
	const struct fan_cands *c = x->c;
	for (uint32_t g = 0; g < c->groups; g++) {
		rows->one[g] = fan_lp_row(&x->lp, c->group[g].count, c->group[g].count);
		for (uint32_t v = 0; v < c->sums; v++) {
			rows->open[g * c->sums + v] = fan_lp_row(&x->lp, -INFINITY, 0);
			if (x->split)
				rows->enter[g * c->sums + v] = fan_lp_row(&x->lp, -INFINITY, 0);
		}
		if (c->group[g].job != j) /* a group of another job has no choices here */
			x->lp.row_low[rows->one[g]] = 0;
	}
	if (x->split) {
		rows->volume = x->total + (int)j;
		fan_lp_col(&x->lp, 0, x->most, 0); /* the server's part of the rate */
		fan_lp_put(&x->lp, rows->volume, 1);
		rows->volume = x->lp.rows - 1;
		for (uint32_t g = 0; g < c->groups; g++) {
			int row = fan_lp_row(&x->lp, 0, 0);
			if (c->group[g].job == j)
				fan_lp_put(&x->lp, row, -1);
		}
	}
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			add_group(x, g, s, rows);
	for (uint32_t v = 0; v < c->sums; v++)
		add_sum(x, j, s, v, rows);
}

static int build(struct exact *x)
{
	const struct fan_cands *c = x->c;
	size_t gv = (size_t)c->groups * c->sums + 1;
	int *work = calloc(c->groups + 2 * gv, sizeof *work);
	struct rows rows = {.one = work};
	if (!work)
		return FAN_E_NOMEM;
	rows.open = work + c->groups;
	rows.enter = rows.open + gv;
	add_rate(x);
	for (uint32_t j = 0; j < x->t->jobs; j++)
		for (uint32_t s = 0; s < x->t->job[j].servers; s++)
			add_server(x, j, s, &rows);
	free(work);
	return x->lp.err;
}

/* ---- from columns to flows ---- */

/* Assign the workers of a group to the choices of the solution. */
static void read_group(const struct exact *x, uint32_t g, uint32_t s, struct fan_tree *tree)
{
	const struct fan_cands *c = x->c;
	const struct fan_worker_group *group = &c->group[g];
	int stride = x->split ? 2 : 1;
	uint32_t next = 0;
	for (uint32_t v = 0; v <= c->sums; v++) {
		struct fan_span span = fan_relax_q_routes(&x->at, g, s, v);
		int first = fan_relax_q(&x->at, g, s, v);
		for (uint32_t i = 0; i < span.count; i++) {
			double n = x->lp.x[first + (int)i * stride];
			for (; n > YES && next < group->count; n--, next++)
				fan_cands_flow(c, group, span.first + i,
					       &tree->flow[c->member[group->first + next]]);
		}
	}
}

static void read_sums(const struct exact *x, uint32_t j, uint32_t s, struct fan_tree *tree)
{
	const struct fan_cands *c = x->c;
	int stride = x->split ? 2 : 1;
	for (uint32_t v = 0; v < c->sums; v++) {
		struct fan_span span = fan_relax_z_routes(&x->at, j, s, v);
		bool used = false;
		for (uint32_t w = 0; w < tree->workers; w++)
			used = used || tree->flow[w].to == c->sum[v];
		for (uint32_t i = 0; i < span.count && used; i++)
			if (x->lp.x[fan_relax_z(&x->at, j, s, v) + (int)i * stride] > YES)
				fan_tree_add_sum(tree, c->sum[v])->route = c->route[span.first + i];
	}
}

static int read_plan(const struct exact *x, struct fan_plan *p)
{
	for (uint32_t j = 0; j < x->t->jobs; j++) {
		uint32_t servers = x->t->job[j].servers;
		for (uint32_t s = 0; s < servers; s++) {
			struct fan_tree *tree =
				fan_plan_add(p, x->t, j, x->t->job[j].server[s], 1.0 / servers);
			if (!tree) {
				fan_plan_free(p);
				return FAN_E_NOMEM;
			}
			for (uint32_t g = 0; g < x->c->groups; g++)
				if (x->c->group[g].job == j)
					read_group(x, g, s, tree);
			read_sums(x, j, s, tree);
		}
	}
	return x->split ? fan_pack_shares(x->t, p) : FAN_OK;
}

static int solve(struct exact *x, const struct fan_plan_options *o, struct fan_plan *p,
		 struct fan_planned *how)
{
	const struct fan_cands *c = x->c;
	int err = FAN_E_NOMEM;
	x->at.c = c;
	x->at.servers = fan_relax_servers(x->t);
	x->at.q0 = calloc((size_t)c->groups * x->at.servers * (c->sums + 1), sizeof(int));
	x->at.z0 = calloc((size_t)x->t->jobs * x->at.servers * c->sums + 1, sizeof(int));
	x->row = calloc(fan_topo_resources(x->t), sizeof *x->row);
	x->most = fan_bound_closed(c);
	double heaviest = 0;
	for (uint32_t j = 0; j < x->t->jobs; j++)
		heaviest = fmax(heaviest, x->t->job[j].weight);
	x->most *= heaviest;
	if (x->at.q0 && x->at.z0 && x->row)
		err = build(x);
	uint32_t whole = 0;
	for (int i = 0; i < x->lp.cols; i++)
		whole += x->lp.whole[i];
	if (!err && whole > o->choices)
		err = FAN_E_BUSY;
	if (!err)
		err = fan_lp_solve_whole(&x->lp, o->nodes);
	if (!err)
		err = read_plan(x, p);
	double planned = err ? 0 : fan_eval_gbps(x->t, p);
	if (!err)
		err = fan_fit_plan(x->t, p);
	if (!err) {
		how->bound_gbps = x->split ? x->lp.bound : -1 / x->lp.bound;
		how->proven = !x->t->results && !fan_plan_levels(o) &&
			      fabs(x->lp.bound - x->lp.best) <= 1e-9 * fabs(x->lp.best) &&
			      fan_eval_gbps(x->t, p) >= planned * (1 - FIT_SLACK);
	}
	fan_relax_close(&x->at);
	free(x->row);
	fan_lp_free(&x->lp);
	return err;
}

/* Solve with several trees on a server: the program's columns are trees, and column generation runs
 * until no tree would help. */
static int solve_trees(const struct fan_cands *c, const struct fan_plan_options *o,
		       struct fan_plan *p, struct fan_planned *how)
{
	if (c->groups * c->sums > o->choices)
		return FAN_E_BUSY;
	int err = fan_trees_exact(c, p, o->trees, &how->bound_gbps);
	if (!err)
		how->proven = how->bound_gbps > 0 && !fan_plan_levels(o) &&
			      fan_eval_gbps(c->t, p) >= how->bound_gbps * (1 - MANY_SLACK);
	return err;
}

int fan_exact(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	      struct fan_planned *how)
{
	struct fan_cands c;
	struct exact x = {.c = &c, .t = t, .split = fan_relax_servers(t) > 1};
	struct fan_cands_options few = {.paths = o->paths, .apart = x.split};
	int err;
	few.apart = few.apart && o->trees == 1;
	err = fan_cands_open(&c, t, &few);
	*p = (struct fan_plan){0};
	if (err)
		return err;
	err = o->trees == 1 ? solve(&x, o, p, how) : solve_trees(&c, o, p, how);
	if (err)
		fan_plan_free(p);
	fan_cands_close(&c);
	return err;
}
