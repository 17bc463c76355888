/* SPDX-License-Identifier: Apache-2.0 */
/* The program of shares, whose rows come as they are needed, against the evaluator. */
#include "rig.h"

#include <math.h>

#include "plan/algorithm.h"
#include "plan/master.h"

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
	struct fan_plan p;
	assert_int_equal(fan_algorithm_find(name)->run(t, &fan_plan_defaults, &p, &how), FAN_OK);
	*best = fmax(*best, fan_eval_gbps(t, &p));
	for (uint32_t i = 0; i < p.trees; i++) {
		assert_int_equal(fan_master_add(m, &p.tree[i]), FAN_OK);
		struct fan_tree *tree = fan_plan_add(all, t, 0, p.tree[i].server, 0);
		assert_non_null(tree);
		tree->sums = p.tree[i].sums;
		memcpy(tree->flow, p.tree[i].flow,
		       (tree->workers + tree->sums) * sizeof *tree->flow);
	}
	fan_plan_free(&p);
}

/* After each algorithm's trees: as much as the evaluator finds with these shares, which would be
 * less if a row were missing; and more than each plan by itself. */
static void master__the_rate_is_what_the_shares_give(void **state)
{
	(void)state;
	static const char *const names[] = {"geryon", "atp", "switchml", "grid"};
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct fan_topo t;
		struct fan_master m;
		struct fan_plan all;
		double best = 0;
		make(&t, seed, seed % 2);
		fan_plan_init(&all);
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
		fan_plan_free(&all);
		fan_topo_free(&t);
	}
}

/* What all that is full is worth, is the rate. */
static void master__prices_pay_for_the_rate(void **state)
{
	(void)state;
	struct fan_topo t;
	struct fan_master m;
	struct fan_plan all;
	double best = 0, worth = 0;
	make(&t, 1, true);
	fan_plan_init(&all);
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
	fan_plan_free(&all);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(master__the_rate_is_what_the_shares_give),
		cmocka_unit_test(master__prices_pay_for_the_rate),
	};
	return RUN(tests);
}
