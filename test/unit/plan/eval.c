/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"
#include "unit/unit.h"

static double load_of(const struct fan_topo *t, const struct fan_eval *e, const char *name)
{
	return e->load_gbps[fan_node_resource(t, rig_node(t, name))];
}

TEST(eval__the_plan_of_the_grid_paper)
{
	TOPO t = rig_load("grid-example");
	PLAN p = rig_grid_plan(&t);
	EVAL e;
	struct fan_why why;
	assert_int_equal(fan_eval(&e, &t, &p, &why), FAN_OK);
	assert_near(e.gbps, 3, 1e-12);
	assert_near(e.job_gbps[0], 3, 1e-12);
	assert_near(load_of(&t, &e, "S1"), 9, 1e-12);
	assert_near(load_of(&t, &e, "S2"), 9, 1e-12);
	assert_near(load_of(&t, &e, "S3"), 6, 1e-12);
	assert_near(load_of(&t, &e, "PS"), 9, 1e-12);
	assert_near(e.load_gbps[2], 3, 1e-12); /* S1 to S2: W4 */
	assert_near(e.load_gbps[3], 0, 0);     /* nothing back */
	assert_near(e.with_results_gbps, 3, 1e-12);
	assert_near(e.job_results_gbps[0], 3, 1e-12);
}

TEST(eval__says_what_binds)
{
	TOPO t = rig_load("grid-example");
	PLAN p = rig_grid_plan(&t);
	struct fan_eval e;
	t.node[rig_node(&t, "S2")].gbps = 4.5;
	rig_refresh(&t);
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 1.5, 1e-12);
	assert_int_equal(e.binding, fan_node_resource(&t, rig_node(&t, "S2")));
	fan_eval_free(&e);
	t.link[1].background_gbps = 3;
	rig_refresh(&t);
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 0, 0);
	assert_int_equal(e.binding, 2);
	fan_eval_free(&e);
}

/* Half of the model on each of two servers: the access link carries both halves. */
TEST(eval__shares_of_a_split_model)
{
	TOPO t = rig_make("star:workers=2,servers=2,link=10,server=8,switch=100");
	PLAN p = {0};
	EVAL e;
	struct fan_tree *a = fan_plan_add(&p, &t, 0, rig_node(&t, "PS1"), 0.75);
	rig_flow(&t, &a->flow[0], "W1 S1 PS1");
	rig_flow(&t, &a->flow[1], "W2 S1 PS1");
	struct fan_tree *b = fan_plan_add(&p, &t, 0, rig_node(&t, "PS2"), 0.25);
	rig_flow(&t, &b->flow[0], "W1 S1");
	rig_flow(&t, &b->flow[1], "W2 S1");
	rig_flow(&t, fan_tree_add_sum(b, rig_node(&t, "S1")), "S1 PS2");
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 8 / 1.5, 1e-12);
	assert_near(load_of(&t, &e, "PS2"), 8 / 1.5 / 4, 1e-12);
	assert_near(load_of(&t, &e, "S1"), 8 / 1.5 / 2, 1e-12);
}

/* Servers on both sides of a link: the results of one's tree meet the gradients of the other's.
 * Three flows and one sum go over V1-V2 to S2, and one result of S1's tree; or one sum each
 * way, and one result. */
TEST(eval__results_come_back_once_over_each_link)
{
	TOPO t = rig_load("inart-example");
	PLAN p;
	struct fan_eval e;
	static const char *const worker[] = {"W1 V1", "W2 V1", "W3 V1", "W4 V1", "W5 V2", "W6 V2"};
	p = (struct fan_plan){0};
	struct fan_tree *a = fan_plan_add(&p, &t, 0, rig_node(&t, "S1"), 0.25);
	for (unsigned i = 0; i < 6; i++)
		rig_flow(&t, &a->flow[i], worker[i]);
	rig_flow(&t, fan_tree_add_sum(a, rig_node(&t, "V1")), "V1 S1");
	rig_flow(&t, fan_tree_add_sum(a, rig_node(&t, "V2")), "V2 V1 S1");
	struct fan_tree *b = fan_plan_add(&p, &t, 0, rig_node(&t, "S2"), 0.75);
	static const char *const straight[] = {"W1 V1 V2 S2", "W2 V1 V2 S2", "W3 V1 V2 S2",
					       "W4 V1",	      "W5 V2",	     "W6 V2"};
	for (unsigned i = 0; i < 6; i++)
		rig_flow(&t, &b->flow[i], straight[i]);
	rig_flow(&t, fan_tree_add_sum(b, rig_node(&t, "V1")), "V1 V2 S2");
	rig_flow(&t, fan_tree_add_sum(b, rig_node(&t, "V2")), "V2 S2");
	for (uint32_t i = 0; i < t.nodes; i++)
		t.node[i].gbps *= 100; /* links alone */
	rig_refresh(&t);
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 6 / (5 * 0.75), 1e-12); /* S2's own link: five flows */
	fan_eval_free(&e);
	t.link[2].gbps = 100;
	t.link[0].gbps = 1;
	rig_refresh(&t);
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 1 / 3.0, 1e-12);		   /* four parts of 0.75 */
	assert_near(e.with_results_gbps, 1 / 3.25, 1e-12); /* and a result of 0.25 */
	assert_near(e.job_results_gbps[0], 1 / 3.25, 1e-12);
	assert_true(e.job_gbps[0] > 0.3077);
	assert_near(fan_eval_gbps(&t, &p), 1 / 3.0, 1e-12);
	t.results = true;
	assert_near(fan_eval_gbps(&t, &p), 1 / 3.25, 1e-12);
	fan_eval_free(&e);
}

