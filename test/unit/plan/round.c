/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "plan/relax.h"
#include "plan/round.h"
#include "plan/search.h"
#include "rig.h"

#define DRAWS 2000

/* The relaxed program of the example, solved, with the whole model on its one server. */
static void solve(struct fan_cands *c, struct fan_relax *r, const struct fan_topo *t)
{
	static const double whole[] = {1};
	struct fan_cands_options o = {.paths = 4};
	assert_int_equal(fan_cands_open(c, t, &o), FAN_OK);
	assert_int_equal(fan_relax_open(r, c, whole), FAN_OK);
	assert_int_equal(fan_relax_solve(r, false), FAN_OK);
}

/* Each place is taken as often as its volume says. */
static void round__probabilities_are_volumes(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_cands c;
	struct fan_relax r;
	struct fan_rng rng = {5};
	const double split[] = {1};
	double hits[3][4] = {{0}};
	solve(&c, &r, &t);
	assert_int_equal(c.groups, 3);
	assert_int_equal(c.sums, 3);
	for (unsigned i = 0; i < DRAWS; i++) {
		struct fan_plan p;
		assert_int_equal(fan_round(&p, &r, split, &rng), FAN_OK);
		for (uint32_t g = 0; g < c.groups; g++)
			for (uint32_t k = 0; k < c.group[g].count; k++) {
				uint32_t to = p.tree[0].flow[c.member[c.group[g].first + k]].to;
				uint32_t v = to == p.tree[0].server ? c.sums : c.target_of[to];
				hits[g][v] += 1.0 / (DRAWS * c.group[g].count);
			}
		fan_plan_free(&p);
	}
	for (uint32_t g = 0; g < c.groups; g++)
		for (uint32_t v = 0; v <= c.sums; v++) {
			double x = fan_relax_volume(&r, fan_relax_q(&r, g, 0, v),
						    fan_relax_q_routes(&r, g, 0, v).count);
			assert_near(hits[g][v], x / r.gbps, x > 0 ? 0.05 : 0);
		}
	fan_relax_close(&r);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

static void round__the_best_of_many(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_cands c;
	struct fan_relax r;
	const double split[] = {1};
	double before = 0;
	solve(&c, &r, &t);
	for (uint32_t times = 1; times <= 64; times *= 8) {
		struct fan_rng rng = {3}; /* the same draws first, and then more */
		struct fan_plan_options o = {.roundings = times};
		struct fan_planned how = {0};
		struct fan_plan p;
		assert_int_equal(fan_round_all(&p, &r, split, &rng, &o, &how), FAN_OK);
		assert_int_equal(how.drawings, times);
		double got = fan_eval_gbps(&t, &p);
		assert_near(got, how.most_gbps, 0);
		assert_true(how.least_gbps <= how.mean_gbps && how.mean_gbps <= got);
		assert_true(got >= before && got <= r.gbps * (1 + 1e-6));
		before = got;
		fan_plan_free(&p);
	}
	assert_near(before, 3, 1e-9);
	fan_relax_close(&r);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

/* A server without a share gets no tree. */
static void round__nothing_for_a_share_of_nothing(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("inart-example");
	struct fan_cands c;
	struct fan_relax r;
	struct fan_rng rng = {1};
	struct fan_plan p;
	const double split[] = {0, 1};
	struct fan_cands_options o = {.paths = 4};
	assert_int_equal(fan_cands_open(&c, &t, &o), FAN_OK);
	assert_int_equal(fan_relax_open(&r, &c, split), FAN_OK);
	assert_int_equal(fan_relax_solve(&r, false), FAN_OK);
	assert_int_equal(fan_round(&p, &r, split, &rng), FAN_OK);
	assert_int_equal(p.trees, 1);
	assert_int_equal(p.tree[0].server, rig_node(&t, "S2"));
	assert_true(fan_eval_gbps(&t, &p) > 0);
	fan_plan_free(&p);
	fan_relax_close(&r);
	fan_cands_close(&c);
	fan_topo_free(&t);
}

/* ---- search ---- */

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
		cmocka_unit_test(round__probabilities_are_volumes),
		cmocka_unit_test(round__the_best_of_many),
		cmocka_unit_test(round__nothing_for_a_share_of_nothing),
		cmocka_unit_test(search__each_move_reaches_further),
		cmocka_unit_test(search__fills_only_what_is_open),
	};
	return RUN(tests);
}
