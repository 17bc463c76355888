/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "fit.h"
#include "lp.h"

#define KEEP_OF_TEN 8	 /* trees, in one step towards few */
#define SHARE_MIN   1e-7 /* a tree that carries less is removed */

/* The program while it is built. */
struct pack {
	const struct fan_topo *t;
	struct fan_lp lp;
	int *row;     /* by resource; -1: not needed so far */
	double *need; /* by resource: of one tree */
	bool *seen;   /* by arc: its results pass it */
};

static void count_flow(struct pack *k, const struct fan_flow *f, bool worker)
{
	for (uint32_t i = 0; i < f->route.hops; i++)
		k->need[f->route.arc[i]] += 1;
	if (worker)
		k->need[fan_node_resource(k->t, f->from)] += 1;
	k->need[fan_node_resource(k->t, f->to)] += 1;
}

static void add_tree(struct pack *k, const struct fan_tree *tree)
{
	uint32_t resources = fan_topo_resources(k->t);

	memset(k->need, 0, resources * sizeof *k->need);
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++)
		count_flow(k, &tree->flow[i], i < tree->workers);
	if (k->t->results)
		fan_tree_add_results(k->t, tree, 1, k->seen, k->need);
	fan_lp_col(&k->lp, 0, INFINITY, 0);
	fan_lp_put(&k->lp, (int)tree->job, 1);
	for (uint32_t r = 0; r < resources; r++) {
		if (!(k->need[r] > 0) || !isfinite(k->t->cap[r]))
			continue;
		if (k->row[r] < 0)
			k->row[r] = fan_lp_row(&k->lp, -INFINITY, k->t->cap[r]);
		fan_lp_put(&k->lp, k->row[r], k->need[r]);
	}
}

/* Column 0 is the rate; tree i is column i + 1; row j is job j. */
static int solve(struct pack *k, const struct fan_plan *p)
{
	memset(k->row, 0xff, fan_topo_resources(k->t) * sizeof *k->row);
	for (uint32_t j = 0; j < k->t->jobs; j++)
		fan_lp_row(&k->lp, 0, 0);
	fan_lp_col(&k->lp, 0, FAN_TOPO_GBPS_MAX, 1);
	for (uint32_t j = 0; j < k->t->jobs; j++)
		fan_lp_put(&k->lp, (int)j, -k->t->job[j].weight);
	for (uint32_t i = 0; i < p->trees; i++)
		add_tree(k, &p->tree[i]);
	return fan_lp_solve(&k->lp);
}

static void take_shares(const struct pack *k, struct fan_plan *p)
{
	for (uint32_t j = 0; j < k->t->jobs; j++) {
		double sum = 0, kept = 0;
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j)
				sum += fmax(k->lp.x[i + 1], 0);
		if (!(sum > 0))
			continue; /* nothing can flow: shares stay */
		for (uint32_t i = 0; i < p->trees; i++) {
			if (p->tree[i].job != j)
				continue;
			double share = fmax(k->lp.x[i + 1], 0) / sum;
			p->tree[i].share = share < SHARE_MIN ? 0 : share;
			kept += p->tree[i].share;
		}
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j)
				p->tree[i].share /= kept;
	}
}

static void drop_empty(struct fan_plan *p)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->trees; i++) {
		if (p->tree[i].share > 0)
			p->tree[kept++] = p->tree[i];
		else
			free(p->tree[i].flow);
	}
	p->trees = kept;
}

int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p, double *price, double *job_price)
{
	struct pack k = {.t = t};
	uint32_t resources = fan_topo_resources(t);
	int err = FAN_E_NOMEM;

	fan_lp_init(&k.lp);
	k.row = calloc(resources + 1, sizeof *k.row);
	k.need = calloc(resources + 1, sizeof *k.need);
	k.seen = calloc(2 * (size_t)t->links + 1, sizeof *k.seen);
	if (k.row && k.need && k.seen)
		err = solve(&k, p);
	for (uint32_t r = 0; r < resources && price && !err; r++)
		price[r] = k.row[r] < 0 ? 0 : fabs(k.lp.price[k.row[r]]);
	for (uint32_t j = 0; j < t->jobs && job_price && !err; j++)
		job_price[j] = fabs(k.lp.price[j]);
	if (!err) {
		take_shares(&k, p);
		if (!price)
			drop_empty(p);
	}
	fan_lp_free(&k.lp);
	free(k.row);
	free(k.need);
	free(k.seen);
	return err;
}

/* How many trees on this one's server carry more, or as much and come earlier. */
static uint32_t rank_of(const struct fan_plan *p, uint32_t i)
{
	const struct fan_tree *a = &p->tree[i];
	uint32_t rank = 0;

	for (uint32_t k = 0; k < p->trees; k++) {
		const struct fan_tree *b = &p->tree[k];
		if (b->job == a->job && b->server == a->server &&
		    (b->share > a->share || (b->share == a->share && k < i)))
			rank++;
	}
	return rank;
}

/* How many may stay on this one's server. */
static uint32_t limit_of(const struct fan_topo *t, const struct fan_plan *p, uint32_t i,
			 const struct fan_few *few)
{
	return fan_fit_trees(t, p->tree[i].job, p->tree[i].server, few->most) * few->tenths / 10;
}

/* Take away what carries least until so many parts in ten, or the limit, are left on each server.
 * False: no memory. */
static bool cut(const struct fan_topo *t, struct fan_plan *p, const struct fan_few *few)
{
	bool *drop = calloc(p->trees + 1, sizeof *drop);

	if (!drop)
		return false;
	for (uint32_t i = 0; i < p->trees; i++) {
		uint32_t limit = limit_of(t, p, i, few), all = 0;
		for (uint32_t k = 0; k < p->trees; k++)
			all += p->tree[k].job == p->tree[i].job &&
			       p->tree[k].server == p->tree[i].server;
		uint32_t next = all * KEEP_OF_TEN / 10;
		drop[i] = rank_of(p, i) >= (next > limit ? next : limit);
	}
	for (uint32_t i = 0; i < p->trees; i++)
		if (drop[i])
			p->tree[i].share = 0;
	free(drop);
	drop_empty(p);
	return true;
}

static bool are_few(const struct fan_topo *t, const struct fan_plan *p, const struct fan_few *few)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (rank_of(p, i) >= limit_of(t, p, i, few))
			return false;
	return true;
}

int fan_pack_few(const struct fan_topo *t, struct fan_plan *p, struct fan_few few)
{
	int err = fan_pack_shares(t, p, NULL, NULL);

	while (!err && !are_few(t, p, &few)) {
		if (!cut(t, p, &few))
			return FAN_E_NOMEM;
		err = fan_pack_shares(t, p, NULL, NULL);
	}
	return err;
}
