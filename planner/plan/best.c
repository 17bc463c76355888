/* SPDX-License-Identifier: Apache-2.0 */
/* best.c - the best plan of all algorithms, improved.
 *
 * The plans of all other algorithms are starting points.  With one tree on each server `exact` runs
 * last, with tight bounds, if the instance is small and the bound is not reached.  Further starting
 * points put all workers on a few switches, since each switch costs a flow to the server; several
 * numbers of switches are tried.  Local search moves single flows, and a linear program splits the
 * model again.  Then, unless there is to be one tree on each server, all trees seen so far go into
 * one program, and column generation adds more; see trees.c. */
#include <assert.h>
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

#define ROUTES_MAX     150000 /* candidate routes of all pairs */
#define DRAWS	       4   /* sets of switches of each size: the highest capacities, then random */
#define WORK_MAX       5e6 /* routes tried by local search from one start */
#define ENOUGH	       0.999 /* of the bound: when the search stops */
#define SHAKES_MAX     400
#define SHAKE_WORK_MAX 1e7
#define POLISH	       3	  /* most rounds of local search and a new split at the end */
#define SETTLE	       40	  /* most rounds of local search and new shares over all trees */
#define MANY	       80	  /* tenths of the trees allowed, at the start of thinning out */
#define MANY_FLOWS     16384	  /* most flows of workers in them; lowers MANY, to 10 at least */
#define AGAIN	       12	  /* times that trees are added to the best plan */
#define AGAIN_ROUNDS   12	  /* rounds of pricing each time */
#define AGAIN_MANY     30	  /* as MANY, each time */
#define AGAIN_WITHOUT  3	  /* one tree in this many is removed after no gain */
#define GROW_ROUNDS    4	  /* rounds of pricing for each tree allowed */
#define SETTLE_WORK    1e8	  /* routes tried in all rounds of settle together */
#define SETTLED	       1e-4	  /* relative: a smaller gain counts as none */
#define REACHED	       (1 - 1e-6) /* of the bound: counts as reached */
#define SAME	       1e-9	  /* relative: a smaller difference counts as none */
#define EXACT_SMALL    12	  /* most flows for which `exact` runs with one tree */

/* The sizes of sets of switches to try. */
static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 32, 48, 64};

struct best {
	const struct fan_topo *t;
	const struct fan_plan_options *o;
	struct fan_cands c;
	struct fan_rng rng;
	struct fan_rules rules;
	struct fan_fit fit;
	struct fan_plan *p;  /* the best so far */
	double gbps, links;  /* its rate, and its links_of */
	struct fan_plan all; /* every tree seen; no valid plan, as shares are 0 */
	uint32_t flows;
	double work;	/* used of SETTLE_WORK */
	uint32_t *open; /* switches of one set, numbers of candidates */
};

/* Keep a copy of each tree for the program over all trees. */
static int remember(struct best *b, const struct fan_plan *p)
{
	if (b->o->trees <= 1 || p->trees + b->all.trees > FAN_TREES_MAX / 2)
		return FAN_OK;
	for (uint32_t i = 0; i < p->trees; i++) {
		struct fan_tree *to = fan_plan_add_like(&b->all, b->t, &p->tree[i]);
		if (!to)
			return FAN_E_NOMEM;
		to->share = 0;
	}
	return FAN_OK;
}

static int fit(struct best *b, struct fan_plan *p)
{
	int err = FAN_OK;
	for (uint32_t i = 0; i < p->trees && !err; i++)
		err = fan_fit_tree(&b->fit, &p->tree[i]);
	return err;
}

/* The links that all flows of a plan pass, weighted by share: of plans of equal rate, the one with
 * fewest is best. */
static double links_of(const struct fan_plan *p)
{
	double sum = 0;
	for (uint32_t i = 0; i < p->trees; i++)
		for (uint32_t f = 0; f < p->tree[i].workers + p->tree[i].sums; f++)
			sum += p->tree[i].share * p->tree[i].flow[f].route.hops;
	return sum;
}