/* Two jobs on one server: the heavier gets twice as much; one that does not need what
 * is full gets more. */
TEST(eval__jobs_rise_by_weight_until_full)
{
	TOPO t = rig_make("star:workers=3,servers=2,link=10,server=6");
	PLAN p;
	EVAL e;
	static const char *const server[] = {"PS1", "PS1", "PS2"};
	p = (struct fan_plan){0};
	for (uint32_t j = 0; j < 3; j++) {
		char flow[32];
		if (j > 0)
			assert_int_equal(fan_topo_add_job(&t, "more", 3, 2), 0);
		t.job[j].worker[0] = rig_node(&t, j == 0 ? "W1" : j == 1 ? "W2" : "W3");
		t.job[j].server[0] = rig_node(&t, server[j]);
		t.job[j].workers = t.job[j].servers = 1;
		t.job[j].weight = j == 1 ? 2 : 1;
		snprintf(flow, sizeof flow, "W%u S1 %s", j + 1, server[j]);
		struct fan_tree *tree = fan_plan_add(&p, &t, j, rig_node(&t, server[j]), 1);
		rig_flow(&t, &tree->flow[0], flow);
	}
	assert_int_equal(fan_eval(&e, &t, &p, NULL), FAN_OK);
	assert_near(e.gbps, 2, 1e-9);
	assert_near(e.job_gbps[0], 2, 1e-9);
	assert_near(e.job_gbps[1], 4, 1e-9);
	assert_near(e.job_gbps[2], 6, 1e-9);
}

/* What may be wrong with a plan, done to a right one. */
static void spoil(const struct fan_topo *t, struct fan_plan *p, unsigned how)
{
	struct fan_tree *tree = &p->tree[0];
	switch (how) {
	case 0: tree->share = 0.9; break;
	case 1: tree->flow[3].route.hops = 1; break;
	case 2: tree->flow[3].route.arc[1] = 0; break;
	case 3: tree->flow[0].from = rig_node(t, "W2"); break;
	case 4: tree->sums--; break;
	case 5: tree->flow[tree->workers].to = rig_node(t, "S3"); break;
	case 6: tree->server = rig_node(t, "S3"); break;
	case 7: tree->flow[tree->workers + 1] = tree->flow[tree->workers]; break;
	case 8: tree->flow[3].route.hops = FAN_HOPS_MAX + 1; break;
	case 9: tree->job = 7; break;
	case 10: t->node[rig_node(t, "S1")].gbps = 0; break;
	case 11: tree->workers = 7; break;
	case 12: /* nobody enters S3 */
		rig_flow(t, &tree->flow[6], "W7 S3 PS");
		rig_flow(t, &tree->flow[7], "W8 S3 PS");
		break;
	default: fail();
	}
}

TEST(eval__refuses_what_does_not_fit)
{
	for (unsigned how = 0; how < 13; how++) {
		TOPO t = rig_load("grid-example");
		PLAN p = rig_grid_plan(&t);
		struct fan_why why;
		struct fan_eval e;
		spoil(&t, &p, how);
		if (fan_eval(&e, &t, &p, &why) != FAN_E_CONFIG || !why.text[0])
			fail_msg("way %u to spoil a plan was not seen", how);
		assert_null(e.load_gbps);
	}
}

UNIT_MAIN
