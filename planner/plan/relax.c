/* SPDX-License-Identifier: Apache-2.0 */
#include "relax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

#define TIDY_LOADS 0.1	/* highest cost of load, if switches are to be few */
#define SAME	   1e-6 /* relative: a smaller difference of rates counts as none */
#define TIDY_SLACK 1e-9 /* relative: rate given up for a plan without detours */

uint32_t fan_relax_servers(const struct fan_topo *t)
{
	uint32_t most = 0;
	for (uint32_t j = 0; j < t->jobs; j++)
		if (t->job[j].servers > most)
			most = t->job[j].servers;
	return most;
}

struct fan_span fan_relax_q_routes(const struct fan_relax *r, uint32_t g, uint32_t s, uint32_t v)
{
	const struct fan_job *job = &r->c->t->job[r->c->group[g].job];
	return v < r->c->sums ? fan_cands_to_sum(r->c, g, v)
			      : fan_cands_to_server(r->c, g, job->server[s]);
}

struct fan_span fan_relax_z_routes(const struct fan_relax *r, uint32_t j, uint32_t s, uint32_t v)
{
	return fan_cands_sum_to_server(r->c, v, r->c->t->job[j].server[s]);
}

/* The row of a resource, added when it is first needed. */
static int row_for(struct fan_relax *r, uint32_t resource)
{
	if (r->row_of[resource] == FAN_COL_NONE && isfinite(r->c->t->cap[resource]))
		r->row_of[resource] = fan_lp_row(&r->lp, -INFINITY, r->c->t->cap[resource]);
	return r->row_of[resource];
}

static void put_load(struct fan_relax *r, uint32_t resource, double load)
{
	int row = row_for(r, resource);
	if (row != FAN_COL_NONE)
		fan_lp_put(&r->lp, row, load);
}

static void put_route(struct fan_relax *r, uint32_t route, double load)
{
	const struct fan_arcs *at = &r->c->route[route];
	for (uint32_t i = 0; i < at->hops; i++)
		put_load(r, at->arc[i], load);
}

/* Add columns, by route, of what one member of group `g` sends to candidate `v` for server number
 * `s`.  `all`: the row in which they add up to g_js; `enter`: the row that bounds them by the
 * sum. */
static void add_q(struct fan_relax *r, uint32_t g, uint32_t s, uint32_t v, int all, int enter)
{
	const struct fan_cands *c = r->c;
	const struct fan_worker_group *group = &c->group[g];
	struct fan_span span = fan_relax_q_routes(r, g, s, v);
	uint32_t node = v < c->sums ? c->sum[v] : c->t->job[group->job].server[s];
	r->q0[((size_t)g * r->servers + s) * (c->sums + 1) + v] =
		span.count ? r->lp.cols : FAN_COL_NONE;
	for (uint32_t i = 0; i < span.count; i++) {
		fan_lp_col(&r->lp, 0, INFINITY, 0);
		fan_lp_put(&r->lp, all, 1);
		if (enter != FAN_COL_NONE)
			fan_lp_put(&r->lp, enter, 1);
		put_route(r, span.first + i, group->count);
		put_load(r, fan_node_resource(c->t, node), group->count);
	}
}

/* Add columns of the sum of `v`, by route.  `enter`: by group, the row that bounds its parts. */
static void add_z(struct fan_relax *r, uint32_t j, uint32_t s, uint32_t v, const int *enter)
{
	const struct fan_cands *c = r->c;
	struct fan_span span = fan_relax_z_routes(r, j, s, v);
	r->z0[((size_t)j * r->servers + s) * c->sums + v] = span.count ? r->lp.cols : FAN_COL_NONE;
	for (uint32_t i = 0; i < span.count; i++) {
		fan_lp_col(&r->lp, 0, INFINITY, 0);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				fan_lp_put(&r->lp, enter[g], -1);
		put_route(r, span.first + i, 1);
		put_load(r, fan_node_resource(c->t, c->t->job[j].server[s]), 1);
	}
}

