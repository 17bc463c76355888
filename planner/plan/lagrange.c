/* SPDX-License-Identifier: Apache-2.0 */
/* Every capacity is a constraint with a price, and so is "no part is larger than the sum
 * it enters" - its price is how the worth of a sum is divided among those who enter it.
 * At given prices all workers choose alone: the cheapest place and route.  Any prices
 * give a bound (what the choices cost at them); the average of the choices is a plan.
 * Prices follow the loads of the average, the more sharply the longer it goes on: a
 * subgradient method with exponential weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "relax.h"

#define IDLE_MAX     3000  /* rounds without gain */
#define GAIN_MIN     1e-3  /* relative, in that many rounds */
#define GAP	     0.004 /* relative: near enough */
#define SHARP	     6.0   /* of the weights: times the root of the round */
#define SHARP_SUM    3.0   /* of the weights within a sum, as SHARP */
#define EXPONENT_MIN (-60.0)

struct lagrange {
	struct fan_relax *r;
	const struct fan_cands *c;
	const struct fan_topo *t;
	const double *split;  /* NULL: free */
	double *x;	      /* by column: the average, at a common rate of 1 */
	double *d;	      /* by column: the choices of this round */
	double *load, *price; /* by resource */
	double *part;	      /* by group, server and sum: its price within the sum */
	double *sum;	      /* by job, server and sum: price of what it sends on */
	int *sum_by;	      /* by job, server and sum: its route, counted from the first */
	double *best_x;
	double reached, bound; /* rates */
};

static size_t at_part(const struct lagrange *l, uint32_t g, uint32_t s, uint32_t v)
{
	return ((size_t)g * l->r->servers + s) * l->c->sums + v;
}

static double volume(const struct lagrange *l, const double *x, uint32_t g, uint32_t s, uint32_t v)
{
	int first = fan_relax_q(l->r, g, s, v);
	uint32_t count = fan_relax_q_routes(l->r, g, s, v).count;
	double sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += x[first + (int)i];
	return sum;
}

/* The largest part that enters a sum. */
static double largest(const struct lagrange *l, const double *x, uint32_t j, uint32_t s, uint32_t v)
{
	double most = 0;

	for (uint32_t g = 0; g < l->c->groups; g++)
		if (l->c->group[g].job == j)
			most = fmax(most, volume(l, x, g, s, v));
	return most;
}

static void add_load(struct lagrange *l, uint32_t route, uint32_t node, double load)
{
	const struct fan_route *r = &l->c->route[route];

	for (uint32_t i = 0; i < r->hops; i++)
		l->load[r->arc[i]] += load;
	l->load[fan_node_resource(l->t, node)] += load;
}

/* Sums in x are as large as they must be, on the routes that they had. */
static void settle_sum(struct lagrange *l, uint32_t j, uint32_t s, uint32_t v)
{
	struct fan_span span = fan_relax_z_routes(l->r, j, s, v);
	int first = fan_relax_z(l->r, j, s, v);
	double have = 0, need = largest(l, l->x, j, s, v);

	for (uint32_t i = 0; i < span.count; i++)
		have += l->x[first + (int)i];
	for (uint32_t i = 0; i < span.count; i++) {
		double *x = &l->x[first + (int)i];
		*x = have > 0 ? *x * need / have : i == 0 ? need : 0;
		if (*x > 0)
			add_load(l, span.first + i, l->t->job[j].server[s], *x);
	}
}

static void find_loads(struct lagrange *l)
{
	const struct fan_cands *c = l->c;

	memset(l->load, 0, fan_topo_resources(l->t) * sizeof *l->load);
	for (uint32_t g = 0; g < c->groups; g++) {
		const struct fan_job *job = &l->t->job[c->group[g].job];
		for (uint32_t s = 0; s < job->servers; s++)
			for (uint32_t v = 0; v <= c->sums; v++) {
				struct fan_span span = fan_relax_q_routes(l->r, g, s, v);
				uint32_t node = v < c->sums ? c->sum[v] : job->server[s];
				int first = fan_relax_q(l->r, g, s, v);
				for (uint32_t i = 0; i < span.count; i++)
					if (l->x[first + (int)i] > 0)
						add_load(l, span.first + i, node,
							 l->x[first + (int)i] * c->group[g].count);
			}
	}
	for (uint32_t j = 0; j < l->t->jobs; j++)
		for (uint32_t s = 0; s < l->t->job[j].servers; s++)
			for (uint32_t v = 0; v < c->sums; v++)
				settle_sum(l, j, s, v);
}

