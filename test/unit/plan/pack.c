/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/pack.h"

/* A star: eight workers at 10 Gb/s, one switch, one server that takes in 20. */
static struct fan_topo star(double sums_gbps)
{
	char make[80];
	snprintf(make, sizeof make, "star:workers=8,link=10,server=20,switch=%g", sums_gbps);
	struct fan_topo t = rig_make(make);
	t.link[8].gbps = 20; /* PS1's */
	fan_topo_refresh(&t);
	return t;
}

/* A tree of the first job: `summed` workers at S1, the others straight. */
static void add(struct fan_plan *p, const struct fan_topo *t, uint32_t summed, double share)
{
	struct fan_tree *tree = fan_plan_add(p, t, 0, rig_node(t, "PS1"), share);
	char text[32];
	assert_non_null(tree);
	for (uint32_t w = 0; w < tree->workers; w++) {
		const char *name = t->node[tree->flow[w].from].name;
		snprintf(text, sizeof text, w < summed ? "%s S1" : "%s S1 PS1", name);
		rig_flow(t, &tree->flow[w], text);
	}
	if (summed)
		rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S1")), "S1 PS1");
}

/* All summed: the switch allows f = 40 / 8.  None: the server, 20 / 8.  Both, with f = a + b:
 * 8 a <= 40 and a + 8 b <= 20, so a = 5, b = 15 / 8. */
static void pack__shares_are_those_of_the_program(void **state)
{
	(void)state;
	struct fan_topo t = star(40);
	struct fan_plan p;
	double price[64], job_price[1];
	assert_true(fan_topo_resources(&t) <= 64);
	fan_plan_init(&p);
	add(&p, &t, 8, 1);
	add(&p, &t, 0, 0);
	assert_near(fan_eval_gbps(&t, &p), 5, 1e-9);
	assert_int_equal(fan_pack_shares(&t, &p, price, job_price), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 5 + 15.0 / 8, 1e-6);
	assert_near(p.tree[0].share, 5 / (5 + 15.0 / 8), 1e-6);
	/* prices times capacities are the rate: the switch, and what leads into the server */
	double worth = 0;
	for (uint32_t r = 0; r < fan_topo_resources(&t); r++)
		worth += price[r] > 0 ? price[r] * t.cap[r] : 0;
	assert_near(worth, 5 + 15.0 / 8, 1e-6);
	assert_true(price[fan_node_resource(&t, rig_node(&t, "S1"))] > 0);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

static void pack__useless_trees_go(void **state)
{
	(void)state;
	struct fan_topo t = star(1000); /* now summing everything gives all that links allow */
	struct fan_plan p;
	fan_plan_init(&p);
	add(&p, &t, 8, 0.5);
	add(&p, &t, 0, 0.5);
	assert_int_equal(fan_pack_shares(&t, &p, NULL, NULL), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].sums, 1);
	assert_near(p.tree[0].share, 1, 0);
	assert_near(fan_eval_gbps(&t, &p), 10, 1e-6);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

static void pack__few_keeps_what_carries_most(void **state)
{
	(void)state;
	struct fan_topo t = star(40);
	struct fan_plan p;
	fan_plan_init(&p);
	add(&p, &t, 8, 0.5);
	add(&p, &t, 0, 0.5);
	assert_int_equal(fan_pack_few(&t, &p, (struct fan_few){2, 10}), FAN_OK);
	assert_int_equal(p.trees, 2);
	assert_int_equal(fan_pack_few(&t, &p, (struct fan_few){1, 10}), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].sums, 1); /* it carried 5 of 6.875 */
	assert_near(fan_eval_gbps(&t, &p), 5, 1e-6);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pack__shares_are_those_of_the_program),
		cmocka_unit_test(pack__useless_trees_go),
		cmocka_unit_test(pack__few_keeps_what_carries_most),
	};
	return RUN(tests);
}
