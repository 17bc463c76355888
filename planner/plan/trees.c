/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "fit.h"
#include "steps.h"

#define SPREAD	    0.02       /* of the total price, spread over all limited resources */
#define SMOOTH	    0.5	       /* weight of earlier prices in the smoothed prices */
#define IDLE_MAX    25	       /* most rounds without gain */
#define GAIN_MIN    1e-3       /* relative: a smaller gain counts as none */
#define CHEAPER	    1e-6       /* relative: how much cheaper a new tree must be */
#define OPEN_MAX    64	       /* most switches opened for one tree */
#define FULL	    0.75       /* of FAN_TREES_MAX: the rest is for other trees */
#define SPREAD_SURE 1e-7       /* SPREAD for an exact search: prefers shorter trees of equal cost */
#define REACHED	    (1 - 1e-7) /* of the bound: counts as reached */
#define DIVES	    2e5	       /* most sets of switches in an exact search for one tree */
#define DIVE_MAX    64	       /* an exact search needs fewer candidate switches */

struct grow {
	const struct fan_cands *c;
	const struct fan_topo *t;
	struct fan_plan *p;
	struct fan_master m;
	struct fan_fit fit;
	bool *limited;	 /* by resource: it has a limit */
	double *price;	 /* by resource; above 0 if it has a limit */
	double *smooth;	 /* by resource: `price`, averaged over rounds */
	double *to;	 /* by group and candidate: cost of one worker's Gb/s there */
	uint32_t *to_by; /* its route */
	double *direct;	 /* by group: cost of one worker's Gb/s to the present server */
	uint32_t *direct_by;
	double *on; /* by candidate: cost of its sum's Gb/s to the present server */
	uint32_t *on_by;
	uint32_t *choice, *trial; /* by group: candidate, or c->sums for the server */
	double spread;		  /* SPREAD or SPREAD_SURE */
	bool sure;    /* search exactly for the cheapest tree; cleared if that takes too long */
	double bound; /* no trees have a higher rate; from exact searches */
	/* by candidate, and one more, and group: the least cost with the open candidates before it;
	 * with all candidates from it on */
	double *now, *later;
	bool *open;   /* by candidate: it is in the set being tried */
	double least; /* cost of the cheapest tree so far */
	double dives;
};

/* ---- the program ---- */

/* Is it a worker's own link or rate?  The bound on the rate has these already. */
static bool is_own_link(const struct fan_topo *t, uint32_t resource)
{
	if (resource >= 2 * t->links)
		return t->node[resource - 2 * t->links].kind == FAN_NODE_WORKER;
	const struct fan_node *from = &t->node[fan_arc_from(t, resource)];
	return from->kind == FAN_NODE_WORKER && from->degree == 1;
}

static int start_program(struct grow *k)
{
	/* the bound is finite, since at first a new tree may be in no row */
	int err = fan_master_open(&k->m, k->t, fmin(k->c->access_gbps, FAN_TOPO_GBPS_MAX));
	for (uint32_t i = 0; i < k->p->trees && !err; i++)
		err = fan_master_add(&k->m, &k->p->tree[i]);
	for (uint32_t r = 0; r < fan_topo_resources(k->t); r++)
		k->limited[r] = isfinite(k->t->cap[r]) && !is_own_link(k->t, r);
	return err;
}

/* Take the prices of the last solution, and add a little for all limited resources. */
static void take_prices(struct grow *k)
{
	uint32_t resources = fan_topo_resources(k->t), limited = 0;
	double worth = 0;
	for (uint32_t r = 0; r < resources; r++) {
		k->price[r] = k->limited[r] ? fan_master_price(&k->m, r) : 0;
		worth += k->limited[r] ? k->price[r] * k->t->cap[r] : 0;
		limited += k->limited[r] && k->t->cap[r] > 0;
	}
	if (!(worth > 0))
		worth = 1;
	for (uint32_t r = 0; r < resources; r++) {
		if (!k->limited[r])
			continue;
		k->price[r] += k->spread * worth / limited / fmax(k->t->cap[r], FAN_TOPO_GBPS_MIN);
		k->smooth[r] = SMOOTH * k->smooth[r] + (1 - SMOOTH) * k->price[r];
	}
}