/* Judge a fitted plan, and keep it if it is better.  Consumes `*p` in any case. */
static int judge(struct best *b, struct fan_plan *p)
{
	double gbps = fan_eval_gbps(b->t, p), links = links_of(p);
	int err = gbps < 0 ? (int)gbps : remember(b, p);
	bool as_good = gbps > b->gbps * (1 - SAME) && links < b->links * (1 - SAME);
	if (!err && (gbps > b->gbps * (1 + SAME) || as_good)) {
		b->gbps = gbps;
		b->links = links;
		fan_plan_move(b->p, p);
	}
	fan_plan_free(p);
	return err;
}

static int offer(struct best *b, struct fan_plan *p)
{
	int err = fit(b, p);
	if (err)
		fan_plan_free(p);
	return err ? err : judge(b, p);
}

/* Offer the plan after local search and a new split.  Consumes `*p`. */
static int offer_improved(struct best *b, struct fan_plan *p, enum fan_moves moves, uint32_t passes)
{
	int err = fan_search(&b->c, p, moves, passes);
	if (!err)
		err = fit(b, p);
	if (!err)
		err = fan_pack_shares(b->t, p);
	if (err)
		fan_plan_free(p);
	return err ? err : judge(b, p);
}

/* How many passes of local search WORK_MAX allows, with `places` to try for each flow. */
static uint32_t passes_for(const struct best *b, uint32_t places)
{
	double work = (double)b->flows * places * b->o->paths;
	double passes = WORK_MAX / work;
	return passes < 1 ? 1 : passes > FAN_SEARCH_PASSES ? FAN_SEARCH_PASSES : (uint32_t)passes;
}

/* Is the plan's number of trees with a share within these bounds, for every job and server? */
static bool has_tree_counts(const struct fan_topo *t, const struct fan_plan *p, uint32_t most)
{
	for (uint32_t i = 0; i < p->trees; i++) {
		uint32_t n = 0;
		for (uint32_t k = 0; k < p->trees; k++)
			n += p->tree[k].job == p->tree[i].job &&
			     p->tree[k].server == p->tree[i].server && p->tree[k].share > 0;
		if (n > fan_fit_trees(t, p->tree[i].job, p->tree[i].server, most))
			return false;
	}
	return true;
}

/* Start from a copy of o->start, if there is one. */
static int start_from_given(struct best *b)
{
	struct fan_plan p;
	if (!b->o->start)
		return FAN_OK;
	int err = fan_plan_copy(&p, b->o->start);
	if (!err && !has_tree_counts(b->t, &p, b->o->trees))
		err = fan_pack_few(b->t, &p, (struct fan_few){b->o->trees, 10});
	if (err)
		fan_plan_free(&p);
	return err ? err : offer(b, &p);
}

static bool is_split_equally(const struct fan_topo *t, const struct fan_plan *p)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (fabs(p->tree[i].share * t->job[p->tree[i].job].servers - 1) > SAME)
			return false;
	return true;
}

/* Start from the plan of another algorithm, both unchanged and improved.  An algorithm for which
 * the instance is too large is left out.  `*equal`: the plan splits the model equally. */
static int start_from(struct best *b, fan_algorithm_run *run, bool *equal)
{
	struct fan_planned how = {0};
	struct fan_plan p, again;
	int err = run(b->t, b->o, &p, &how);
	*equal = false;
	if (err)
		return err == FAN_E_BUSY || err == FAN_E_STALLED ? FAN_OK : err;
	*equal = is_split_equally(b->t, &p);
	err = fan_plan_copy(&again, &p);
	if (!err)
		err = offer_improved(b, &again, FAN_MOVE_PLACE, passes_for(b, 8));
	if (!err)
		return offer(b, &p);
	fan_plan_free(&p);
	return err;
}

/* Does `exact` use column generation, which takes milliseconds? */
static bool has_columns(const struct best *b)
{
	return b->o->trees > 1 && !b->t->results;
}

/* Start from the plans of all other algorithms, except `exact` if it would take long.  If inart
 * splits the model equally, grid has the same plan. */
