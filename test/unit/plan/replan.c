/* SPDX-License-Identifier: Apache-2.0 */
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

/* Mend, and compare with a plan from scratch. */
static void mend(struct fan_topo *t, struct fan_plan *p, double at_least)
{
	EVAL e;
	struct fan_why why;
	rig_refresh(t);
	assert_int_equal(fan_replan(t, &options, p), FAN_OK);
	if (fan_eval(&e, t, p, &why))
		fail_msg("%s", why.text);
	PLAN fresh = best(t);
	double from_scratch = fan_eval_gbps(t, &fresh);
	if (e.gbps < from_scratch * at_least)
		fail_msg("mended: %g, from scratch: %g", e.gbps, from_scratch);
}

TEST_WITH(replan__a_failed_switch, defaults, NULL)
{
	TOPO t = rig_make("fat-tree:k=4,workers=13,servers=2,link=10,server=10,switch=5,"
			  "switch_max=40,programmable=0.6,seed=3");
	PLAN p = best(&t);
	uint32_t gone = p.tree[0].flow[p.tree[0].workers].from;
	assert_true(p.tree[0].sums > 0);
	t.node[gone].gbps = 0; /* it still passes on */
	mend(&t, &p, 0.95);
	for (uint32_t i = 0; i < p.trees; i++)
		assert_null(fan_tree_sum(&p.tree[i], gone));
}

TEST_WITH(replan__a_failed_link_and_a_busy_one, defaults, NULL)
{
	TOPO t = rig_make("leaf-spine:leaves=4,spines=3,workers=20,link=10,server=15,"
			  "switch=40,seed=2");
	PLAN p = best(&t);
	t.link[0].background_gbps = t.link[0].gbps;
	t.link[4].background_gbps = t.link[4].gbps / 2;
	mend(&t, &p, 0.95);
}

/* With one tree the program of shares cannot go round what failed: the flow must move. */
TEST_WITH(replan__the_only_tree_is_mended, defaults, NULL)
{
	TOPO t = rig_load("grid-example");
	options.trees = 1;
	PLAN p = best(&t);
	t.link[1].background_gbps = t.link[1].gbps; /* S1-S2, which W4 goes over */
	mend(&t, &p, 0.7);
}

static void a_job_comes(double at_least)
{
	TOPO t = rig_make("leaf-spine:leaves=3,spines=2,workers=9,servers=2,link=10,"
			  "server=12,switch=20");
	struct fan_why why;
	t.job[0].workers = 5;
	t.job[0].servers = 1;
	PLAN p = best(&t);
	assert_int_equal(fan_topo_add_job(&t, "new", 4, 1), FAN_OK);
	for (uint32_t i = 5; i < 9; i++)
		t.job[1].worker[t.job[1].workers++] = t.job[0].worker[i];
	t.job[1].server[t.job[1].servers++] = t.job[0].server[1];
	assert_int_equal(fan_topo_seal(&t, &why), FAN_OK);
	mend(&t, &p, at_least);
}

TEST_WITH(replan__a_job_that_comes, defaults, NULL)
{
	a_job_comes(0.95);
	options.trees = 1;
	a_job_comes(0.45);
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