/* Add the columns and rows of one server of a job.  `all`, `enter`: room for all groups. */
static void add_server(struct fan_relax *r, uint32_t j, uint32_t s, int total, int fixed, int *all,
		       int *enter)
{
	const struct fan_cands *c = r->c;
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			all[g] = fan_lp_row(&r->lp, 0, 0);
	r->g0[j * r->servers + s] = fan_lp_col(&r->lp, 0, INFINITY, 0);
	fan_lp_put(&r->lp, total, 1);
	if (fixed != FAN_COL_NONE)
		fan_lp_put(&r->lp, fixed, 1);
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			fan_lp_put(&r->lp, all[g], -1);
	for (uint32_t v = 0; v < c->sums; v++) {
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				enter[g] = fan_lp_row(&r->lp, -INFINITY, 0);
		for (uint32_t g = 0; g < c->groups; g++)
			if (c->group[g].job == j)
				add_q(r, g, s, v, all[g], enter[g]);
		add_z(r, j, s, v, enter);
	}
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == j)
			add_q(r, g, s, c->sums, all[g], FAN_COL_NONE);
}

/* How many columns of volumes there will be. */
static double columns(const struct fan_relax *r)
{
	const struct fan_cands *c = r->c;
	double n = 1;
	for (uint32_t g = 0; g < c->groups; g++)
		for (uint32_t s = 0; s < c->t->job[c->group[g].job].servers; s++)
			for (uint32_t v = 0; v <= c->sums; v++)
				n += fan_relax_q_routes(r, g, s, v).count;
	return n;
}

static int build(struct fan_relax *r, const double *split)
{
	const struct fan_cands *c = r->c;
	const struct fan_topo *t = c->t;
	int *work = calloc(2 * (size_t)c->groups + t->jobs + 1, sizeof *work);
	int *all = work, *enter, *total, *fixed = r->fixed;
	if (!work)
		return FAN_E_NOMEM;
	enter = all + c->groups;
	total = enter + c->groups;
	fan_lp_col(&r->lp, 0, c->access_gbps, 1); /* column 0: f */
	for (uint32_t j = 0; j < t->jobs; j++) {
		total[j] = fan_lp_row(&r->lp, 0, 0);
		fan_lp_put(&r->lp, total[j], -t->job[j].weight);
		for (uint32_t s = 0; s < t->job[j].servers && split; s++) {
			fixed[j * r->servers + s] = fan_lp_row(&r->lp, 0, 0);
			fan_lp_put(&r->lp, fixed[j * r->servers + s],
				   -t->job[j].weight * split[j * r->servers + s]);
		}
	}
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			add_server(r, j, s, total[j],
				   split ? fixed[j * r->servers + s] : FAN_COL_NONE, all, enter);
	free(work);
	return r->lp.err;
}

int fan_relax_open(struct fan_relax *r, const struct fan_cands *c, const double *split)
{
	const struct fan_topo *t = c->t;
	int err = FAN_E_NOMEM;
	memset(r, 0, sizeof *r);
	r->c = c;
	r->servers = fan_relax_servers(t);
	if (columns(r) > FAN_LP_COLUMNS_MAX)
		return FAN_E_BUSY;
	r->g0 = calloc((size_t)t->jobs * r->servers + 1, sizeof *r->g0);
	r->fixed = calloc((size_t)t->jobs * r->servers + 1, sizeof *r->fixed);
	r->q0 = calloc((size_t)c->groups * r->servers * (c->sums + 1) + 1, sizeof *r->q0);
	r->z0 = calloc((size_t)t->jobs * r->servers * c->sums + 1, sizeof *r->z0);
	r->row_of = malloc(fan_topo_resources(t) * sizeof *r->row_of);
	if (r->g0 && r->fixed && r->q0 && r->z0 && r->row_of) {
		memset(r->row_of, 0xff, fan_topo_resources(t) * sizeof *r->row_of);
		err = build(r, split);
	}
	if (err)
		fan_relax_close(r);
	return err;
}

void fan_relax_close(struct fan_relax *r)
{
	free(r->g0);
	free(r->fixed);
	free(r->q0);
	free(r->z0);
	free(r->row_of);
	fan_lp_free(&r->lp);
	memset(r, 0, sizeof *r);
}

