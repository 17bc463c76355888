/* SPDX-License-Identifier: Apache-2.0 */
/* Rules without a program, and roundings of one. */
#include "unit/unit.h"

#include "plan/install.h"
#include "plan/relaxed.c"
#include "rig.h"

/* ---- rules ---- */

#define WORKERS 24

/* Two leaves; the server is on one of them.  Which spine each worker's flow takes, 0 if it
 * needs none. */
static void spines(const struct fan_topo *t, uint32_t paths, uint64_t seed, uint32_t *spine)
{
	struct fan_rules r;
	PLAN p;
	struct fan_plan_options o = fan_plan_defaults;
	o.paths = paths;
	o.seed = seed;
	assert_int_equal(fan_rules_open(&r, t, &o), FAN_OK);
	p = (struct fan_plan){0};
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

TEST(rules__spread_over_routes_of_one_length)
{
	TOPO t = rig_make("leaf-spine:leaves=2,spines=3,workers=24,programmable=0");
	uint32_t one[WORKERS], many[WORKERS], again[WORKERS], other[WORKERS];
	spines(&t, 1, 1, one);
	spines(&t, 8, 1, many);
	spines(&t, 8, 1, again);
	spines(&t, 8, 2, other);
	assert_int_equal(distinct(one), 1);
	assert_int_equal(distinct(many), 3);
	assert_memory_equal(many, again, sizeof many);
	assert_memory_not_equal(many, other, sizeof many);
}

/* W4 has a longer path to the server as well: the rule does not take it. */
TEST(rules__never_a_longer_route)
{
	TOPO t = rig_load("grid-example");
	struct fan_rules r;
	PLAN p;
	struct fan_plan_options o = fan_plan_defaults;
	o.seed = 7;
	assert_int_equal(fan_rules_open(&r, &t, &o), FAN_OK);
	p = (struct fan_plan){0};
	struct fan_tree *tree = fan_plan_add(&p, &t, 0, rig_node(&t, "PS"), 1);
	struct fan_arcs want = rig_route(&t, "W4 S1 S3 PS");
	fan_rules_send(&r, tree, 3, tree->server);
	assert_int_equal(tree->flow[3].route.hops, want.hops);
	assert_memory_equal(tree->flow[3].route.arc, want.arc, want.hops * sizeof want.arc[0]);
	fan_rules_send(&r, tree, 3, rig_node(&t, "S2"));
	assert_int_equal(tree->flow[3].to, rig_node(&t, "S2"));
	assert_int_equal(tree->sums, 1);
	assert_int_equal(tree->flow[tree->workers].route.hops, 2); /* S2 S3 PS */
	fan_rules_close(&r);
}

/* A tree has at most as many sums as workers: one that nobody enters any more makes room, and else
 * the worker sends to the server.  A sum that goes to a second switch stays on its way there. */
TEST(rules__as_many_sums_as_workers)
{
	static const char text[] =
		"{\"nodes\":[{\"name\":\"W\",\"kind\":\"worker\"},{\"name\":\"S1\",\"kind\":"
		"\"switch\",\"gbps\":1},{\"name\":\"S2\",\"kind\":\"switch\",\"gbps\":1},{\"name\":"
		"\"P\",\"kind\":\"server\"}],\"links\":[{\"a\":\"W\",\"b\":\"S1\",\"gbps\":1},{\"a\":"
		"\"S1\",\"b\":\"S2\",\"gbps\":1},{\"a\":\"S2\",\"b\":\"P\",\"gbps\":1}],\"jobs\":[{"
		"\"name\":\"j\",\"workers\":[\"W\"],\"servers\":[\"P\"]}]}";
	TOPO t = rig_parse(text);
	const uint32_t first = rig_node(&t, "S1"), second = rig_node(&t, "S2");
	struct fan_rules r;
	PLAN p;
	struct fan_plan_options o = fan_plan_defaults;
	o.sums_at = FAN_SUMS_TWO_LEVELS;
	assert_int_equal(fan_rules_open(&r, &t, &o), FAN_OK);
	p = (struct fan_plan){0};
	struct fan_tree *tree = fan_plan_add(&p, &t, 0, rig_node(&t, "P"), 1);
	fan_rules_send(&r, tree, 0, first);
	fan_rules_send(&r, tree, 0, second);
	assert_int_equal(tree->sums, 1);
	assert_non_null(fan_tree_sum(tree, second));
	fan_rules_send(&r, tree, 0, first);
	struct fan_flow *sum = fan_tree_sum(tree, first);
	rig_flow(&t, sum, "S1 S2"); /* as if another had made room for S2's sum */
	fan_rules_send(&r, tree, 0, first);
	assert_int_equal(sum->to, second);
	assert_int_equal(sum->route.hops, 1);
	fan_rules_close(&r);
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
	"{\"a\":\"PS\",\"b\":\"L2\",\"gbps\":40}],\"jobs\":[{\"name\":\"job\","
	"\"workers\":[\"W1\",\"W2\",\"W3\",\"W4\"],\"servers\":[\"PS\"]}]}";

static struct fan_plan plan_of(const struct fan_topo *t, const char *name, enum fan_sums_at sums_at)
{
	struct fan_plan_options o = fan_plan_defaults;
	struct fan_planned how = {0};
	struct fan_plan p;
	o.sums_at = sums_at;
	assert_int_equal(fan_algorithm_find(name, NULL)->run(t, &o, &p, &how), FAN_OK);
	return p;
}

/* Each reading by hand.  Under the first two PS takes in one flow a sum and one a worker that
 * nobody sums for; with two levels L2 sums three flows of 20 / 3, and what is more goes to PS in
 * three flows. */
TEST(rules__every_reading_by_hand)
{
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
	TOPO t = rig_parse(reading_topology);
	for (unsigned i = 0; i < sizeof want / sizeof want[0]; i++) {
		PLAN p = plan_of(&t, want[i].name, want[i].sums_at);
		assert_near(fan_eval_gbps(&t, &p), want[i].gbps, 1e-6);
	}
}

/* W1's part is summed at S and again at L2, and what is installed says so. */
TEST(rules__two_levels_can_be_installed)
{
	TOPO t;
	struct fan_install in;
	struct fan_why why;
	uint32_t summed = 0;
	t = rig_parse(reading_topology);
	PLAN p = plan_of(&t, "switchml", FAN_SUMS_TWO_LEVELS);
	assert_int_equal(fan_install_make(&in, &t, &p, 0, &why), FAN_OK);
	assert_int_equal(in.parts, 1);
	for (uint32_t i = 0; i < in.entries; i++)
		if (in.entry[i].sums && in.entry[i].ranks[0] & 1)
			summed++;
	assert_int_equal(summed, 2);
	fan_install_free(&in);
	fan_tree_sum(&p.tree[0], rig_node(&t, "L2"))->to = rig_node(&t, "S"); /* and back */
	assert_true(fan_eval_gbps(&t, &p) == (double)FAN_E_CONFIG);
}

/* ---- round ---- */

#define DRAWS 2000

/* The relaxed program of the example, solved, with the whole model on its one server. */
static void solve_volumes(struct fan_cands *c, struct fan_relax *r, const struct fan_topo *t)
{
	static const double whole[] = {1};
	struct fan_cands_options o = {.paths = 4};
	assert_int_equal(fan_cands_open(c, t, &o), FAN_OK);
	assert_int_equal(fan_relax_open(r, c, whole), FAN_OK);
	assert_int_equal(fan_relax_solve(r, false), FAN_OK);
}

/* Each place is taken as often as its volume says. */
TEST(round__probabilities_are_volumes)
{
	TOPO t = rig_load("grid-example");
	CANDS c;
	struct fan_relax r;
	struct fan_rng rng = {5};
	const double split[] = {1};
	double hits[3][4] = {{0}};
	solve_volumes(&c, &r, &t);
	assert_int_equal(c.groups, 3);
	assert_int_equal(c.sums, 3);
	for (unsigned i = 0; i < DRAWS; i++) {
		PLAN p;
		assert_int_equal(round_volumes(&p, &r, split, &rng), FAN_OK);
		for (uint32_t g = 0; g < c.groups; g++)
			for (uint32_t k = 0; k < c.group[g].count; k++) {
				uint32_t to = p.tree[0].flow[c.member[c.group[g].first + k]].to;
				uint32_t v = to == p.tree[0].server ? c.sums : c.target_of[to];
				hits[g][v] += 1.0 / (DRAWS * c.group[g].count);
			}
	}
	for (uint32_t g = 0; g < c.groups; g++)
		for (uint32_t v = 0; v <= c.sums; v++) {
			double x = fan_relax_volume(&r, fan_relax_q(&r, g, 0, v),
						    fan_relax_q_routes(&r, g, 0, v).count);
			assert_near(hits[g][v], x / r.gbps, x > 0 ? 0.05 : 0);
		}
	fan_relax_close(&r);
}

TEST(round__the_best_of_many)
{
	TOPO t = rig_load("grid-example");
	double before = 0;
	for (uint32_t times = 1; times <= 64; times *= 8) {
		/* the same draws first, and then more */
		struct fan_plan_options o = {.seed = 3, .paths = 4, .roundings = times};
		struct fan_planned how = {0};
		PLAN p;
		assert_int_equal(fan_grid(&t, &o, &p, &how), FAN_OK);
		assert_int_equal(how.drawings, times);
		double got = fan_eval_gbps(&t, &p);
		assert_near(got, how.most_gbps, 0);
		assert_true(how.least_gbps <= how.mean_gbps && how.mean_gbps <= got);
		assert_true(got >= before && got <= how.bound_gbps * (1 + 1e-6));
		before = got;
	}
	assert_near(before, 3, 1e-9);
}

/* A server without a share gets no tree. */
TEST(round__nothing_for_a_share_of_nothing)
{
	TOPO t = rig_load("inart-example");
	CANDS c;
	struct fan_relax r;
	struct fan_rng rng = {1};
	PLAN p;
	const double split[] = {0, 1};
	struct fan_cands_options o = {.paths = 4};
	assert_int_equal(fan_cands_open(&c, &t, &o), FAN_OK);
	assert_int_equal(fan_relax_open(&r, &c, split), FAN_OK);
	assert_int_equal(fan_relax_solve(&r, false), FAN_OK);
	assert_int_equal(round_volumes(&p, &r, split, &rng), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].server, rig_node(&t, "S2"));
	assert_true(fan_eval_gbps(&t, &p) > 0);
	fan_relax_close(&r);
}

/* ---- search ---- */

/* All eight workers straight to the server, over the shortest path. */
static struct fan_plan straight(const struct fan_topo *t, const struct fan_cands *c)
{
	struct fan_plan p = {0};
	assert_non_null(fan_plan_add(&p, t, 0, rig_node(t, "PS"), 1));
	for (uint32_t g = 0; g < c->groups; g++)
		for (uint32_t i = 0; i < c->group[g].count; i++)
			fan_cands_flow(c, &c->group[g],
				       fan_cands_to_server(c, g, rig_node(t, "PS")).first,
				       &p.tree[0].flow[c->member[c->group[g].first + i]]);
	return p;
}

TEST(search__each_move_reaches_further)
{
	TOPO t = rig_load("grid-example");
	CANDS c;
	struct fan_cands_options o = {.paths = 8};
	assert_int_equal(fan_cands_open(&c, &t, &o), 0);
	PLAN p = straight(&t, &c);
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
}

TEST(search__fills_only_what_is_open)
{
	TOPO t = rig_load("grid-example");
	CANDS c;
	struct fan_cands_options o = {.paths = 8};
	PLAN p = {0};
	assert_int_equal(fan_cands_open(&c, &t, &o), 0);
	assert_non_null(fan_plan_add(&p, &t, 0, rig_node(&t, "PS"), 1));
	uint32_t open[1] = {c.target_of[rig_node(&t, "S3")]};
	assert_int_equal(fan_search_fill(&c, &p, 0, open, 1), FAN_OK);
	assert_int_equal(p.tree[0].sums, 1);
	for (uint32_t w = 0; w < 8; w++)
		assert_int_equal(p.tree[0].flow[w].to, rig_node(&t, "S3"));
	assert_near(fan_eval_gbps(&t, &p), 1, 1e-9);
}

UNIT_MAIN
