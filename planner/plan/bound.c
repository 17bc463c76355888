/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "lp.h"
#include "steps.h"

#define NO_ROW (-1)

double fan_bound_closed(const struct fan_cands *c)
{
	const struct fan_topo *t = c->t;
	double least = c->access_gbps, able = 0;
	for (uint32_t v = 0; v < t->nodes; v++)
		if (fan_node_sums(t, v))
			able += fan_topo_intake(t, v);
	for (uint32_t j = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		double into = 0, n = job->workers;
		for (uint32_t s = 0; s < job->servers; s++)
			into += fan_topo_intake(t, job->server[s]);
		if (!isfinite(into))
			continue;
		double summed = able / n < into ? able / n : into;
		double rate = (summed + (into - summed) / n) / job->weight;
		least = rate < least ? rate : least;
	}
	return least;
}

/* The program of flows while it is built.  There is a commodity for each target of `c`: the traffic
 * to a switch that sums it, or to a server. */
struct flows {
	const struct fan_cands *c;
	struct fan_lp lp;
	int *arc_row; /* by arc */
	int *cap_row; /* by node that sums or serves */
	bool levels;
	/* for the present job and server; numbers of rows */
	int *enter;    /* by group and sum */
	int *into;     /* with levels: by sum and the sum that it enters */
	int *whole;    /* with levels, by group: its summed parts reach the server in sums */
	int *in_group; /* by group: results that reach its place */
	int *in_sum;   /* by sum: results that reach its place */
	int *out_sum;  /* by group and sum: results that leave the sum's switch for the group */
	int *keep;     /* by target and node: the rows of conservation */
};

static int *keep_at(const struct flows *f, uint32_t target, uint32_t node)
{
	return &f->keep[(size_t)target * f->c->t->nodes + node];
}

/* May traffic to `to` pass `node`? */
static bool passes(const struct fan_topo *t, uint32_t node, uint32_t to)
{
	return node == to || t->node[node].kind == FAN_NODE_SWITCH;
}

/* Add rows of conservation, out of a node minus into it minus supply = 0, and a column for each
 * arc. */
static void add_commodity(struct flows *f, uint32_t target, uint32_t to)
{
	const struct fan_topo *t = f->c->t;
	for (uint32_t i = 0; i < t->nodes; i++)
		*keep_at(f, target, i) = i == to || t->node[i].kind == FAN_NODE_SERVER
						 ? NO_ROW
						 : fan_lp_row(&f->lp, 0, 0);
	for (uint32_t a = 0; a < 2 * t->links; a++) {
		uint32_t from = fan_arc_from(t, a), next = fan_arc_to(t, a);
		if (!passes(t, next, to) || from == to || t->node[from].kind == FAN_NODE_SERVER ||
		    (t->node[from].kind == FAN_NODE_WORKER && t->node[from].degree == 1))
			continue;
		fan_lp_col(&f->lp, 0, INFINITY, 0);
		fan_lp_put(&f->lp, f->arc_row[a], 1);
		fan_lp_put(&f->lp, *keep_at(f, target, from), 1);
		if (next != to)
			fan_lp_put(&f->lp, *keep_at(f, target, next), -1);
	}
}

/* Let `volume` times the newest column enter the network at `node` and go to `target`. */
static void supply(struct flows *f, uint32_t target, uint32_t to, uint32_t node, double volume)
{
	if (node != to)
		fan_lp_put(&f->lp, *keep_at(f, target, node), -volume);
}

static void add_parts(struct flows *f, uint32_t g, uint32_t server, int all)
{
	const struct fan_cands *c = f->c;
	const struct fan_worker_group *group = &c->group[g];
	for (uint32_t v = 0; v < c->sums; v++) {
		fan_lp_col(&f->lp, 0, INFINITY, 0);
		fan_lp_put(&f->lp, all, 1);
		fan_lp_put(&f->lp, f->enter[g * c->sums + v], 1);
		if (f->levels)
			fan_lp_put(&f->lp, f->whole[g], 1);
		if (c->t->results && group->at != c->sum[v])
			fan_lp_put(&f->lp, f->out_sum[g * c->sums + v], 1);
		fan_lp_put(&f->lp, f->cap_row[c->sum[v]], group->count);
		supply(f, v, c->sum[v], group->at, group->count);
	}
	fan_lp_col(&f->lp, 0, INFINITY, 0);
	fan_lp_put(&f->lp, all, 1);
	if (f->cap_row[server] >= 0)
		fan_lp_put(&f->lp, f->cap_row[server], group->count);
	supply(f, c->target_of[server], server, group->at, group->count);
}