static double fullest(const struct lagrange *l)
{
	double most = 1 / l->c->access_gbps;

	for (uint32_t r = 0; r < fan_topo_resources(l->t); r++)
		if (l->load[r] > 0)
			most = fmax(most, l->load[r] / l->t->cap[r]);
	return most;
}

/* ---- prices ---- */

static void price_resources(struct lagrange *l, double sharp, double most)
{
	uint32_t resources = fan_topo_resources(l->t);
	double all = 0;

	for (uint32_t r = 0; r < resources; r++) {
		double full = l->load[r] > 0 ? l->load[r] / l->t->cap[r] / most : 0;
		l->price[r] = 0;
		if (!isfinite(l->t->cap[r]) || !(l->t->cap[r] > 0))
			continue;
		l->price[r] = exp(fmax(sharp * (full - 1), EXPONENT_MIN));
		all += l->price[r];
	}
	for (uint32_t r = 0; r < resources; r++)
		if (l->price[r] > 0)
			l->price[r] /= all * l->t->cap[r];
}

/* How the price of a sum is divided among those who enter it. */
static void price_parts(struct lagrange *l, uint32_t j, uint32_t s, uint32_t v, double sharp)
{
	double most = largest(l, l->x, j, s, v), all = 0;

	for (uint32_t g = 0; g < l->c->groups; g++) {
		if (l->c->group[g].job != j)
			continue;
		double part = most > 0 ? volume(l, l->x, g, s, v) / most : 1;
		l->part[at_part(l, g, s, v)] = exp(fmax(sharp * (part - 1), EXPONENT_MIN));
		all += l->part[at_part(l, g, s, v)];
	}
	for (uint32_t g = 0; g < l->c->groups; g++)
		if (l->c->group[g].job == j)
			l->part[at_part(l, g, s, v)] /= all;
}

static double route_price(const struct lagrange *l, uint32_t route)
{
	const struct fan_route *r = &l->c->route[route];
	double sum = 0;

	for (uint32_t i = 0; i < r->hops; i++)
		sum += l->price[r->arc[i]];
	return sum;
}

/* The cheapest of some routes, counted from the first; -1: there is none. */
static int cheapest(const struct lagrange *l, struct fan_span span, double *price)
{
	int best = -1;

	*price = INFINITY;
	for (uint32_t i = 0; i < span.count; i++) {
		double x = route_price(l, span.first + i);
		if (x < *price) {
			*price = x;
			best = (int)i;
		}
	}
	return best;
}

static void price_sums(struct lagrange *l, double sharp)
{
	for (uint32_t j = 0; j < l->t->jobs; j++)
		for (uint32_t s = 0; s < l->t->job[j].servers; s++)
			for (uint32_t v = 0; v < l->c->sums; v++) {
				size_t at = ((size_t)j * l->r->servers + s) * l->c->sums + v;
				uint32_t server = l->t->job[j].server[s];
				l->sum_by[at] =
					cheapest(l, fan_relax_z_routes(l->r, j, s, v), &l->sum[at]);
				l->sum[at] += l->price[fan_node_resource(l->t, server)];
				price_parts(l, j, s, v, sharp);
			}
}

/* ---- choices ---- */

/* Where a worker of group `g` sends its part for server `s`; the cost of all members. */
static double choose(const struct lagrange *l, uint32_t g, uint32_t s, uint32_t *place, int *by)
{
	const struct fan_group *group = &l->c->group[g];
	uint32_t server = l->t->job[group->job].server[s];
	double best = INFINITY;

	for (uint32_t v = 0; v <= l->c->sums; v++) {
		uint32_t node = v < l->c->sums ? l->c->sum[v] : server;
		double cost, more = 0;
		int route = cheapest(l, fan_relax_q_routes(l->r, g, s, v), &cost);
		if (v < l->c->sums)
			more = l->part[at_part(l, g, s, v)] *
			       l->sum[((size_t)group->job * l->r->servers + s) * l->c->sums + v];
		cost = group->count * (cost + l->price[fan_node_resource(l->t, node)]) + more;
		if (route >= 0 && cost < best) {
			best = cost;
			*place = v;
			*by = route;
		}
	}
	return best;
}

