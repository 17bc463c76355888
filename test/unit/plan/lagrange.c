/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/algorithm.h"
#include "plan/relax.h"

/* What both solvers reach, with a free split and with an equal one. */
static void check(struct fan_topo *t)
{
	struct fan_cands c;
	struct fan_cands_options o = {.paths = 4};
	double split[8];
	assert_int_equal(fan_cands_open(&c, t, &o), 0);
	for (unsigned fixed = 0; fixed < 2; fixed++) {
		struct fan_relax a, b;
		for (uint32_t s = 0; s < t->job[0].servers; s++)
			split[s] = 1.0 / t->job[0].servers;
		assert_int_equal(fan_relax_open(&a, &c, fixed ? split : NULL), 0);
		assert_int_equal(fan_relax_solve(&a, false), 0);
		assert_int_equal(fan_relax_open(&b, &c, fixed ? split : NULL), 0);
		assert_int_equal(fan_lagrange(&b, fixed ? split : NULL), 0);
		assert_true(b.gbps <= a.gbps * (1 + 1e-6));
		assert_true(b.bound >= a.gbps * (1 - 1e-6));
		assert_near(b.gbps / a.gbps, 1, 0.01);
		fan_relax_close(&a);
		fan_relax_close(&b);
	}
	fan_cands_close(&c);
	fan_topo_free(t);
}

static void lagrange__within_a_percent_of_the_simplex(void **state)
{
	(void)state;
	static const char *const makes[] = {
		"star:workers=6,servers=2,link=10,server=8,switch=12",
		"triangle:workers=8,link=20,server=60,switch=30",
		"leaf-spine:leaves=4,spines=2,workers=9,servers=3,link=9,server=9,switch=7",
		"leaf-spine:leaves=4,spines=3,workers=20,link=10,server=15,switch=40,seed=2",
		"leaf-spine:leaves=6,spines=4,workers=30,servers=2,link=10,server=15,switch=10,"
		"switch_max=30,seed=5",
		"fat-tree:k=4,workers=13,servers=2,link=10,server=10,switch=5,switch_max=40,"
		"programmable=0.4,seed=3",
		"fat-tree:k=4,workers=12,programmable=0",
	};
	struct fan_topo t = rig_load("grid-example");
	check(&t);
	t = rig_load("inart-example");
	check(&t);
	for (unsigned i = 0; i < sizeof makes / sizeof makes[0]; i++) {
		t = rig_make(makes[i]);
		check(&t);
	}
}

/* A plan that is rounded from prices is as good as one from the simplex. */
static void lagrange__plans_the_examples(void **state)
{
	(void)state;
	struct fan_plan_options o = fan_plan_defaults;
	struct fan_planned how = {0};
	struct fan_topo t = rig_load("inart-example");
	struct fan_plan p;
	o.solver = FAN_SOLVER_LAGRANGE;
	assert_int_equal(fan_inart(&t, &o, &p, &how), 0);
	assert_true(fan_eval_gbps(&t, &p) >= 2.5);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lagrange__within_a_percent_of_the_simplex),
		cmocka_unit_test(lagrange__plans_the_examples),
	};
	return RUN(tests);
}
