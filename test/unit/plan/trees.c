/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "plan/steps.h"
#include "rig.h"

/* Grow from nothing but one tree of workers that all send straight. */
static double grow(const struct fan_topo *t, struct fan_plan *p, double enough, uint32_t rounds)
{
	struct fan_cands c;
	struct fan_cands_options o = {.paths = 4};
	assert_int_equal(fan_cands_open(&c, t, &o), FAN_OK);
	*p = (struct fan_plan){0};
	for (uint32_t s = 0; s < t->job[0].servers; s++) {
		uint32_t server = t->job[0].server[s];
		struct fan_tree *tree = fan_plan_add(p, t, 0, server, 1.0 / t->job[0].servers);
		assert_non_null(tree);
		for (uint32_t g = 0; g < c.groups; g++)
			for (uint32_t i = 0; i < c.group[g].count; i++)
				fan_cands_flow(&c, &c.group[g],
					       fan_cands_to_server(&c, g, server).first,
					       &tree->flow[c.member[c.group[g].first + i]]);
	}
	assert_int_equal(fan_trees_grow(&c, p, enough, rounds), FAN_OK);
	fan_cands_close(&c);
	return fan_eval_gbps(t, p);
}

TEST(trees__reach_the_relaxed_bound)
{
	static const char *const make[] = {
		"triangle:workers=8,link=10,server=25,switch=30",
		"star:workers=8,servers=2,link=10,server=20,switch=40",
		"leaf-spine:leaves=3,spines=2,workers=12,link=10,server=30,switch=10,switch_max=60",
	};
	for (unsigned i = 0; i < sizeof make / sizeof make[0]; i++) {
		TOPO t = rig_make(make[i]);
		PLAN p;
		double bound = rig_bound(&t, false), got = grow(&t, &p, bound, 400);
		if (!(got >= 0.99 * bound && got <= bound * (1 + 1e-6)))
			fail_msg("%s: %.9g, and the bound is %.9g", make[i], got, bound);
	}
}

TEST(trees__more_rounds_are_never_worse)
{
	TOPO t = rig_make("triangle:workers=8,link=10,server=25,switch=30");
	struct fan_plan p;
	double before = 0;
	for (uint32_t rounds = 0; rounds <= 16; rounds = rounds ? 2 * rounds : 1) {
		double got = grow(&t, &p, 1e9, rounds);
		assert_true(got >= before * (1 - 1e-9));
		before = got;
		fan_plan_free(&p);
	}
}

TEST(trees__enough_is_enough)
{
	TOPO t = rig_make("triangle:workers=8,link=10,server=25,switch=30");
	PLAN some, all;
	double much = grow(&t, &all, 1e9, 400);
	double less = grow(&t, &some, 0.3 * much, 400);
	assert_true(less >= 0.3 * much && less < much);
	assert_true(some.trees < all.trees);
}

/* ---- path ---- */

static struct fan_arcs route[FAN_PATHS_MAX];

static uint32_t find(const struct fan_topo *t, const char *from, const char *to, uint32_t max)
{
	struct fan_paths p;
	assert_int_equal(fan_paths_open(&p, t), 0);
	uint32_t n = fan_paths_find(&p, rig_node(t, from), rig_node(t, to), max, route);
	fan_paths_close(&p);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = rig_node(t, from);
		for (uint32_t k = 0; k < route[i].hops; k++) {
			assert_int_equal(fan_arc_from(t, route[i].arc[k]), at);
			at = fan_arc_to(t, route[i].arc[k]);
		}
		assert_int_equal(at, rig_node(t, to));
		for (uint32_t k = 0; k < i; k++)
			assert_memory_not_equal(route[i].arc, route[k].arc,
						route[i].hops * sizeof(uint32_t));
	}
	return n;
}

/* Hosts with two links, so none has one that bounds the program from its beginning. */
TEST(trees__hosts_on_two_switches)
{
	TOPO t = rig_make("rails:rails=2,groups=1,spines=1,workers=4,link=10,server=1000");
	PLAN p;
	struct fan_planned how = {0};
	assert_int_equal(fan_best(&t, &fan_plan_defaults, &p, &how), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 20, 1e-6);
}

TEST(path__shortest_first)
{
	TOPO t = rig_load("grid-example");
	assert_int_equal(find(&t, "W1", "PS", 8), 2);
	assert_int_equal(route[0].hops, 3);
	assert_int_equal(route[1].hops, 4); /* over S2; never over another host */
	assert_int_equal(find(&t, "W1", "PS", 1), 1);
	assert_int_equal(find(&t, "S1", "S1", 8), 1);
	assert_int_equal(route[0].hops, 0);
}

TEST(path__not_over_what_is_full)
{
	TOPO t = rig_load("grid-example");
	t.link[0].background_gbps = 3;
	rig_refresh(&t);
	assert_int_equal(find(&t, "W1", "PS", 8), 1);
	assert_int_equal(route[0].hops, 4);
}

/* In a fat-tree with k = 8, four of 16 equal routes need not share a link. */
TEST(path__as_different_as_can_be)
{
	TOPO t = rig_make("fat-tree:k=8,workers=1");
	assert_int_equal(find(&t, "R1", "R32", 4), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(route[i].hops, 4);
		for (uint32_t k = 0; k < i; k++)
			for (uint32_t h = 0; h < 4; h++)
				assert_int_not_equal(route[i].arc[h], route[k].arc[h]);
	}
	assert_int_equal(find(&t, "R1", "R32", 16), 16);
	assert_int_equal(route[15].hops, 4);
}

UNIT_MAIN