/* ---- the cheapest tree ---- */

static uint32_t cheapest(const struct grow *k, const double *price, struct fan_span span,
			 double *cost)
{
	uint32_t best = UINT32_MAX;
	*cost = INFINITY;
	for (uint32_t i = span.first; i < span.first + span.count; i++) {
		double sum = 0;
		for (uint32_t h = k->c->arc_at[i]; h < k->c->arc_at[i + 1]; h++)
			sum += price[k->c->arc[h]];
		if (sum < *cost) {
			*cost = sum;
			best = i;
		}
	}
	return best;
}

/* Compute the cost of sending to each switch, which does not depend on the server. */
static void price_switches(struct grow *k, const double *price)
{
	const struct fan_cands *c = k->c;
	for (uint32_t g = 0; g < c->groups; g++)
		for (uint32_t v = 0; v < c->sums; v++) {
			size_t at = (size_t)g * c->sums + v;
			k->to_by[at] = cheapest(k, price, fan_cands_to_sum(c, g, v), &k->to[at]);
			k->to[at] += price[fan_node_resource(k->t, c->sum[v])];
		}
}

/* The cost of results on the path of a sum.  Results to workers are left out, since they pass
 * shared links once: so trees look cheaper than they are, and the program decides. */
static double results_of(const struct grow *k, const double *price, uint32_t route)
{
	double sum = 0;
	if (!k->t->results || route == UINT32_MAX)
		return 0;
	for (uint32_t h = 0; h < k->c->route[route].hops; h++)
		sum += price[k->c->route[route].arc[h] ^ 1u];
	return sum;
}

static void price_server(struct grow *k, const double *price, uint32_t job, uint32_t server)
{
	const struct fan_cands *c = k->c;
	double intake = price[fan_node_resource(k->t, server)];
	for (uint32_t g = 0; g < c->groups; g++) {
		if (c->group[g].job != job)
			continue;
		k->direct_by[g] =
			cheapest(k, price, fan_cands_to_server(c, g, server), &k->direct[g]);
		k->direct[g] += intake;
	}
	for (uint32_t v = 0; v < c->sums; v++) {
		k->on_by[v] = cheapest(k, price, fan_cands_sum_to_server(c, v, server), &k->on[v]);
		k->on[v] += intake + results_of(k, price, k->on_by[v]);
	}
}

static double cost_of(const struct grow *k, uint32_t g, uint32_t v)
{
	double unit = v == k->c->sums ? k->direct[g] : k->to[(size_t)g * k->c->sums + v];
	return unit * k->c->group[g].count;
}

/* What opening candidate `v` in addition saves. */
static double saving(const struct grow *k, uint32_t job, const uint32_t *choice, uint32_t v)
{
	double sum = -k->on[v];
	for (uint32_t g = 0; g < k->c->groups; g++) {
		if (k->c->group[g].job != job)
			continue;
		double less = cost_of(k, g, choice[g]) - cost_of(k, g, v);
		if (less > 0)
			sum += less;
	}
	return sum;
}

static void use(const struct grow *k, uint32_t job, uint32_t *choice, uint32_t v)
{
	for (uint32_t g = 0; g < k->c->groups; g++)
		if (k->c->group[g].job == job && cost_of(k, g, v) < cost_of(k, g, choice[g]))
			choice[g] = v;
}

/* Open switches as long as that lowers the cost. */
static void open_more(const struct grow *k, uint32_t job, uint32_t *choice)
{
	for (uint32_t n = 0; n < OPEN_MAX; n++) {
		uint32_t best = UINT32_MAX;
		double most = 0;
		for (uint32_t v = 0; v < k->c->sums; v++) {
			double less = isfinite(k->on[v]) ? saving(k, job, choice, v) : 0;
			if (less > most) {
				most = less;
				best = v;
			}
		}
		if (best == UINT32_MAX)
			return;
		use(k, job, choice, best);
	}
}