static int start_from_others(struct best *b)
{
	bool several = fan_relax_servers(b->t) > 1, equal = false;
	int err = FAN_OK;
	for (uint32_t i = 0; i < fan_algorithm_count && !err; i++) {
		const struct fan_algorithm *a = &fan_algorithms[i];
		if (a->run != fan_best && (a->run != fan_exact || has_columns(b)) &&
		    a->run != fan_grid && a->run != fan_inart)
			err = start_from(b, a->run, &equal);
	}
	if (!err && several)
		err = start_from(b, fan_inart, &equal);
	if (!err && (!several || !equal))
		err = start_from(b, fan_grid, &equal);
	return err;
}

/* Permute the `n` numbers at `at` at random. */
static void shuffle(struct fan_rng *r, uint32_t *at, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)fan_rng_below(r, i), x = at[k];
		at[k] = at[i - 1];
		at[i - 1] = x;
	}
}

/* Order the candidates in b->open by capacity, for draw 0; draw 1 shuffles the first 2 * `n`,
 * further draws shuffle all. */
static void draw(struct best *b, uint32_t n, uint32_t number)
{
	for (uint32_t v = 0; v < b->c.sums; v++)
		b->open[v] = v;
	if (number > 0)
		shuffle(&b->rng, b->open, number == 1 && 2 * n < b->c.sums ? 2 * n : b->c.sums);
}

/* Start from all workers on `n` switches: for each server the next ones of the draw. */
static int consolidate(struct best *b, uint32_t n, uint32_t number)
{
	struct fan_plan p;
	uint32_t used = 0;
	int err = FAN_OK;
	p = (struct fan_plan){0};
	draw(b, n, number);
	for (uint32_t j = 0; j < b->t->jobs && !err; j++) {
		const struct fan_job *job = &b->t->job[j];
		for (uint32_t s = 0; s < job->servers && !err; s++) {
			if (!fan_plan_add(&p, b->t, j, job->server[s], 1.0 / job->servers))
				err = FAN_E_NOMEM;
			if (used + n > b->c.sums)
				used = 0;
			if (!err)
				err = fan_search_fill(&b->c, &p, p.trees - 1, b->open + used, n);
			used += n;
		}
	}
	if (err) {
		fan_plan_free(&p);
		return err;
	}
	return offer_improved(b, &p, FAN_MOVE_PLACE, passes_for(b, n));
}

static int start_from_few(struct best *b)
{
	int err = FAN_OK;
	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0] && !err; i++) {
		bool small = passes_for(b, sizes[i]) == FAN_SEARCH_PASSES;
		if (sizes[i] > b->c.sums)
			break;
		for (uint32_t k = 0; k < (small ? DRAWS : 1) && !err; k++)
			err = consolidate(b, sizes[i], k);
	}
	return err;
}

static int polish(struct best *b)
{
	for (unsigned i = 0; i < POLISH; i++) {
		struct fan_plan p;
		double before = b->gbps;
		int err = fan_plan_copy(&p, b->p);
		if (!err)
			err = offer_improved(b, &p, i ? FAN_MOVE_PLACE : FAN_MOVE_OPEN,
					     passes_for(b, i ? 8 : b->c.sums));
		if (err || !(b->gbps > before))
			return err;
	}
	return FAN_OK;
}

/* Send some workers of a tree, at random intervals, or all workers of one switch, to a random
 * switch or to the server, over the first route. */
static void shake(struct best *b, struct fan_tree *tree)
{
	uint32_t every = 2 + (uint32_t)fan_rng_below(&b->rng, tree->workers);
	uint32_t first = (uint32_t)fan_rng_below(&b->rng, every);
	uint32_t v = (uint32_t)fan_rng_below(&b->rng, b->c.sums + 1);
	uint32_t leave =
		tree->sums ? tree->flow[tree->workers + fan_rng_below(&b->rng, tree->sums)].from
			   : FAN_NODE_NONE;
	bool closes = fan_rng_below(&b->rng, 2);
	assert(every > 0);

	for (uint32_t w = 0; w < tree->workers; w++)
		if (closes ? tree->flow[w].to == leave : w % every == first)
			fan_rules_send(&b->rules, tree, w,
				       v < b->c.sums ? b->c.sum[v] : tree->server);
	fan_tree_prune(tree);
}

