/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/install.h"
#include "unit/unit.h"

#include "plan/algorithm.h"
#include "plan/fit.h"
#include "rig.h"

#define WALK_MAX (FAN_ROUTE_HOPS_MAX + 1)

static struct fan_plan make_plan(const struct fan_topo *t, const char *algorithm)
{
	struct fan_plan p;
	struct fan_planned how = {0};
	const struct fan_plan_options *o = &fan_plan_defaults;

	p = (struct fan_plan){0};
	assert_int_equal(fan_algorithm_find(algorithm, NULL)->run(t, o, &p, &how), FAN_OK);
	return p;
}

static bool has(const struct fan_install_entry *e, uint32_t rank)
{
	return e->ranks[rank / 64] >> rank % 64 & 1;
}

/* What a switch does with a part: the one entry that a packet of `rank` from there has. */
static const struct fan_install_entry *entry_of(const struct fan_install *in,
						const struct fan_install_part *part, uint32_t node,
						uint32_t from, uint32_t rank)
{
	const struct fan_install_entry *found = NULL;

	for (uint32_t s = 0; s < part->stops; s++) {
		const struct fan_install_stop *stop = &in->stop[part->stop + s];
		for (uint32_t i = 0; i < stop->entries && stop->node == node; i++) {
			const struct fan_install_entry *e = &in->entry[stop->entry + i];
			if (e->from != from || !has(e, rank))
				continue;
			assert_null(found);
			found = e;
		}
	}
	return found;
}

/* Let a packet of the rank travel, as switches would, and compare with the plan. */
static void walk(const struct fan_install *in, const struct fan_plan *p,
		 const struct fan_install_part *part, uint32_t rank)
{
	const struct fan_tree *tree = &p->tree[part->tree];
	uint32_t at = part->join[rank], from = FAN_NODE_NONE, sums = FAN_NODE_NONE, hops = 0;

	assert_int_equal(at, fan_arc_to(in->t, tree->flow[rank].route.arc[0]));
	while (at != part->server) {
		const struct fan_install_entry *e = entry_of(in, part, at, from, rank);
		assert_non_null(e);
		if (hops == 0)
			hops = e->depth;
		assert_int_equal(e->depth, hops--);
		if (e->sums) {
			assert_int_equal(sums, FAN_NODE_NONE); /* once */
			sums = at;
		}
		from = at;
		at = e->next;
	}
	assert_int_equal(hops, 0);
	assert_int_equal(sums == FAN_NODE_NONE ? tree->server : sums, tree->flow[rank].to);
}

/* Every rank of every part arrives as planned, and every tensor is cut whole. */
static void check(const struct fan_topo *t, const struct fan_plan *p)
{
	INSTALL in;
	struct fan_why why;
	uint64_t cut = 0;

	if (fan_install_make(&in, t, p, 0, &why))
		fail_msg("%s", why.text);
	for (uint32_t i = 0; i < in.parts; i++) {
		const struct fan_install_part *part = &in.part[i];
		if (part->number == 0)
			cut = 0;
		assert_int_equal(part->route, i + 1);
		assert_true(part->from == cut && part->to > cut);
		cut = part->to;
		assert_near((double)(part->to - part->from) / 4294967296.0,
			    p->tree[part->tree].share, 1e-6);
		if (i + 1 == in.parts || in.part[i + 1].number == 0)
			assert_true(cut == UINT64_C(1) << FAN_CUT_BITS);
		for (uint32_t rank = 0; rank < t->job[part->job].workers; rank++)
			walk(&in, p, part, rank);
	}
}

TEST(install__all_algorithms_on_all_topologies)
{
	static const char *const algorithm[] = {"geryon", "lbmm",  "switchml", "atp",
						"grid",	  "inart", "best"};
	static const char *const made[] = {"triangle", "star:workers=5",
					   "leaf-spine:leaves=4,spines=2,servers=2",
					   "fat-tree:k=4,workers=14,servers=2,seed=3"};
	for (unsigned k = 0; k < 6; k++) {
		TOPO t = k < 4 ? rig_make(made[k])
			       : rig_load(k == 4 ? "grid-example" : "inart-example");
		for (unsigned a = 0; a < sizeof algorithm / sizeof algorithm[0]; a++) {
			PLAN p = make_plan(&t, algorithm[a]);
			check(&t, &p);
		}
	}
}

TEST(install__the_plan_of_the_grid_paper)
{
	TOPO t = rig_load("grid-example");
	PLAN p = rig_grid_plan(&t);
	INSTALL in;
	struct fan_why why;
	const uint32_t s1 = rig_node(&t, "S1"), s2 = rig_node(&t, "S2"), s3 = rig_node(&t, "S3");

	assert_int_equal(fan_install_make(&in, &t, &p, 100, &why), FAN_OK);
	assert_int_equal(in.parts, 1);
	assert_int_equal(in.part[0].route, 1);
	assert_near(in.part[0].gbps, 3, 1e-9);
	assert_int_equal(in.part[0].stops, 3);
	assert_int_equal(in.stop[0].quota, 100);
	const struct fan_install_entry *e = entry_of(&in, &in.part[0], s1, FAN_NODE_NONE, 3);
	assert_true(e->next == s2 && !e->sums && e->depth == 3 && e->ranks[0] == 0x8);
	e = entry_of(&in, &in.part[0], s2, s1, 3);
	assert_true(e->next == s3 && e->sums && e->depth == 2 && e->ranks[0] == 0x8);
	e = entry_of(&in, &in.part[0], s3, s2, 3);
	assert_true(e->next == in.part[0].server && !e->sums && e->ranks[0] == 0x38);
	assert_int_equal(fan_ranks_count(e->ranks), 3);
	json_t *root = fan_install_json(&in);
	assert_int_equal(json_array_size(json_object_get(root, "switches")), 3);
	assert_int_equal(json_array_size(json_object_get(root, "workers")), 8);
	json_decref(root);
}