static double total(const struct grow *k, uint32_t job, const uint32_t *choice)
{
	double sum = 0;
	for (uint32_t g = 0; g < k->c->groups; g++) {
		if (k->c->group[g].job != job)
			continue;
		sum += cost_of(k, g, choice[g]);
		bool again = choice[g] == k->c->sums;
		for (uint32_t b = 0; b < g && !again; b++)
			again = k->c->group[b].job == job && choice[b] == choice[g];
		sum += again ? 0 : k->on[choice[g]];
	}
	return sum;
}

/* The switch that is cheapest for all workers of the job; c->sums if there is none. */
static uint32_t best_single(const struct grow *k, uint32_t job)
{
	uint32_t best = k->c->sums;
	double least = INFINITY;
	for (uint32_t v = 0; v < k->c->sums; v++) {
		double sum = k->on[v];
		for (uint32_t g = 0; g < k->c->groups && sum < least; g++)
			if (k->c->group[g].job == job)
				sum += cost_of(k, g, v);
		if (sum < least) {
			least = sum;
			best = v;
		}
	}
	return best;
}

/* Find a cheap tree, in k->choice; returns its cost. */
static double find_tree(struct grow *k, uint32_t job)
{
	uint32_t single = best_single(k, job);
	for (uint32_t g = 0; g < k->c->groups; g++) {
		k->choice[g] = k->c->sums;
		k->trial[g] = single;
	}
	open_more(k, job, k->choice);
	open_more(k, job, k->trial);
	double cost = total(k, job, k->choice), other = total(k, job, k->trial);
	if (other < cost) {
		uint32_t *swap = k->choice;
		k->choice = k->trial;
		k->trial = swap;
		cost = other;
	}
	return cost;
}

/* Search the sets of switches that agree with k->open before `v`, whose sums cost `opened`, for a
 * tree cheaper than k->least. */
static void dive(struct grow *k, uint32_t job, uint32_t v, double opened)
{
	const struct fan_cands *c = k->c;
	double *now = k->now + (size_t)v * c->groups, *next = now + c->groups, bound = opened;
	k->sure = k->sure && k->dives++ < DIVES;
	for (uint32_t g = 0; g < c->groups; g++)
		if (c->group[g].job == job)
			bound += fmin(now[g], k->later[(size_t)v * c->groups + g]);
	if (!k->sure || !(bound < k->least * REACHED))
		return;
	if (v == c->sums) {
		k->least = bound;
		for (uint32_t g = 0; g < c->groups; g++)
			k->choice[g] = c->sums;
		for (uint32_t w = 0; w < c->sums; w++)
			if (k->open[w])
				use(k, job, k->choice, w);
		return;
	}
	for (uint32_t g = 0; g < c->groups; g++)
		next[g] = c->group[g].job == job ? fmin(now[g], cost_of(k, g, v)) : 0;
	k->open[v] = isfinite(k->on[v]);
	if (k->open[v])
		dive(k, job, v + 1, opened + k->on[v]);
	k->open[v] = false;
	memcpy(next, now, c->groups * sizeof *next);
	dive(k, job, v + 1, opened);
}

/* As find_tree, but no tree is cheaper if k->sure is still true afterwards. */
static double find_cheapest(struct grow *k, uint32_t job)
{
	const struct fan_cands *c = k->c;
	uint32_t n = c->sums < DIVE_MAX ? c->sums : 0;
	k->sure = c->sums < DIVE_MAX;
	k->least = find_tree(k, job);
	k->dives = 0;
	for (uint32_t g = 0; g < c->groups; g++) {
		k->now[g] = c->group[g].job == job ? cost_of(k, g, c->sums) : 0;
		k->later[(size_t)n * c->groups + g] = INFINITY;
		for (uint32_t v = n; v-- > 0;)
			k->later[(size_t)v * c->groups + g] =
				fmin(k->later[(size_t)(v + 1) * c->groups + g], cost_of(k, g, v));
	}
	if (k->sure)
		dive(k, job, 0, 0);
	return k->least;
}