/* Make the newest column a sum of `v` for this job: it bounds what enters `v`. */
static void put_sum(struct flows *f, uint32_t j, uint32_t v, double value)
{
	const struct fan_cands *c = f->c;
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			fan_lp_put(&f->lp, f->enter[g * c->sums + v], value);
	for (uint32_t u = 0; u < c->sums && f->levels; u++)
		if (u != v)
			fan_lp_put(&f->lp, f->into[u * c->sums + v], value);
	if (c->t->results)
		fan_lp_put(&f->lp, f->in_sum[v], 1);
}

/* Results return over the links that contributions took.  So results at the job's rate reach each
 * group's switch; a switch receives results at the rate at which it sends sums, and sends results
 * at the rate at which parts enter it from elsewhere.  Plans need at least that, so the rate is a
 * bound. */
static void add_result_rows(struct flows *f, uint32_t j)
{
	const struct fan_cands *c = f->c;
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			f->in_group[g] = fan_lp_row(&f->lp, -INFINITY, 0);
	for (uint32_t v = 0; v < c->sums; v++) {
		f->in_sum[v] = fan_lp_row(&f->lp, -INFINITY, 0);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				f->out_sum[g * c->sums + v] = fan_lp_row(&f->lp, -INFINITY, 0);
	}
}

static void add_results(struct flows *f, uint32_t j)
{
	const struct fan_cands *c = f->c;
	for (uint32_t a = 0; a < 2 * c->t->links; a++) {
		uint32_t from = fan_arc_from(c->t, a), to = fan_arc_to(c->t, a);
		if (c->t->node[from].kind == FAN_NODE_WORKER ||
		    c->t->node[to].kind == FAN_NODE_SERVER)
			continue;
		fan_lp_col(&f->lp, 0, INFINITY, 0);
		fan_lp_put(&f->lp, f->arc_row[a], 1);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j && c->group[g].at == to)
				fan_lp_put(&f->lp, f->in_group[g], -1);
		for (uint32_t v = 0; v < c->sums; v++) {
			if (c->sum[v] == to)
				fan_lp_put(&f->lp, f->in_sum[v], -1);
			for (uint32_t g = 0; g < c->groups && c->sum[v] == from; g++)
				if (c->group[g].job == j)
					fan_lp_put(&f->lp, f->out_sum[g * c->sums + v], -1);
		}
	}
}

/* Add one server of a job.  `total`: the row that adds up the job's rate. */
static void add_server(struct flows *f, uint32_t j, uint32_t server, int total, int *all)
{
	const struct fan_cands *c = f->c;
	for (uint32_t g = 0; g < c->groups; g++) {
		if (c->group[g].job != j)
			continue;
		all[g] = fan_lp_row(&f->lp, 0, 0);
		for (uint32_t v = 0; v < c->sums; v++)
			f->enter[g * c->sums + v] = fan_lp_row(&f->lp, -INFINITY, 0);
	}
	for (uint32_t i = 0; i < c->sums * c->sums && f->levels; i++)
		f->into[i] = fan_lp_row(&f->lp, -INFINITY, 0);
	for (uint32_t g = 0; g < c->groups && f->levels; g++)
		if (c->group[g].job == j)
			f->whole[g] = fan_lp_row(&f->lp, -INFINITY, 0);
	if (c->t->results)
		add_result_rows(f, j);
	fan_lp_col(&f->lp, 0, INFINITY, 0); /* g, as in relax.h */
	for (uint32_t g = 0; g < c->groups && c->t->results; g++)
		if (c->group[g].job == j)
			fan_lp_put(&f->lp, f->in_group[g], 1);
	fan_lp_put(&f->lp, total, 1);
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			fan_lp_put(&f->lp, all[g], -1);
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			add_parts(f, g, server, all[g]);
	for (uint32_t v = 0; v < c->sums; v++) {
		fan_lp_col(&f->lp, 0, INFINITY, 0); /* the sum of v, to the server */
		put_sum(f, j, v, -1);
		for (uint32_t g = 0; g < c->groups && f->levels; g++)
			if (c->group[g].job == j)
				fan_lp_put(&f->lp, f->whole[g], -1);
		if (f->cap_row[server] >= 0)
			fan_lp_put(&f->lp, f->cap_row[server], 1);
		supply(f, c->target_of[server], server, c->sum[v], 1);
		for (uint32_t w = 0; w < c->sums && f->levels; w++) {
			if (w == v)
				continue;
			fan_lp_col(&f->lp, 0, INFINITY, 0); /* the flow that is summed at w */
			put_sum(f, j, v, -1);
			fan_lp_put(&f->lp, f->into[v * c->sums + w], 1);
			fan_lp_put(&f->lp, f->cap_row[c->sum[w]], 1);
			supply(f, w, c->sum[w], c->sum[v], 1);
		}
	}
	if (c->t->results)
		add_results(f, j);
}

