/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/algorithm.h"
#include "plan/rules.h"

#define WORKERS 24

/* Two leaves; the server is on one of them.  Which spine each worker's flow takes, 0 if it
 * needs none. */
static void spines(const struct fan_topo *t, uint32_t paths, uint64_t seed, uint32_t *spine)
{
	struct fan_rules r;
	struct fan_plan p;
	assert_int_equal(fan_rules_open(&r, t, paths, seed), FAN_OK);
	fan_plan_init(&p);
	struct fan_tree *tree = fan_plan_add(&p, t, 0, rig_node(t, "PS1"), 1);
	assert_non_null(tree);
	for (uint32_t w = 0; w < WORKERS; w++) {
		fan_rules_send(&r, tree, w, tree->server);
		const struct fan_flow *f = &tree->flow[w];
		assert_int_equal(f->to, tree->server);
		assert_true(f->route.hops == 2 || f->route.hops == 4); /* none is a detour */
		spine[w] = f->route.hops == 4 ? fan_arc_to(t, f->route.arc[1]) : 0;
	}
	assert_true(fan_eval_gbps(t, &p) > 0);
	fan_plan_free(&p);
	fan_rules_close(&r);
}

static uint32_t distinct(const uint32_t *spine)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < WORKERS; i++) {
		bool seen = spine[i] == 0;
		for (uint32_t k = 0; k < i && !seen; k++)
			seen = spine[k] == spine[i];
		n += !seen;
	}
	return n;
}

static void rules__spread_over_routes_of_one_length(void **state)
{
	(void)state;
	struct fan_topo t = rig_make("leaf-spine:leaves=2,spines=3,workers=24,programmable=0");
	uint32_t one[WORKERS], many[WORKERS], again[WORKERS], other[WORKERS];
	spines(&t, 1, 1, one);
	spines(&t, 8, 1, many);
	spines(&t, 8, 1, again);
	spines(&t, 8, 2, other);
	assert_int_equal(distinct(one), 1);
	assert_int_equal(distinct(many), 3);
	assert_memory_equal(many, again, sizeof many);
	assert_memory_not_equal(many, other, sizeof many);
	fan_topo_free(&t);
}

/* W4 has a longer path to the server as well: the rule does not take it. */
static void rules__never_a_longer_route(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_rules r;
	struct fan_plan p;
	assert_int_equal(fan_rules_open(&r, &t, 8, 7), FAN_OK);
	fan_plan_init(&p);
	struct fan_tree *tree = fan_plan_add(&p, &t, 0, rig_node(&t, "PS"), 1);
	struct fan_route want = rig_route(&t, "W4 S1 S3 PS");
	fan_rules_send(&r, tree, 3, tree->server);
	assert_int_equal(tree->flow[3].route.hops, want.hops);
	assert_memory_equal(tree->flow[3].route.arc, want.arc, want.hops * sizeof want.arc[0]);
	fan_rules_send(&r, tree, 3, rig_node(&t, "S2"));
	assert_int_equal(tree->flow[3].to, rig_node(&t, "S2"));
	assert_int_equal(tree->sums, 1);
	assert_int_equal(tree->flow[tree->workers].route.hops, 2); /* S2 S3 PS */
	fan_plan_free(&p);
	fan_rules_close(&r);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules__spread_over_routes_of_one_length),
		cmocka_unit_test(rules__never_a_longer_route),
	};
	return RUN(tests);
}
