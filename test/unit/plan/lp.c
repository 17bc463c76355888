/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <assert.h>
#include <math.h>

#include "plan/algorithm.h"
#include "plan/lp.h"
#include "plan/relax.h"
#include "plan/steps.h"
#include "rig.h"

/* max 3a + 2b; a + b <= 4; a + 3b <= 6; a <= 3 */
static void fill(struct fan_lp *lp, bool whole)
{
	*lp = (struct fan_lp){0};
	int one = fan_lp_row(lp, -INFINITY, 4.5), two = fan_lp_row(lp, -INFINITY, 6);
	if (whole)
		fan_lp_whole(lp, 0, 3, 3);
	else
		fan_lp_col(lp, 0, 3, 3);
	fan_lp_put(lp, one, 1);
	fan_lp_put(lp, two, 1);
	if (whole)
		fan_lp_whole(lp, 0, INFINITY, 2);
	else
		fan_lp_col(lp, 0, INFINITY, 2);
	fan_lp_put(lp, one, 1);
	fan_lp_put(lp, two, 3);
}

TEST(lp__solves)
{
	struct fan_lp lp;
	fill(&lp, false);
	assert_int_equal(fan_lp_solve(&lp), FAN_OK);
	assert_near(lp.best, 11, 1e-9);
	assert_near(lp.x[0], 3, 1e-9);
	assert_near(lp.x[1], 1, 1e-9);
	assert_near(fabs(lp.price[1]), 2.0 / 3, 1e-9);
	fan_lp_free(&lp);
}

TEST(lp__solves_whole_numbers)
{
	struct fan_lp lp;
	fill(&lp, true);
	lp.row_high[1] = 5; /* b = 2/3 if it may be */
	assert_int_equal(fan_lp_solve_whole(&lp, FAN_EXACT_NODES_MAX), FAN_OK);
	assert_near(lp.best, 9, 1e-9);
	assert_near(lp.bound, 9, 1e-9);
	fan_lp_free(&lp);
}

TEST(lp__goes_on_with_more_columns)
{
	struct fan_lp lp;
	uint64_t steps = 0;
	fill(&lp, false);
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 11, 1e-9);
	fan_lp_col(&lp, 0, INFINITY, 5);
	fan_lp_put(&lp, 1, 1);
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 30, 1e-9); /* 6 of the new one */
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 30, 1e-9);
	fan_lp_free(&lp);
}

TEST(lp__says_when_there_is_no_solution)
{
	struct fan_lp lp;
	fill(&lp, false);
	lp.row_low[0] = lp.row_high[0] = -1;
	assert_int_equal(fan_lp_solve(&lp), FAN_E_INVALID);
	fan_lp_free(&lp);
	fan_lp_row(&lp, 0, INFINITY);
	fan_lp_col(&lp, 0, INFINITY, 1);
	fan_lp_put(&lp, 0, 1);
	assert_int_equal(fan_lp_solve(&lp), FAN_E_INVALID);
	fan_lp_free(&lp);
}

/* ---- master: the program of shares, whose rows come as they are needed, against the evaluator.
 * ---- */

#define SEEDS 6

static void make(struct fan_topo *t, unsigned seed, bool results)
{
	char text[160];
	snprintf(text, sizeof text,
		 "leaf-spine:leaves=5,spines=3,workers=24,servers=2,link=10,server=20,"
		 "programmable=0.7,switch=10,switch_max=60,seed=%u",
		 seed);
	*t = rig_make(text);
	t->results = results;
}

static void add_all(struct fan_master *m, struct fan_plan *all, const struct fan_topo *t,
		    const char *name, double *best)
{
	struct fan_planned how = {0};
	PLAN p;
	assert_int_equal(fan_algorithm_find(name, NULL)->run(t, &fan_plan_defaults, &p, &how),
			 FAN_OK);
	*best = fmax(*best, fan_eval_gbps(t, &p));
	for (uint32_t i = 0; i < p.trees; i++) {
		assert_int_equal(fan_master_add(m, &p.tree[i]), FAN_OK);
		struct fan_tree *tree = fan_plan_add(all, t, 0, p.tree[i].server, 0);
		assert_non_null(tree);
		tree->sums = p.tree[i].sums;
		memcpy(tree->flow, p.tree[i].flow,
		       (tree->workers + tree->sums) * sizeof *tree->flow);
	}
}

/* After each algorithm's trees: as much as the evaluator finds with these shares, which would be
 * less if a row were missing; and more than each plan by itself. */