/* Leave a local optimum: change trees at random, and search again. */
static int shake_and_search(struct best *b)
{
	double work = (double)b->flows * (b->c.sums + 1) * b->o->paths;
	uint32_t times = (uint32_t)fmin(SHAKE_WORK_MAX / work, SHAKES_MAX);
	int err = FAN_OK;
	for (uint32_t i = 0; i < times && !err; i++) {
		struct fan_plan p;
		err = fan_plan_copy(&p, b->p);
		for (uint32_t k = 0; k < p.trees && !err; k++)
			shake(b, &p.tree[k]);
		if (!err)
			err = offer_improved(b, &p, i % 2 ? FAN_MOVE_OPEN : FAN_MOVE_PLACE,
					     FAN_SEARCH_PASSES);
	}
	return err;
}

/* Move flows by local search, as far as SETTLE_WORK allows, and set shares again. */
static int settle(struct best *b, struct fan_plan *p, enum fan_moves moves, uint32_t tenths)
{
	double places = 0;
	for (uint32_t i = 0; i < p->trees; i++)
		places += (double)p->tree[i].workers *
			  (1 + (moves == FAN_MOVE_OPEN ? b->c.sums : p->tree[i].sums));
	double passes = fmin((SETTLE_WORK - b->work) / (places * b->o->paths), FAN_SEARCH_PASSES);
	if (passes < 1)
		return fan_pack_few(b->t, p, (struct fan_few){b->o->trees, tenths});
	b->work += passes * places * b->o->paths;
	int err = fan_search(&b->c, p, moves, (uint32_t)passes);
	if (!err)
		err = fit(b, p);
	if (!err)
		err = fan_pack_few(b->t, p, (struct fan_few){b->o->trees, tenths});
	return err;
}

/* Reduce the trees step by step from `tenths` tenths of the number allowed to that number, and
 * offer the plan.  Consumes `*p`. */
static int thin_out(struct best *b, struct fan_plan *p, uint32_t tenths, double bound)
{
	int err = fan_pack_few(b->t, p, (struct fan_few){b->o->trees, tenths});
	while (!err && tenths > 10) {
		tenths = tenths > 12 ? tenths * 8 / 10 : 10;
		err = settle(b, p, FAN_MOVE_PLACE, tenths);
	}
	for (unsigned i = 0; i < SETTLE && !err; i++) {
		double before = fan_eval_gbps(b->t, p);
		if (before > bound * ENOUGH)
			break;
		err = settle(b, p, i % 2 ? FAN_MOVE_OPEN : FAN_MOVE_PLACE, 10);
		if (!(fan_eval_gbps(b->t, p) > before * (1 + SETTLED)) && i % 2)
			break;
	}
	if (err)
		fan_plan_free(p);
	return err ? err : offer(b, p);
}

/* MANY, or fewer if trees have so many flows that local search would take long. */
static uint32_t many(const struct best *b)
{
	double may = 0;
	for (uint32_t j = 0; j < b->t->jobs; j++)
		for (uint32_t s = 0; s < b->t->job[j].servers; s++)
			may += (double)b->t->job[j].workers *
			       fan_fit_trees(b->t, j, b->t->job[j].server[s], b->o->trees);
	double tenths = 10 * MANY_FLOWS / may;

	return tenths < 10 ? 10 : tenths < MANY ? (uint32_t)tenths : MANY;
}

/* Remove one tree in AGAIN_WITHOUT at random; the last tree of a job on a server stays. */
static void free_some(struct best *b, struct fan_plan *p)
{
	for (uint32_t i = p->trees; i-- > 0;) {
		const struct fan_tree *a = &p->tree[i];
		uint32_t alike = 0;
		for (uint32_t k = 0; k < p->trees; k++)
			alike += p->tree[k].job == a->job && p->tree[k].server == a->server;
		if (alike < 2 || fan_rng_below(&b->rng, AGAIN_WITHOUT) != 0)
			continue;
		free(p->tree[i].flow);
		p->tree[i] = p->tree[--p->trees];
	}
}

/* Add trees to a copy of the best plan by column generation, and thin them out.  `frees`: first
 * remove some trees, since growing from the same plan again would change nothing. */