static void refused(const struct fan_topo *t, const struct fan_plan *p, const char *text)
{
	struct fan_install in;
	struct fan_why why;

	assert_int_equal(fan_install_make(&in, t, p, 0, &why), FAN_E_CONFIG);
	if (!strstr(why.text, text))
		fail_msg("\"%s\" does not say \"%s\"", why.text, text);
	assert_int_equal(in.parts, 0);
	fan_install_free(&in); /* empty: no harm */
}

TEST(install__what_switches_cannot_be_told)
{
	TOPO t = rig_load("grid-example");
	struct fan_plan p = rig_grid_plan(&t);
	p.tree[0].share = 0.5;
	refused(&t, &p, "add up to");
	fan_plan_free(&p);
	p = rig_grid_plan(&t);
	rig_flow(&t, &p.tree[0].flow[3], "W4 S1 S2 S3 S1"); /* silly, but no link twice */
	check(&t, &p);
	fan_plan_free(&p);
	p = rig_grid_plan(&t);
	rig_flow(&t, &p.tree[0].flow[3],
		 "W4 S1 S3 S2 S1"); /* its part and its sum, from S1 to S3 */
	refused(&t, &p, "trees[0]: the part of worker \"W4\" passes from \"S1\" to \"S3\" twice");
	fan_plan_free(&p);
	p = rig_grid_plan(&t); /* 1 -> 2 -> 3, 2 -> 3 -> 1, 3 -> 1 -> 2 */
	rig_flow(&t, &p.tree[0].flow[0], "W1 S1 S2 S3");
	rig_flow(&t, &p.tree[0].flow[4], "W5 S2 S3 S1");
	rig_flow(&t, &p.tree[0].flow[6], "W7 S3 S1 S2");
	refused(&t, &p, "in a circle");
	fan_plan_free(&p);
}

/* So many trees of 100 workers on one switch. */
static void one_switch(const struct fan_topo *t, uint32_t trees)
{
	struct fan_plan p, one = make_plan(t, "geryon");
	p = (struct fan_plan){0};
	for (uint32_t i = 0; i < trees; i++) {
		struct fan_tree *tree = fan_plan_add(&p, t, 0, one.tree[0].server, 1.0 / trees);
		memcpy(tree->flow, one.tree[0].flow, 100 * sizeof *tree->flow);
	}
	if (trees * 100 > FAN_MEMBERS_MAX)
		refused(t, &p, "2100 workers' paths pass switch \"S1\": at most 2048");
	else
		check(t, &p);
	fan_plan_free(&one);
	fan_plan_free(&p);
}

TEST(install__bounds)
{
	struct fan_topo t = rig_load("grid-example");
	struct fan_plan p = {0};
	for (unsigned i = 0; i <= FAN_PARTS_MAX; i++) {
		PLAN one = rig_grid_plan(&t);
		struct fan_tree *tree =
			fan_plan_add(&p, &t, 0, one.tree[0].server, 1.0 / (FAN_PARTS_MAX + 1));
		memcpy(tree->flow, one.tree[0].flow, 11 * sizeof *tree->flow);
		tree->sums = 3;
	}
	refused(&t, &p, "plan with fewer, by --trees");
	p.tree[0].share = 1;
	for (unsigned i = 1; i <= FAN_PARTS_MAX; i++)
		p.tree[i].share = 0; /* carries nothing: no part */
	check(&t, &p);
	fan_plan_free(&p);
	fan_topo_free(&t);
	t = rig_make("star:workers=100");
	one_switch(&t, 20); /* it knows 2,000 members, and has room for 48 more */
	one_switch(&t, 21);
	fan_topo_free(&t);
	t = rig_make("star:workers=257");
	p = make_plan(&t, "geryon");
	refused(&t, &p, "jobs[0].workers: 257");
	fan_plan_free(&p);
	fan_topo_free(&t);
}

/* A thousand workers are four jobs, of one name at their servers, each cut not at all. */
TEST(install__groups)
{
	TOPO t = rig_make("leaf-spine:leaves=8,spines=2,workers=1000,servers=4,root=1");
	PLAN p = make_plan(&t, "inart");
	struct fan_install in;
	struct fan_why why;
	assert_int_equal(t.jobs, 4);
	assert_int_equal(fan_fit_trees(&t, 0, t.job[0].server[0], 64), 1);
	check(&t, &p);
	assert_int_equal(fan_install_make(&in, &t, &p, 0, &why), FAN_OK);
	assert_int_equal(in.parts, 4);
	json_t *o = fan_install_json(&in);
	for (unsigned i = 0; i < 4; i++) {
		const json_t *part = json_array_get(json_object_get(o, "parts"), i);
		const json_t *group = json_object_get(part, "group");
		assert_string_equal(json_string_value(json_object_get(part, "name")), "job/0");
		assert_int_equal(json_integer_value(json_array_get(group, 0)), i);
		assert_int_equal(json_integer_value(json_array_get(group, 1)), 4);
		assert_int_equal(in.part[i].from, 0);
		assert_int_equal(in.part[i].to, UINT64_C(1) << FAN_CUT_BITS);
	}
	json_decref(o);
	fan_install_free(&in);
	struct fan_tree *more = fan_plan_add(&p, &t, 0, p.tree[0].server, 0.5);
	memcpy(more->flow, p.tree[0].flow, 2 * 250 * sizeof *more->flow);
	more->sums = p.tree[0].sums;
	p.tree[0].share = 0.5;
	refused(&t, &p, "a group of a job has one");
}

UNIT_MAIN