static int add_tree(struct grow *k, uint32_t job, uint32_t server)
{
	const struct fan_cands *c = k->c;
	struct fan_tree *tree = fan_plan_add(k->p, k->t, job, server, 0);
	if (!tree)
		return FAN_E_NOMEM;
	for (uint32_t g = 0; g < c->groups; g++) {
		const struct fan_worker_group *group = &c->group[g];
		uint32_t v = k->choice[g];
		if (group->job != job)
			continue;
		for (uint32_t i = 0; i < group->count; i++)
			fan_cands_flow(c, group,
				       v == c->sums ? k->direct_by[g]
						    : k->to_by[(size_t)g * c->sums + v],
				       &tree->flow[c->member[group->first + i]]);
		if (v != c->sums)
			fan_tree_add_sum(tree, c->sum[v])->route = c->route[k->on_by[v]];
	}
	int err = fan_fit_tree(&k->fit, tree);
	return err ? err : fan_master_add(&k->m, tree);
}

/* Lower the bound: it is what all capacity is worth at these prices, divided by `cost`, the least
 * cost of one Gb/s of rate. */
static void note_bound(struct grow *k, const double *price, double cost)
{
	double worth = 0;
	for (uint32_t r = 0; r < fan_topo_resources(k->t); r++)
		worth += k->limited[r] ? price[r] * k->t->cap[r] : 0;
	if (k->sure && worth / cost < k->bound)
		k->bound = worth / cost;
}

/* Add trees that are cheaper at these prices than those in use.  Returns their number, or an error.
 * `sure`: search for the cheapest. */
static int ask(struct grow *k, const double *price, bool sure)
{
	double all = 0; /* cost of one Gb/s for weight 1 of all jobs */
	int added = 0;
	price_switches(k, price);
	for (uint32_t j = 0; j < k->t->jobs; j++) {
		double limit = fan_master_job_price(&k->m, j), least = INFINITY;
		for (uint32_t s = 0; s < k->t->job[j].servers; s++) {
			if (k->p->trees >= FAN_TREES_MAX * FULL)
				return added;
			price_server(k, price, j, k->t->job[j].server[s]);
			double cost = sure ? find_cheapest(k, j) : find_tree(k, j);
			least = fmin(least, cost);
			if (!(cost < limit * (1 + k->spread) * (1 - CHEAPER)))
				continue;
			int err = add_tree(k, j, k->t->job[j].server[s]);
			if (err)
				return err;
			added++;
		}
		all += k->t->job[j].weight * least;
	}
	if (sure)
		note_bound(k, price, all);
	return added;
}

/* ---- rounds ---- */

static int run(struct grow *k, double enough, uint32_t rounds)
{
	double mark = 0;
	uint32_t idle = 0;
	int err = FAN_OK;
	take_prices(k); /* there are none yet: prices by 1 / capacity */
	if (ask(k, k->price, false) < 0)
		return FAN_E_NOMEM;
	k->spread = k->sure ? SPREAD_SURE : SPREAD;
	for (uint32_t round = 0; round < rounds; round++) {
		err = fan_master_solve(&k->m);
		if (err || k->m.lp.best >= fmin(enough, k->bound * REACHED) ||
		    (double)k->m.steps * k->m.lp.rows > FAN_PACK_WORK)
			break;
		idle++;
		if (k->m.lp.best > mark * (1 + GAIN_MIN)) {
			mark = k->m.lp.best;
			idle = 0;
		}
		take_prices(k);
		int added = ask(k, k->price, k->sure), more = ask(k, k->smooth, false);
		if (added < 0 || more < 0)
			return FAN_E_NOMEM;
		if (added + more > 0 && idle <= IDLE_MAX)
			continue;
		if (k->spread < SPREAD) { /* fitting changed the cheapest: try others */
			k->spread = SPREAD;
			k->sure = false;
			idle = 0;
			continue;
		}
		break;
	}
	return err;
}