/* Put the choices for server `s` of job `j` into d, at `amount`. */
static void put_choices(struct lagrange *l, uint32_t j, uint32_t s, double amount)
{
	for (uint32_t g = 0; g < l->c->groups; g++) {
		uint32_t v = 0;
		int by = 0;
		if (l->c->group[g].job != j)
			continue;
		choose(l, g, s, &v, &by);
		l->d[fan_relax_q(l->r, g, s, v) + by] = amount;
		if (v == l->c->sums)
			continue;
		size_t at = ((size_t)j * l->r->servers + s) * l->c->sums + v;
		if (l->sum_by[at] >= 0)
			l->d[fan_relax_z(l->r, j, s, v) + l->sum_by[at]] = amount;
	}
	l->d[l->r->g0[j * l->r->servers + s]] = amount;
}

/* All choices of this round; what they cost, which no plan does below. */
static double choose_all(struct lagrange *l)
{
	double total = 0;

	memset(l->d, 0, (size_t)l->r->lp.cols * sizeof *l->d);
	for (uint32_t j = 0; j < l->t->jobs; j++) {
		const struct fan_job *job = &l->t->job[j];
		uint32_t best = 0;
		double least = INFINITY;
		for (uint32_t s = 0; s < job->servers; s++) {
			double cost = 0, share;
			uint32_t v;
			int by;
			for (uint32_t g = 0; g < l->c->groups; g++)
				if (l->c->group[g].job == j)
					cost += choose(l, g, s, &v, &by);
			share = l->split ? l->split[j * l->r->servers + s] : 0;
			if (share > 0) {
				put_choices(l, j, s, job->weight * share);
				total += job->weight * share * cost;
			}
			if (cost < least) {
				least = cost;
				best = s;
			}
		}
		if (!l->split) {
			put_choices(l, j, best, job->weight);
			total += job->weight * least;
		}
	}
	return total;
}

/* ---- rounds ---- */

static void run(struct lagrange *l)
{
	size_t bytes = (size_t)l->r->lp.cols * sizeof *l->x;

	double mark = 0;
	uint32_t idle = 0;

	l->bound = l->c->access_gbps;
	for (uint32_t round = 0; round < FAN_LAGRANGE_ROUNDS; round++) {
		double sharp = SHARP * sqrt(round), most = 1;
		if (round > 0) {
			find_loads(l);
			most = fullest(l);
			if (1 / most > l->reached) {
				l->reached = 1 / most;
				memcpy(l->best_x, l->x, bytes);
			}
		}
		if (l->reached > mark * (1 + GAIN_MIN)) {
			mark = l->reached;
			idle = 0;
		}
		if (l->reached >= l->bound * (1 - GAP) || idle++ > IDLE_MAX)
			return;
		price_resources(l, sharp, most);
		price_sums(l, SHARP_SUM * sqrt(round));
		double cost = choose_all(l);
		if (cost > 0 && 1 / cost < l->bound)
			l->bound = 1 / cost;
		double step = 2.0 / (round + 2.0);
		for (int i = 0; i < l->r->lp.cols; i++)
			l->x[i] += step * (l->d[i] - l->x[i]);
	}
}

static void give(struct lagrange *l)
{
	struct fan_lp *lp = &l->r->lp;

	for (int i = 0; i < lp->cols; i++)
		lp->x[i] = l->best_x[i] * l->reached;
	lp->x[0] = l->reached;
	l->r->gbps = lp->best = l->reached;
	l->r->bound = lp->bound = l->bound;
}

int fan_lagrange(struct fan_relax *r, const double *split)
{
	struct lagrange l = {.r = r, .c = r->c, .t = r->c->t, .split = split};
	size_t cols = (size_t)r->lp.cols, resources = fan_topo_resources(l.t);
	size_t sums = (size_t)l.t->jobs * r->servers * r->c->sums + 1;
	int err = FAN_E_NOMEM;

	free(r->lp.x);
	r->lp.x = calloc(cols, sizeof(double));
	l.x = calloc(cols, sizeof(double));
	l.d = calloc(cols, sizeof(double));
	l.best_x = calloc(cols, sizeof(double));
	l.load = calloc(resources, sizeof(double));
	l.price = calloc(resources, sizeof(double));
	l.part = calloc((size_t)r->c->groups * r->servers * r->c->sums + 1, sizeof(double));
	l.sum = calloc(sums, sizeof(double));
	l.sum_by = calloc(sums, sizeof(int));
	if (r->lp.x && l.x && l.d && l.best_x && l.load && l.price && l.part && l.sum && l.sum_by) {
		run(&l);
		give(&l);
		err = FAN_OK;
	}
	free(l.x);
	free(l.d);
	free(l.best_x);
	free(l.load);
	free(l.price);
	free(l.part);
	free(l.sum);
	free(l.sum_by);
	return err;
}