TEST(master__the_rate_is_what_the_shares_give)
{
	static const char *const names[] = {"geryon", "atp", "switchml", "grid"};
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		TOPO t;
		struct fan_master m;
		PLAN all;
		double best = 0;
		make(&t, seed, seed % 2);
		all = (struct fan_plan){0};
		assert_int_equal(fan_master_open(&m, &t, FAN_TOPO_GBPS_MAX), FAN_OK);
		for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
			add_all(&m, &all, &t, names[i], &best);
			assert_int_equal(fan_master_solve(&m), FAN_OK);
			for (uint32_t k = 0; k < all.trees; k++)
				all.tree[k].share = fan_master_gbps(&m, k) / m.lp.best;
			assert_near(fan_eval_gbps(&t, &all), m.lp.best, 1e-6 * m.lp.best);
			assert_true(m.lp.best >= best * (1 - 1e-9));
		}
		fan_master_close(&m);
	}
}

/* What all that is full is worth, is the rate. */
TEST(master__prices_pay_for_the_rate)
{
	TOPO t;
	struct fan_master m;
	PLAN all;
	double best = 0, worth = 0;
	make(&t, 1, true);
	all = (struct fan_plan){0};
	assert_int_equal(fan_master_open(&m, &t, FAN_TOPO_GBPS_MAX), FAN_OK);
	assert_true(isinf(fan_master_job_price(&m, 0)));
	add_all(&m, &all, &t, "atp", &best);
	add_all(&m, &all, &t, "grid", &best);
	assert_int_equal(fan_master_solve(&m), FAN_OK);
	for (uint32_t r = 0; r < fan_topo_resources(&t); r++)
		if (fan_master_price(&m, r) > 0)
			worth += fan_master_price(&m, r) * t.cap[r];
	assert_near(worth, m.lp.best, 1e-6 * m.lp.best);
	fan_master_close(&m);
}

/* ---- bound ---- */

static void open_cands(struct fan_cands *c, const struct fan_topo *t, uint32_t paths)
{
	struct fan_cands_options o = {.paths = paths};
	assert_int_equal(fan_cands_open(c, t, &o), 0);
}

static double relaxed(const struct fan_cands *c)
{
	struct fan_relax r;
	assert_int_equal(fan_relax_open(&r, c, NULL), 0);
	assert_int_equal(fan_relax_solve(&r, false), 0);
	double gbps = r.gbps;
	fan_relax_close(&r);
	return gbps;
}

/* GRID's program without links, solved by hand: from numbers, not from the topology. */
static double closed_form(double n, double access, double server, double switches)
{
	double y = fmin(server, switches / n);
	return fmin(access, y + (server - y) / n);
}

/* Links so wide that only switches, the server and what workers send count. */
TEST(bound__closed_form_without_links)
{
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 200; i++) {
		char make[256];
		uint32_t workers = (uint32_t)rng_range(&rng, 1, 30);
		double cap = 1 + (double)fan_rng_below(&rng, 300) / 7;
		double server = 1 + (double)fan_rng_below(&rng, 300) / 3;
		double access = 1 + (double)fan_rng_below(&rng, 60) / 7;
		snprintf(make, sizeof make,
			 "leaf-spine:leaves=3,spines=2,hosts=40,workers=%u,link=1e6,server=%.17g,"
			 "switch=%.17g,seed=%u",
			 workers, server, cap, i);
		TOPO t = rig_make(make);
		CANDS c;
		for (uint32_t k = 0; k < t.nodes; k++)
			if (t.node[k].kind == FAN_NODE_WORKER)
				t.node[k].gbps = access;
		rig_refresh(&t);
		open_cands(&c, &t, 8);
		double want = closed_form(workers, access, server, 5 * cap);
		assert_near(fan_bound_closed(&c), want, 1e-9);
		assert_near(relaxed(&c), want, 1e-6);
		assert_near(fan_bound(&c, false), want, 1e-6);
	}
}

/* Over all routes, flows by target and volumes by route are the same program. */
TEST(bound__flows_and_routes_agree)
{
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 60; i++) {
		char make[256];
		snprintf(make, sizeof make,
			 "%s,workers=%u,servers=%u,link=%u,server=%u,switch=%u,switch_max=%u,"
			 "programmable=0.%u,seed=%u",
			 i % 2 ? "triangle:hosts=20" : "leaf-spine:leaves=3,spines=2,hosts=20",
			 (unsigned)rng_range(&rng, 1, 12), (unsigned)rng_range(&rng, 1, 3),
			 (unsigned)rng_range(&rng, 2, 12), (unsigned)rng_range(&rng, 2, 30),
			 (unsigned)rng_range(&rng, 1, 9), (unsigned)rng_range(&rng, 9, 60),
			 (unsigned)rng_range(&rng, 1, 9), i);
		TOPO t = rig_make(make);
		CANDS c;
		open_cands(&c, &t, FAN_PATHS_MAX);
		double flows = fan_bound(&c, false);
		if (fabs(relaxed(&c) - flows) > 1e-6 * flows)
			fail_msg("%s: routes %.9g, flows %.9g", make, relaxed(&c), flows);
	}
}

UNIT_MAIN
