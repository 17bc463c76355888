/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/algorithm.h"
#include "plan/install.h"
#include "plan/rules.h"

#define WORKERS 24

/* Two leaves; the server is on one of them.  Which spine each worker's flow takes, 0 if it
 * needs none. */
static void spines(const struct fan_topo *t, uint32_t paths, uint64_t seed, uint32_t *spine)
{
	struct fan_rules r;
	struct fan_plan p;
	struct fan_plan_options o = fan_plan_defaults;
	o.paths = paths;
	o.seed = seed;
	assert_int_equal(fan_rules_open(&r, t, &o), FAN_OK);
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
	struct fan_plan_options o = fan_plan_defaults;
	o.seed = 7;
	assert_int_equal(fan_rules_open(&r, &t, &o), FAN_OK);
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

/*   W1 W2 - L1 --- S (30) --- L2 (20) - W3 W4, PS (12) */
static const char reading_topology[] =
	"{\"nodes\":[{\"name\":\"W1\",\"kind\":\"worker\"},{\"name\":\"W2\",\"kind\":\"worker\"},"
	"{\"name\":\"W3\",\"kind\":\"worker\"},{\"name\":\"W4\",\"kind\":\"worker\"},"
	"{\"name\":\"L1\",\"kind\":\"switch\"},{\"name\":\"S\",\"kind\":\"switch\",\"gbps\":30},"
	"{\"name\":\"L2\",\"kind\":\"switch\",\"gbps\":20},"
	"{\"name\":\"PS\",\"kind\":\"server\",\"gbps\":12}],"
	"\"links\":[{\"a\":\"W1\",\"b\":\"L1\",\"gbps\":10},{\"a\":\"W2\",\"b\":\"L1\",\"gbps\":10},"
	"{\"a\":\"W3\",\"b\":\"L2\",\"gbps\":10},{\"a\":\"W4\",\"b\":\"L2\",\"gbps\":10},"
	"{\"a\":\"L1\",\"b\":\"S\",\"gbps\":40},{\"a\":\"S\",\"b\":\"L2\",\"gbps\":40},"
	"{\"a\":\"PS\",\"b\":\"L2\",\"gbps\":40}]}";

static struct fan_plan plan_of(const struct fan_topo *t, const char *name, enum fan_sums_at sums_at)
{
	struct fan_plan_options o = fan_plan_defaults;
	struct fan_planned how = {0};
	struct fan_plan p;
	o.sums_at = sums_at;
	assert_int_equal(fan_algorithm_find(name)->run(t, &o, &p, &how), FAN_OK);
	return p;
}

/* Each reading by hand.  Under the first two PS takes in one flow a sum and one a worker that
 * nobody sums for; with two levels L2 sums three flows of 20 / 3, and what is more goes to PS in
 * three flows. */
static void rules__every_reading_by_hand(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum fan_sums_at sums_at;
		double gbps;
	} want[] = {{"switchml", FAN_SUMS_RACK, 4},
		    {"switchml", FAN_SUMS_NEAREST, 6},
		    {"switchml", FAN_SUMS_TWO_LEVELS, 20.0 / 3},
		    {"atp", FAN_SUMS_RACK, 32.0 / 5}, /* L2 also for W1 and W2 */
		    {"atp", FAN_SUMS_NEAREST, 6},
		    {"atp", FAN_SUMS_TWO_LEVELS, (12 + 2 * 20.0 / 3) / 3}};
	struct fan_topo t;
	struct fan_why why;
	assert_int_equal(fan_topo_parse(&t, reading_topology, sizeof reading_topology - 1, &why),
			 FAN_OK);
	for (unsigned i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct fan_plan p = plan_of(&t, want[i].name, want[i].sums_at);
		assert_near(fan_eval_gbps(&t, &p), want[i].gbps, 1e-6);
		fan_plan_free(&p);
	}
	fan_topo_free(&t);
}

/* W1's part is summed at S and again at L2, and what is installed says so. */
static void rules__two_levels_can_be_installed(void **state)
{
	(void)state;
	const struct fan_install_options first = {.first = 1};
	struct fan_topo t;
	struct fan_install in;
	struct fan_why why;
	uint32_t summed = 0;
	assert_int_equal(fan_topo_parse(&t, reading_topology, sizeof reading_topology - 1, &why),
			 FAN_OK);
	struct fan_plan p = plan_of(&t, "switchml", FAN_SUMS_TWO_LEVELS);
	assert_int_equal(fan_install_make(&in, &t, &p, &first, &why), FAN_OK);
	assert_int_equal(in.parts, 1);
	for (uint32_t i = 0; i < in.entries; i++)
		if (in.entry[i].sums && in.entry[i].ranks[0] & 1)
			summed++;
	assert_int_equal(summed, 2);
	fan_install_free(&in);
	fan_tree_sum(&p.tree[0], rig_node(&t, "L2"))->to = rig_node(&t, "S"); /* and back */
	assert_true(fan_eval_gbps(&t, &p) == (double)FAN_E_CONFIG);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules__spread_over_routes_of_one_length),
		cmocka_unit_test(rules__never_a_longer_route),
		cmocka_unit_test(rules__every_reading_by_hand),
		cmocka_unit_test(rules__two_levels_can_be_installed),
	};
	return RUN(tests);
}