/* Set the cost of each volume to the load that it adds; the rate has no cost. */
static void set_costs(struct fan_relax *r)
{
	struct fan_lp *lp = &r->lp;
	uint32_t slots = r->c->t->jobs * r->servers;
	for (int c = 0; c < lp->cols; c++) {
		lp->objective[c] = 0;
		for (int i = lp->start[c]; i < lp->start[c + 1]; i++)
			if (lp->row_high[lp->row[i]] > 0)
				lp->objective[c] -= lp->value[i];
	}
	lp->objective[0] = 0;
	for (uint32_t i = 0; i < slots; i++)
		lp->objective[r->g0[i]] = 0;
}

/* Make sums at candidates of lower capacity cost more.  Loads decide only between equals. */
static void prefer_able(struct fan_relax *r)
{
	const struct fan_cands *c = r->c;
	double most = 1;
	for (int i = 0; i < r->lp.cols; i++)
		most = fmax(most, -r->lp.objective[i]);
	for (int i = 0; i < r->lp.cols; i++)
		r->lp.objective[i] *= TIDY_LOADS / most;
	for (uint32_t g = 0; g < c->groups; g++)
		for (uint32_t s = 0; s < c->t->job[c->group[g].job].servers; s++)
			for (uint32_t v = 0; v <= c->sums; v++) {
				int first = fan_relax_q(r, g, s, v);
				uint32_t n = fan_relax_q_routes(r, g, s, v).count;
				for (uint32_t i = 0; i < n; i++)
					r->lp.objective[first + (int)i] -=
						(double)(v + 1) * c->group[g].count;
			}
}

/* Find the best rate, starting from the last solution. */
static int solve_rate(struct fan_relax *r)
{
	uint64_t steps = 0;
	int err = fan_lp_solve_warm(&r->lp, &steps);
	if (!err)
		r->gbps = r->bound = r->lp.best;
	return err;
}

static void want_rate(struct fan_relax *r)
{
	r->lp.col_low[0] = 0;
	for (int c = 0; c < r->lp.cols; c++)
		r->lp.objective[c] = c == 0;
}

/* Of all solutions with that rate, find the one of least cost. */
static int tidy(struct fan_relax *r, bool few)
{
	r->lp.col_low[0] = r->gbps * (1 - TIDY_SLACK);
	set_costs(r);
	if (few)
		prefer_able(r);
	if (!fan_lp_solve(&r->lp))
		return FAN_OK;
	want_rate(r); /* it failed: use the first solution */
	return fan_lp_solve(&r->lp);
}

int fan_relax_solve(struct fan_relax *r, bool few)
{
	int err = solve_rate(r);
	return err ? err : tidy(r, few);
}

static void free_rows(struct fan_relax *r)
{
	const struct fan_topo *t = r->c->t;
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++) {
			int row = r->fixed[j * r->servers + s];
			r->lp.row_low[row] = -INFINITY;
			r->lp.row_high[row] = INFINITY;
		}
}

/* The shares of the solution, by job and server, `servers` for each job. */
static void take_shares(const struct fan_relax *r, double *split)
{
	for (uint32_t j = 0; j < r->c->t->jobs; j++) {
		uint32_t servers = r->c->t->job[j].servers;
		double sum = 0;
		for (uint32_t s = 0; s < servers; s++)
			sum += fan_relax_volume(r, r->g0[j * r->servers + s], 1);
		for (uint32_t s = 0; s < servers; s++)
			split[j * r->servers + s] =
				sum > 0 ? fan_relax_volume(r, r->g0[j * r->servers + s], 1) / sum
					: 1.0 / servers;
	}
}

int fan_relax_split(struct fan_relax *r, bool few, double *split, double *bound)
{
	double gbps = r->gbps, *x = r->lp.x;
	free_rows(r);
	want_rate(r);
	r->lp.x = NULL; /* the solver allocates another; this one is kept */
	int err = solve_rate(r);
	*bound = r->bound;
	if (!err && r->gbps > gbps * (1 + SAME)) {
		err = tidy(r, few);
		if (!err)
			take_shares(r, split);
	}
	free(r->lp.x);
	r->lp.x = x;
	r->gbps = gbps;
	return err;
}

double fan_relax_volume(const struct fan_relax *r, int first, uint32_t count)
{
	double sum = 0;
	for (uint32_t i = 0; i < count && first != FAN_COL_NONE; i++)
		sum += r->lp.x[first + (int)i];
	return sum > 0 ? sum : 0;
}
