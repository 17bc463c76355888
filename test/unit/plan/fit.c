/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/fit.h"

#include "core/base/rng.h"
#include "plan/cands.h"
#include "plan/install.h"
#include "rig.h"

static void assert_installs(const struct fan_topo *t, const struct fan_plan *p)
{
	const struct fan_install_options o = {.first = 1};
	struct fan_install in;
	struct fan_why why;
	if (fan_install_make(&in, t, p, &o, &why))
		fail_msg("%s", why.text);
	fan_install_free(&in);
}

/* Everybody sums at home but W1, W5 and W7, whose paths lead in a circle together. */
static struct fan_plan circle(const struct fan_topo *t)
{
	static const char *const flows[] = {"W1 S1 S2 S3", "W2 S1", "W3 S1",	   "W4 S1",
					    "W5 S2 S3 S1", "W6 S2", "W7 S3 S1 S2", "W8 S3"};
	struct fan_plan p;
	fan_plan_init(&p);
	struct fan_tree *tree = fan_plan_add(&p, t, 0, rig_node(t, "PS"), 1);
	for (unsigned i = 0; i < 8; i++)
		rig_flow(t, &tree->flow[i], flows[i]);
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S1")), "S1 S3 PS");
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S2")), "S2 S3 PS");
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S3")), "S3 PS");
	return p;
}

static void fit__a_circle_is_opened_and_the_rest_stays(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_plan was = circle(&t), p = circle(&t);
	uint32_t moved = 0;
	assert_int_equal(fan_fit_plan(&t, &p), FAN_OK);
	assert_installs(&t, &p);
	for (uint32_t w = 0; w < 8; w++)
		moved += memcmp(&was.tree[0].flow[w].route, &p.tree[0].flow[w].route,
				sizeof(struct fan_route)) != 0;
	assert_int_equal(moved, 1); /* one of three is enough */
	assert_int_equal(p.tree[0].sums, 3);
	fan_plan_free(&was);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

static void fit__what_fits_stays_as_it_is(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_plan p = circle(&t);
	struct fan_fit f;
	rig_flow(&t, &p.tree[0].flow[4], "W5 S2");
	struct fan_route route = p.tree[0].flow[0].route;
	assert_int_equal(fan_fit_open(&f, &t), FAN_OK);
	assert_int_equal(fan_fit_tree(&f, &p.tree[0]), FAN_OK);
	assert_int_equal(f.mended, 0);
	assert_memory_equal(&p.tree[0].flow[0].route, &route, sizeof route);
	rig_flow(&t, &p.tree[0].flow[4], "W5 S2 S3 S1");
	assert_int_equal(fan_fit_tree(&f, &p.tree[0]), FAN_OK);
	assert_int_equal(f.mended, 1);
	assert_int_equal(f.given_up, 0);
	fan_fit_close(&f);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

/* Any candidate route to any place: most of these plans have circles. */
#define RANDOM_PLANS 300

static void fit__random_plans_can_be_installed(void **state)
{
	(void)state;
	struct fan_topo t = rig_make("leaf-spine:leaves=5,spines=3,workers=15,link=10,seed=3");
	struct fan_cands_options all = {.paths = 24};
	struct fan_cands c;
	struct fan_fit f;
	assert_int_equal(fan_cands_open(&c, &t, &all), FAN_OK);
	assert_int_equal(fan_fit_open(&f, &t), FAN_OK);
	for (uint64_t seed = 0; seed < RANDOM_PLANS; seed++) {
		struct fan_rng rng = {seed};
		struct fan_plan p;
		fan_plan_init(&p);
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
		fan_plan_free(&p);
	}
	assert_true(f.mended > RANDOM_PLANS / 2);
	fan_fit_close(&f);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

static void fit__trees_are_bounded_by_what_there_is_room_for(void **state)
{
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fit__a_circle_is_opened_and_the_rest_stays),
		cmocka_unit_test(fit__what_fits_stays_as_it_is),
		cmocka_unit_test(fit__random_plans_can_be_installed),
		cmocka_unit_test(fit__trees_are_bounded_by_what_there_is_room_for),
	};
	return RUN(tests);
}