static int make_room(struct grow *k)
{
	const struct fan_cands *c = k->c;
	uint32_t resources = fan_topo_resources(k->t);
	size_t pairs = (size_t)c->groups * c->sums + 1;
	k->limited = calloc(resources, sizeof *k->limited);
	k->price = calloc(resources, sizeof *k->price);
	k->smooth = calloc(resources, sizeof *k->smooth);
	k->to = calloc(pairs, sizeof *k->to);
	k->to_by = calloc(pairs, sizeof *k->to_by);
	k->direct = calloc(c->groups + 1, sizeof *k->direct);
	k->direct_by = calloc(c->groups + 1, sizeof *k->direct_by);
	k->on = calloc(c->sums + 1, sizeof *k->on);
	k->on_by = calloc(c->sums + 1, sizeof *k->on_by);
	k->choice = calloc(c->groups + 1, sizeof *k->choice);
	k->trial = calloc(c->groups + 1, sizeof *k->trial);
	k->now = calloc(pairs + c->groups, sizeof *k->now);
	k->later = calloc(pairs + c->groups, sizeof *k->later);
	k->open = calloc(c->sums + 1, sizeof *k->open);
	k->spread = SPREAD;
	return k->now && k->later && k->open && k->limited && k->price && k->smooth && k->to &&
			       k->to_by && k->direct && k->direct_by && k->on && k->on_by &&
			       k->choice && k->trial
		       ? FAN_OK
		       : FAN_E_NOMEM;
}

/* Set the shares of the solution.  The caller drops trees without a share. */
static void set_shares(struct grow *k)
{
	for (uint32_t j = 0; j < k->t->jobs; j++) {
		double sum = 0;
		for (uint32_t i = 0; i < k->p->trees; i++)
			if (k->p->tree[i].job == j)
				sum += fan_master_gbps(&k->m, i);
		for (uint32_t i = 0; i < k->p->trees; i++)
			if (k->p->tree[i].job == j && sum > 0)
				k->p->tree[i].share = fan_master_gbps(&k->m, i) / sum;
	}
}

static void close_grow(struct grow *k)
{
	fan_master_close(&k->m);
	fan_fit_close(&k->fit);
	free(k->limited);
	free(k->price);
	free(k->smooth);
	free(k->to);
	free(k->to_by);
	free(k->direct);
	free(k->direct_by);
	free(k->on);
	free(k->on_by);
	free(k->choice);
	free(k->trial);
	free(k->now);
	free(k->later);
	free(k->open);
}

static int grow(struct grow *k, double enough_gbps, uint32_t rounds)
{
	int err = make_room(k);
	if (!err)
		err = fan_fit_open(&k->fit, k->t);
	if (!err)
		err = start_program(k);
	if (!err)
		err = run(k, enough_gbps, rounds);
	if (!err)
		set_shares(k);
	return err;
}

int fan_trees_grow(const struct fan_cands *c, struct fan_plan *p, double enough_gbps,
		   uint32_t rounds)
{
	struct grow k = {.c = c, .t = c->t, .p = p, .bound = INFINITY};
	int err = grow(&k, enough_gbps, rounds);
	close_grow(&k);
	return err;
}

int fan_trees_exact(const struct fan_cands *c, struct fan_plan *p, uint32_t trees, double *bound)
{
	struct grow k = {.c = c, .t = c->t, .p = p, .bound = INFINITY, .sure = !c->t->results};
	int err = grow(&k, INFINITY, FAN_TREES_MAX);
	k.bound = fmin(k.bound, c->access_gbps);
	*bound = isfinite(k.bound) ? k.bound : 0;
	if (!err)
		err = fan_pack_few(c->t, p, (struct fan_few){trees, 10});
	close_grow(&k);
	return err;
}
