/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/search.h"

/* All eight workers straight to the server, over the shortest path. */
static struct fan_plan straight(const struct fan_topo *t, const struct fan_cands *c)
{
	struct fan_plan p;
	fan_plan_init(&p);
	assert_non_null(fan_plan_add(&p, t, 0, rig_node(t, "PS"), 1));
	for (uint32_t g = 0; g < c->groups; g++)
		for (uint32_t i = 0; i < c->group[g].count; i++)
			fan_cands_flow(c, &c->group[g],
				       fan_cands_to_server(c, g, rig_node(t, "PS")).first,
				       &p.tree[0].flow[c->member[c->group[g].first + i]]);
	return p;
}

static void search__each_move_reaches_further(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_cands c;
	struct fan_cands_options o = {.paths = 8};
	assert_int_equal(fan_cands_open(&c, &t, &o), 0);
	struct fan_plan p = straight(&t, &c);
	assert_near(fan_eval_gbps(&t, &p), 0.75, 1e-9);
	assert_int_equal(fan_search(&c, &p, FAN_MOVE_ROUTE, 5), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 1, 1e-9); /* W4 over S2 */
	assert_int_equal(fan_search(&c, &p, FAN_MOVE_PLACE, 5), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 1, 1e-9); /* no switch sums */
	struct fan_tree *tree = &p.tree[0];	     /* once two are summed at S1, others follow */
	rig_flow(&t, &tree->flow[0], "W1 S1");
	rig_flow(&t, &tree->flow[1], "W2 S1");
	rig_flow(&t, fan_tree_add_sum(tree, rig_node(&t, "S1")), "S1 S3 PS");
	assert_int_equal(fan_search(&c, &p, FAN_MOVE_PLACE, 5), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 9.0 / 5, 1e-9); /* S1's sum, W5 to W8 */
	assert_int_equal(fan_search(&c, &p, FAN_MOVE_OPEN, 5), FAN_OK);
	assert_true(fan_eval_gbps(&t, &p) >= 9.0 / 5 - 1e-9);
	fan_plan_free(&p);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

static void search__fills_only_what_is_open(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_cands c;
	struct fan_cands_options o = {.paths = 8};
	struct fan_plan p;
	assert_int_equal(fan_cands_open(&c, &t, &o), 0);
	fan_plan_init(&p);
	assert_non_null(fan_plan_add(&p, &t, 0, rig_node(&t, "PS"), 1));
	uint32_t open[1] = {c.target_of[rig_node(&t, "S3")]};
	assert_int_equal(fan_search_fill(&c, &p, 0, open, 1, false), FAN_OK);
	assert_int_equal(p.tree[0].sums, 1);
	for (uint32_t w = 0; w < 8; w++)
		assert_int_equal(p.tree[0].flow[w].to, rig_node(&t, "S3"));
	assert_near(fan_eval_gbps(&t, &p), 1, 1e-9);
	fan_plan_free(&p);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(search__each_move_reaches_further),
		cmocka_unit_test(search__fills_only_what_is_open),
	};
	return RUN(tests);
}