static int once_more(struct best *b, double bound, bool frees)
{
	struct fan_plan p;
	int err = fan_plan_copy(&p, b->p);
	if (!err && frees)
		free_some(b, &p);
	if (!err)
		err = fan_trees_grow(&b->c, &p, bound * ENOUGH, AGAIN_ROUNDS);
	if (!err)
		return thin_out(b, &p, AGAIN_MANY, bound);
	fan_plan_free(&p);
	return err;
}

/* Add trees to all trees seen and thin them out; then add more to the best plan, several times. */
static int many_trees(struct best *b, double bound)
{
	struct fan_plan p;
	uint32_t rounds = 0;
	bool frees = false;
	for (uint32_t j = 0; j < b->t->jobs; j++)
		for (uint32_t s = 0; s < b->t->job[j].servers; s++)
			rounds += GROW_ROUNDS *
				  fan_fit_trees(b->t, j, b->t->job[j].server[s], b->o->trees);
	rounds = rounds < FAN_PACK_ROUNDS ? rounds : FAN_PACK_ROUNDS;
	int err = fan_trees_grow(&b->c, &b->all, bound * ENOUGH, rounds);
	if (!err) {
		p = b->all;
		b->all = (struct fan_plan){0};
		err = thin_out(b, &p, many(b), bound);
	}
	for (unsigned i = 0; i < AGAIN && !err && b->gbps < bound * ENOUGH && b->work < SETTLE_WORK;
	     i++) {
		double before = b->gbps;
		err = once_more(b, bound, frees);
		frees = !(b->gbps > before * (1 + SETTLED));
	}
	return err == FAN_E_STALLED || err == FAN_E_INVALID ? FAN_OK : err; /* keep the old plan */
}

/* Offer the plan of `exact`, with bounds that keep it short. */
static int end_with_exact(struct best *b)
{
	struct fan_plan_options o = *b->o;
	struct fan_planned how = {0};
	struct fan_plan p;
	o.nodes = FAN_BEST_NODES;
	o.choices = FAN_BEST_CHOICES;
	int err = fan_exact(b->t, &o, &p, &how);
	if (err == FAN_E_BUSY || err == FAN_E_STALLED)
		return FAN_OK;
	return err ? err : offer(b, &p);
}

static int find(struct best *b)
{
	double bound = fan_bound_closed(&b->c);
	int err = start_from_given(b);
	if (!err)
		err = start_from_others(b);
	if (!err && b->gbps < bound * ENOUGH)
		err = start_from_few(b);
	if (!err && b->gbps < bound * ENOUGH)
		err = polish(b);
	if (!err && b->gbps < bound * ENOUGH && b->c.sums)
		err = shake_and_search(b);
	if (!err && b->o->trees > 1 && b->gbps < bound * ENOUGH)
		err = many_trees(b, bound);
	if (!err && !has_columns(b) && b->flows <= EXACT_SMALL && b->gbps < bound * REACHED)
		err = end_with_exact(b);
	return err;
}

int fan_best(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	     struct fan_planned *how)
{
	struct best b = {.t = t, .o = o, .rng = {o->seed}, .p = p, .gbps = -1};
	struct fan_plan_options one = *o;
	int err = fan_cands_open_bounded(&b.c, t, o->paths, ROUTES_MAX);
	(void)how;
	*p = (struct fan_plan){0};
	if (err)
		return err;
	one.paths = 1;
	one.sums_at = FAN_SUMS_NEAREST;
	for (uint32_t j = 0; j < t->jobs; j++)
		b.flows += t->job[j].workers * t->job[j].servers;
	b.open = calloc(b.c.sums + 1, sizeof *b.open);
	err = b.open ? fan_rules_open(&b.rules, t, &one) : FAN_E_NOMEM;
	if (!err)
		err = fan_fit_open(&b.fit, t);
	if (!err)
		err = find(&b);
	fan_fit_close(&b.fit);
	if (err)
		fan_plan_free(p);
	fan_plan_free(&b.all);
	fan_cands_close(&b.c);
	fan_rules_close(&b.rules);
	free(b.open);
	return err;
}
