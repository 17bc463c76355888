/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "plan/cands.h"
#include "plan/fit.h"
#include "plan/install.h"
#include "plan/steps.h"
#include "rig.h"

static void assert_installs(const struct fan_topo *t, const struct fan_plan *p)
{
	INSTALL in;
	struct fan_why why;
	if (fan_install_make(&in, t, p, 0, &why))
		fail_msg("%s", why.text);
}

/* Everybody sums at home but W1, W5 and W7, whose paths lead in a circle together. */
static struct fan_plan circle(const struct fan_topo *t)
{
	struct fan_plan p = rig_grid_plan(t);
	rig_flow(t, &p.tree[0].flow[0], "W1 S1 S2 S3");
	rig_flow(t, &p.tree[0].flow[3], "W4 S1");
	rig_flow(t, &p.tree[0].flow[4], "W5 S2 S3 S1");
	rig_flow(t, &p.tree[0].flow[6], "W7 S3 S1 S2");
	return p;
}

TEST(fit__a_circle_is_opened_and_the_rest_stays)
{
	TOPO t = rig_load("grid-example");
	PLAN was = circle(&t), p = circle(&t);
	uint32_t moved = 0;
	assert_int_equal(fan_fit_plan(&t, &p), FAN_OK);
	assert_installs(&t, &p);
	for (uint32_t w = 0; w < 8; w++)
		moved += memcmp(&was.tree[0].flow[w].route, &p.tree[0].flow[w].route,
				sizeof(struct fan_arcs)) != 0;
	assert_int_equal(moved, 1); /* one of three is enough */
	assert_int_equal(p.tree[0].sums, 3);
	fan_plan_free(&p);
}

TEST(fit__what_fits_stays_as_it_is)
{
	TOPO t = rig_load("grid-example");
	PLAN p = circle(&t);
	struct fan_fit f;
	rig_flow(&t, &p.tree[0].flow[4], "W5 S2");
	struct fan_arcs route = p.tree[0].flow[0].route;
	assert_int_equal(fan_fit_open(&f, &t), FAN_OK);
	assert_int_equal(fan_fit_tree(&f, &p.tree[0]), FAN_OK);
	assert_int_equal(f.mended, 0);
	assert_memory_equal(&p.tree[0].flow[0].route, &route, sizeof route);
	rig_flow(&t, &p.tree[0].flow[4], "W5 S2 S3 S1");
	assert_int_equal(fan_fit_tree(&f, &p.tree[0]), FAN_OK);
	assert_int_equal(f.mended, 1);
	assert_int_equal(f.given_up, 0);
	fan_fit_close(&f);
}

/* Any candidate route to any place: most of these plans have circles. */
#define RANDOM_PLANS 300

TEST(fit__random_plans_can_be_installed)
{
	TOPO t = rig_make("leaf-spine:leaves=5,spines=3,workers=15,link=10,seed=3");
	struct fan_cands_options all = {.paths = 24};
	CANDS c;
	struct fan_fit f;
	assert_int_equal(fan_cands_open(&c, &t, &all), FAN_OK);
	assert_int_equal(fan_fit_open(&f, &t), FAN_OK);
	for (uint64_t seed = 0; seed < RANDOM_PLANS; seed++) {
		struct fan_rng rng = {seed};
		PLAN p = {0};
		struct fan_tree *tree = fan_plan_add(&p, &t, 0, t.job[0].server[0], 1);
		for (uint32_t g = 0; g < c.groups; g++)
			for (uint32_t i = 0; i < c.group[g].count; i++) {
				uint32_t v = (uint32_t)fan_rng_below(&rng, c.sums);
				struct fan_span to = fan_cands_to_sum(&c, g, v);
				struct fan_span on = fan_cands_sum_to_server(&c, v, tree->server);
				fan_cands_flow(&c, &c.group[g],
					       to.first + (uint32_t)fan_rng_below(&rng, to.count),
					       &tree->flow[c.member[c.group[g].first + i]]);
				fan_tree_add_sum(tree, c.sum[v])->route =
					c.route[on.first + fan_rng_below(&rng, on.count)];
			}
		assert_int_equal(fan_fit_tree(&f, tree), FAN_OK);
		assert_installs(&t, &p);
	}
	assert_true(f.mended > RANDOM_PLANS / 2);
	fan_fit_close(&f);
}

TEST(fit__trees_are_bounded_by_what_there_is_room_for)
{
	struct fan_topo t = rig_make("star:workers=100,servers=1");
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 64), 19); /* 2048 members */
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 7), 7);
	fan_topo_free(&t);
	t = rig_make("star:workers=10,servers=4");
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 64), 16); /* 64 parts */
	fan_topo_free(&t);
	t = rig_make("star:workers=100,servers=4"); /* all may pass one switch */
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 64), 4);
	fan_topo_free(&t);
	t = rig_make("star:workers=3000,servers=1");
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 64), 1); /* not less */
	fan_topo_free(&t);
}

/* ---- pack ---- */

/* A star: eight workers at 10 Gb/s, one switch, one server that takes in 20. */
static struct fan_topo star(double sums_gbps)
{
	char make[80];
	snprintf(make, sizeof make, "star:workers=8,link=10,server=20,switch=%g", sums_gbps);
	struct fan_topo t = rig_make(make);
	t.link[8].gbps = 20; /* PS1's */
	rig_refresh(&t);
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
TEST(pack__shares_are_those_of_the_program)
{
	TOPO t = star(40);
	PLAN p;
	p = (struct fan_plan){0};
	add(&p, &t, 8, 1);
	add(&p, &t, 0, 0);
	assert_near(fan_eval_gbps(&t, &p), 5, 1e-9);
	assert_int_equal(fan_pack_shares(&t, &p), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 5 + 15.0 / 8, 1e-6);
	assert_near(p.tree[0].share, 5 / (5 + 15.0 / 8), 1e-6);
}

TEST(pack__useless_trees_go)
{
	TOPO t = star(1000); /* now summing everything gives all that links allow */
	PLAN p = {0};
	add(&p, &t, 8, 0.5);
	add(&p, &t, 0, 0.5);
	assert_int_equal(fan_pack_shares(&t, &p), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].sums, 1);
	assert_near(p.tree[0].share, 1, 0);
	assert_near(fan_eval_gbps(&t, &p), 10, 1e-6);
}

TEST(pack__few_keeps_what_carries_most)
{
	TOPO t = star(40);
	PLAN p = {0};
	add(&p, &t, 8, 0.5);
	add(&p, &t, 0, 0.5);
	assert_int_equal(fan_pack_few(&t, &p, (struct fan_few){2, 10}), FAN_OK);
	assert_int_equal(p.trees, 2);
	assert_int_equal(fan_pack_few(&t, &p, (struct fan_few){1, 10}), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].sums, 1); /* it carried 5 of 6.875 */
	assert_near(fan_eval_gbps(&t, &p), 5, 1e-6);
}

UNIT_MAIN