static void build(struct flows *f, int *all)
{
	const struct fan_cands *c = f->c;
	const struct fan_topo *t = c->t;
	for (uint32_t a = 0; a < 2 * t->links; a++)
		f->arc_row[a] = fan_lp_row(&f->lp, -INFINITY, t->cap[a]);
	for (uint32_t i = 0; i < t->nodes; i++) {
		double cap = t->cap[fan_node_resource(t, i)];
		f->cap_row[i] = c->target_of[i] == FAN_NODE_NONE || !isfinite(cap)
					? NO_ROW
					: fan_lp_row(&f->lp, -INFINITY, cap);
	}
	fan_lp_col(&f->lp, 0, c->access_gbps, 1); /* f, as in relax.h */
	int first = f->lp.rows;
	for (uint32_t j = 0; j < t->jobs; j++)
		fan_lp_put(&f->lp, fan_lp_row(&f->lp, 0, 0), -t->job[j].weight);
	for (uint32_t i = 0; i < t->nodes; i++)
		if (c->target_of[i] != FAN_NODE_NONE)
			add_commodity(f, c->target_of[i], i);
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			add_server(f, j, t->job[j].server[s], first + (int)j, all);
}

/* The bound by flows.  False: too large, or no memory. */
static bool bound_flows(const struct fan_cands *c, bool levels, double *gbps)
{
	const struct fan_topo *t = c->t;
	struct flows f = {.c = c, .levels = levels};
	double size = 2.0 * t->links * c->targets + (double)(c->groups + (levels ? c->sums : 0)) *
							    (c->sums + 1) * (c->targets - c->sums);
	int err = FAN_E_NOMEM, *all = calloc(c->groups + 1, sizeof *all);
	if (size > FAN_BOUND_COLUMNS) {
		free(all);
		return false;
	}
	f.arc_row = calloc(2 * (size_t)t->links + 1, sizeof *f.arc_row);
	f.cap_row = calloc(t->nodes + 1, sizeof *f.cap_row);
	f.enter = calloc((size_t)c->groups * c->sums + 1, sizeof *f.enter);
	f.into = calloc((size_t)c->sums * c->sums + 1, sizeof *f.into);
	f.whole = calloc(c->groups + 1, sizeof *f.whole);
	f.in_group = calloc(c->groups + 1, sizeof *f.in_group);
	f.in_sum = calloc(c->sums + 1, sizeof *f.in_sum);
	f.out_sum = calloc((size_t)c->groups * c->sums + 1, sizeof *f.out_sum);
	f.keep = calloc((size_t)c->targets * t->nodes + 1, sizeof *f.keep);
	if (all && f.arc_row && f.cap_row && f.enter && f.into && f.whole && f.in_group &&
	    f.in_sum && f.out_sum && f.keep) {
		build(&f, all);
		err = fan_lp_solve(&f.lp);
		*gbps = f.lp.best;
	}
	fan_lp_free(&f.lp);
	free(all);
	free(f.arc_row);
	free(f.cap_row);
	free(f.enter);
	free(f.into);
	free(f.whole);
	free(f.in_group);
	free(f.in_sum);
	free(f.out_sum);
	free(f.keep);
	return err == FAN_OK;
}

double fan_bound(const struct fan_cands *c, bool levels)
{
	double closed = fan_bound_closed(c), flows;
	return bound_flows(c, levels, &flows) && flows < closed ? flows : closed;
}
