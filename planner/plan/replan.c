/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "eval.h"
#include "fit.h"
#include "steps.h"

#define ROUTES_MAX  60000 /* candidate routes of all pairs: fewer than for a new plan */
#define GROW_ROUNDS 12	  /* rounds of column generation */
#define SEARCH_WORK 3e6	  /* routes tried by local search */
#define SEARCHES    4	  /* rounds of local search and new shares */
#define MEND_PASSES 3	  /* passes over the trees that lost flows */
#define GAIN_MIN    1e-6  /* relative: flows do not move for a smaller gain */

static bool is_dead(const struct fan_topo *t, const struct fan_flow *f)
{
	if (f->to == FAN_NODE_NONE || !(t->cap[fan_node_resource(t, f->to)] > 0))
		return true;
	for (uint32_t i = 0; i < f->route.hops; i++)
		if (!(t->cap[f->route.arc[i]] > 0))
			return true;
	return false;
}

/* Remove flows over resources without capacity, and those to sums whose switch or route is gone. */
static void cut_dead(const struct fan_topo *t, struct fan_tree *tree)
{
	struct fan_flow *sum = tree->flow + tree->workers;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < tree->sums; i++)
		if (!is_dead(t, &sum[i]) && fan_node_sums(t, sum[i].from) &&
		    t->cap[fan_node_resource(t, sum[i].from)] > 0)
			sum[kept++] = sum[i];
	tree->sums = kept;
	kept = 0;
	for (uint32_t i = 0; i < tree->sums; i++) /* remove sums that go to a removed one */
		if (sum[i].to == tree->server || fan_tree_sum(tree, sum[i].to))
			sum[kept++] = sum[i];
	tree->sums = kept;
	for (uint32_t w = 0; w < tree->workers; w++) {
		struct fan_flow *f = &tree->flow[w];
		if (is_dead(t, f) || (f->to != tree->server && !fan_tree_sum(tree, f->to))) {
			f->to = FAN_NODE_NONE;
			f->route.hops = 0;
		}
	}
	fan_tree_prune(tree);
}

/* Add a tree on each server where a job has none, and make its shares add up to 1 again. */
static int add_missing(const struct fan_topo *t, struct fan_plan *p)
{
	for (uint32_t j = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		double sum = 0;
		for (uint32_t s = 0; s < job->servers; s++) {
			bool has = false;
			for (uint32_t i = 0; i < p->trees && !has; i++)
				has = p->tree[i].job == j && p->tree[i].server == job->server[s];
			if (!has && !fan_plan_add(p, t, j, job->server[s], 1.0 / job->servers))
				return FAN_E_NOMEM;
		}
		for (uint32_t i = 0; i < p->trees; i++)
			sum += p->tree[i].job == j ? p->tree[i].share : 0;
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j && sum > 0)
				p->tree[i].share /= sum;
	}
	return FAN_OK;
}

/* Place all flows of tree `i` again, at the `count` switches of `open`. */
static int fill_again(const struct fan_cands *c, struct fan_plan *p, uint32_t i,
		      const uint32_t *open, uint32_t count)
{
	struct fan_tree *tree = &p->tree[i];
	tree->sums = 0;
	for (uint32_t w = 0; w < tree->workers; w++) {
		tree->flow[w].to = FAN_NODE_NONE;
		tree->flow[w].route.hops = 0;
	}
	return fan_search_fill(c, p, i, open, count);
}

/* Try other switches for a tree, first each alone, then all: local search would not find them,
 * since no single worker gains by moving there. */
static int consolidate(const struct fan_topo *t, const struct fan_cands *c, struct fan_plan *p,
		       uint32_t i)
{
	uint32_t most = c->sums < FAN_CANDIDATES_LARGE ? c->sums : FAN_CANDIDATES_LARGE;
	double best = fan_eval_gbps(t, p);
	uint32_t all[FAN_CANDIDATES_LARGE];
	struct fan_plan other;
	int err = FAN_OK;
	for (uint32_t v = 0; v < most; v++)
		all[v] = v;
	for (uint32_t v = 0; v <= most && !err; v++) {
		err = fan_plan_copy(&other, p);
		if (!err)
			err = v < most ? fill_again(c, &other, i, &all[v], 1)
				       : fill_again(c, &other, i, all, most);
		if (!err)
			err = fan_fit_plan(t, &other);
		double gbps = err ? 0 : fan_eval_gbps(t, &other);
		if (gbps > best * (1 + GAIN_MIN)) {
			best = gbps;
			fan_plan_free(p);
			fan_plan_move(p, &other);
		}
		fan_plan_free(&other);
	}
	return err;
}

