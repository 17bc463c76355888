/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that are in use; others are mended from the command line (test/plan/events). */
#include "rig.h"
#include "unit/unit.h"

#include "plan/algorithm.h"

static struct fan_plan_options options;

static int defaults(void **state __attribute__((unused)))
{
	options = fan_plan_defaults;
	return 0;
}

static struct fan_plan best(const struct fan_topo *t)
{
	struct fan_planned how = {0};
	struct fan_plan p;
	assert_int_equal(fan_best(t, &options, &p, &how), FAN_OK);
	return p;
}

/* Workers are at work: trees keep servers and shares, and only what is gone moves. */
TEST_WITH(replan__paths_alone, defaults, NULL)
{
	options.trees = 2;
	TOPO t = rig_make("leaf-spine:leaves=3,spines=2,workers=6,servers=2,link=10,"
			  "server=15,switch=40,seed=2");
	PLAN p = best(&t), old;
	assert_int_equal(fan_plan_copy(&old, &p), FAN_OK);
	assert_int_equal(fan_replan_paths(&t, &options, &p, 1.1, false), FAN_OK);
	assert_memory_equal(p.tree[0].flow, old.tree[0].flow,
			    p.tree[0].workers * sizeof *old.tree[0].flow);
	uint32_t gone = fan_arc_to(&t, old.tree[0].flow[0].route.arc[0]), link = FAN_NODE_NONE;
	for (uint32_t i = 0; i < t.links; i++) /* a link from that leaf to a spine */
		if ((t.link[i].a == gone || t.link[i].b == gone) &&
		    t.node[t.link[i].a].kind == FAN_NODE_SWITCH &&
		    t.node[t.link[i].b].kind == FAN_NODE_SWITCH)
			link = i;
	assert_int_not_equal(link, FAN_NODE_NONE);
	t.link[link].background_gbps = t.link[link].gbps;
	rig_refresh(&t);
	assert_int_equal(fan_replan_paths(&t, &options, &p, 1.1, false), FAN_OK);
	assert_int_equal(p.trees, old.trees);
	for (uint32_t i = 0; i < p.trees; i++) {
		assert_int_equal(p.tree[i].server, old.tree[i].server);
		assert_true(p.tree[i].share == old.tree[i].share);
		for (uint32_t f = 0; f < p.tree[i].workers + p.tree[i].sums; f++)
			for (uint32_t h = 0; h < p.tree[i].flow[f].route.hops; h++)
				assert_int_not_equal(p.tree[i].flow[f].route.arc[h] / 2, link);
	}
	PLAN fresh = best(&t); /* with shares of its own */
	assert_true(fan_eval_gbps(&t, &p) > 0.5 * fan_eval_gbps(&t, &fresh));
	fan_plan_free(&old);
}

/* A worker whose only path is gone: that is said, and nothing is made up. */
TEST_WITH(replan__no_path, defaults, NULL)
{
	options.trees = 2;
	TOPO t = rig_make("leaf-spine:leaves=2,spines=1,workers=4,servers=1,link=10,switch=40");
	struct fan_plan p = best(&t);
	for (uint32_t i = 0; i < t.links; i++)
		if (t.node[t.link[i].a].kind == FAN_NODE_SWITCH &&
		    t.node[t.link[i].b].kind == FAN_NODE_SWITCH)
			t.link[i].background_gbps = t.link[i].gbps;
	rig_refresh(&t);
	assert_int_equal(fan_replan_paths(&t, &options, &p, 1.1, false), FAN_E_INVALID);
	assert_int_equal(p.trees, 0);
}

UNIT_MAIN