/* With one tree on each server no other tree can take over its share, so flows have to move. */
static int search_again(const struct fan_topo *t, const struct fan_cands *c,
			const struct fan_plan_options *o, struct fan_plan *p)
{
	double work = 0;
	for (uint32_t i = 0; i < p->trees; i++)
		work += (double)p->tree[i].workers * (c->sums + 1) * o->paths;
	uint32_t passes = (uint32_t)fmin(SEARCH_WORK / work, FAN_SEARCH_PASSES);
	int err = FAN_OK;
	if (o->trees > 1 || passes == 0)
		return FAN_OK;
	for (uint32_t i = 0; i < SEARCHES && !err; i++) {
		for (uint32_t k = 0; k < p->trees && !err; k++)
			err = consolidate(t, c, p, k);
		if (!err)
			err = fan_search(c, p, i % 2 ? FAN_MOVE_PLACE : FAN_MOVE_OPEN, passes);
		if (!err)
			err = fan_fit_plan(t, p);
		if (!err)
			err = fan_pack_shares(t, p);
	}
	return err;
}

/* Add the trees of switchml, without shares, to grow from: prices leave results to workers out, and
 * do not find such trees where results count. */
static int add_simple(const struct fan_topo *t, const struct fan_plan_options *o,
		      struct fan_plan *p)
{
	struct fan_plan_options one = *o;
	struct fan_planned how = {0};
	struct fan_plan q;
	one.paths = 1;
	int err = fan_switchml(t, &one, &q, &how);
	for (uint32_t i = 0; i < q.trees && !err && p->trees < FAN_TREES_MAX / 2; i++) {
		struct fan_tree *to = fan_plan_add_like(p, t, &q.tree[i]);
		if (to)
			to->share = 0;
		else
			err = FAN_E_NOMEM;
	}
	fan_plan_free(&q);
	return err == FAN_E_NOMEM ? err : FAN_OK;
}

int fan_replan(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p)
{
	struct fan_cands c = {0};
	int err = add_missing(t, p);
	for (uint32_t i = 0; i < p->trees; i++)
		cut_dead(t, &p->tree[i]);
	if (!err)
		err = fan_cands_open_bounded(&c, t, o->paths, ROUTES_MAX);
	if (!err)
		err = fan_search_mend(&c, p);
	if (!err)
		err = fan_fit_plan(t, p);
	if (!err)
		err = search_again(t, &c, o, p);
	if (!err && o->trees > 1)
		err = add_simple(t, o, p);
	if (!err && o->trees > 1)
		err = fan_trees_grow(&c, p, FAN_TOPO_GBPS_MAX, GROW_ROUNDS);
	if (!err)
		err = fan_pack_few(t, p, (struct fan_few){o->trees, 10});
	if (err)
		fan_plan_free(p);
	fan_cands_close(&c);
	return err;
}

/* Move flows by local search, with shares kept, if that gives more than `worth` times the rate. */
static int search_paths(const struct fan_topo *t, const struct fan_cands *c, struct fan_plan *p,
			double worth)
{
	struct fan_plan other;
	int err = fan_plan_copy(&other, p);
	if (!err)
		err = fan_search(c, &other, FAN_MOVE_OPEN, FAN_SEARCH_PASSES);
	if (!err)
		err = fan_fit_plan(t, &other);
	if (!err && fan_eval_gbps(t, &other) > fan_eval_gbps(t, p) * worth)
		fan_plan_move(p, &other);
	fan_plan_free(&other);
	return err;
}

static bool is_cut(const struct fan_tree *tree)
{
	for (uint32_t w = 0; w < tree->workers; w++)
		if (tree->flow[w].to == FAN_NODE_NONE)
			return true;
	return false;
}

int fan_replan_paths(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		     double worth, bool look)
{
	struct fan_cands c = {0};
	bool lost[FAN_TREES_MAX] = {false}, any = look;
	int err = FAN_OK;
	for (uint32_t i = 0; i < p->trees; i++) {
		cut_dead(t, &p->tree[i]);
		lost[i] = is_cut(&p->tree[i]);
		any |= lost[i];
	}
	if (!p->trees || !any)
		return FAN_OK;
	err = fan_cands_open_bounded(&c, t, o->paths, ROUTES_MAX);
	if (!err)
		err = fan_search_mend(&c, p);
	if (!err)
		err = fan_fit_plan(t, p);
	for (uint32_t n = 0; n < MEND_PASSES * p->trees && !err; n++)
		if (lost[n % p->trees])
			err = consolidate(t, &c, p, n % p->trees);
	if (!err)
		err = search_paths(t, &c, p, worth);
	if (err)
		fan_plan_free(p);
	fan_cands_close(&c);
	return err;
}
