/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static uint32_t count_kind(const struct fan_topo *t, enum fan_node_kind kind)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->nodes; i++)
		n += t->node[i].kind == kind;
	return n;
}

static void make__fat_tree_of_the_grid_paper(void **state)
{
	(void)state;
	struct fan_topo t = rig_make("fat-tree:k=8,hosts=6,workers=100,programmable=0.2,"
				     "switch=100,switch_max=3200,seed=5");
	assert_int_equal(count_kind(&t, FAN_NODE_SWITCH), 80);
	assert_int_equal(count_kind(&t, FAN_NODE_WORKER), 100);
	assert_int_equal(count_kind(&t, FAN_NODE_SERVER), 1);
	assert_int_equal(t.links, 2 * 8 * 4 * 4 + 101);
	uint32_t sums = 0;
	for (uint32_t i = 0; i < t.nodes; i++) {
		if (t.node[i].kind != FAN_NODE_SWITCH)
			continue;
		if (t.node[i].name[0] == 'R')
			assert_in_range(t.node[i].degree, 4, 10);
		else
			assert_int_equal(t.node[i].degree, 8);
		sums += fan_node_sums(&t, i);
		if (fan_node_sums(&t, i))
			assert_true(t.node[i].gbps >= 100 && t.node[i].gbps <= 3200);
	}
	assert_int_equal(sums, 16);
	fan_topo_free(&t);
}

static void make__a_seed_decides_all(void **state)
{
	(void)state;
	struct fan_topo a = rig_make("fat-tree:workers=5,programmable=0.3,switch_max=900,seed=3");
	struct fan_topo b = rig_make("fat-tree:workers=5,programmable=0.3,switch_max=900,seed=3");
	struct fan_topo c = rig_make("fat-tree:workers=5,programmable=0.3,switch_max=900,seed=4");
	assert_memory_equal(a.node, b.node, a.nodes * sizeof *a.node);
	assert_memory_equal(a.link, b.link, a.links * sizeof *a.link);
	assert_memory_not_equal(a.node, c.node, a.nodes * sizeof *a.node);
	fan_topo_free(&a);
	fan_topo_free(&b);
	fan_topo_free(&c);
}

static void make__other_shapes(void **state)
{
	(void)state;
	struct fan_topo s = rig_make("star:workers=3,link=10");
	assert_int_equal(s.nodes, 5);
	assert_int_equal(s.links, 4);
	fan_topo_free(&s);
	struct fan_topo t = rig_make("triangle:workers=8");
	assert_int_equal(t.links, 3 + 9);
	fan_topo_free(&t);
	struct fan_topo l = rig_make("leaf-spine:leaves=3,spines=2,workers=7,servers=2");
	assert_int_equal(count_kind(&l, FAN_NODE_SWITCH), 5);
	assert_int_equal(l.links, 6 + 9);
	fan_topo_free(&l);
	struct fan_topo d = rig_make("dragonfly:workers=35");
	assert_int_equal(count_kind(&d, FAN_NODE_SWITCH), 9 * 4);
	assert_int_equal(d.links, 9 * 6 + 9 * 8 / 2 + 36);
	for (uint32_t i = 0; i < 36; i++) /* 3 in the group, 2 to others, a host */
		assert_int_equal(d.node[i].degree, 3 + 2 + 1);
	fan_topo_free(&d);
	struct fan_topo r = rig_make("rails:rails=4,groups=2,spines=3,workers=7");
	assert_int_equal(count_kind(&r, FAN_NODE_SWITCH), 8 + 3);
	assert_int_equal(r.links, 8 * 3 + 8 * 4);
	for (uint32_t i = 0; i < r.nodes; i++) {
		if (r.node[i].kind == FAN_NODE_SWITCH)
			continue;
		assert_int_equal(r.node[i].degree, 4);
		for (uint32_t k = 1; k < 4; k++) /* the rails of one group, in order */
			assert_int_equal(fan_arc_to(&r, r.out[r.node[i].first + k]),
					 fan_arc_to(&r, r.out[r.node[i].first]) + k);
		assert_int_equal(fan_topo_rack(&r, i) % 4, 0);
	}
	fan_topo_free(&r);
}

static void make__refuses(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{"ring", "expected star"},
		{"fat-tree:k", "expected NAME=NUMBER"},
		{"fat-tree:k=3", "k: expected an even number"},
		{"fat-tree:k=x", "k: expected a whole number from 2 to 64"},
		{"fat-tree:k=4.5", "k: expected a whole number"},
		{"fat-tree:link=0", "link: expected a number"},
		{"fat-tree:link=nan", "link: expected a number"},
		{"fat-tree:k=4 workers=3", "expected a comma"},
		{"fat-tree:wheels=4", "\"wheels\": expected k"},
		{"fat-tree:k=64", "more than 16384 nodes or 65536 links"},
		{"fat-tree:k=4,workers=16",
		 "too many: 17 hosts, places for 16; workers=15, or k=6"},
		{"fat-tree:k=4,workers=16,servers=2",
		 "too many: 18 hosts, places for 16; workers=14, or k=6"},
		{"leaf-spine:leaves=2,hosts=3,workers=6",
		 "too many: 7 hosts, places for 6; workers=5, or hosts=4"},
		{"star:hosts=1,servers=2,workers=2", "places for 1; hosts=4"},
		{"star:largest=1", "largest: only where hosts are attached"},
		{"dragonfly:groups=12,routers=4,global=2", "join 9 groups; groups=9, or global=3"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fan_make m;
		struct fan_topo t = {0};
		struct fan_why why = {""};
		int err = fan_make_parse(&m, bad[i][0], &why);
		if (!err)
			err = fan_make(&t, &m, &why);
		if (err != FAN_E_CONFIG || !strstr(why.text, bad[i][1]))
			fail_msg("%s: %d \"%s\"", bad[i][0], err, why.text);
	}
	assert_true(fan_make_is("fat-tree:k=4"));
	assert_true(fan_make_is("star"));
	assert_false(fan_make_is("fat-tree.json"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(make__fat_tree_of_the_grid_paper),
		cmocka_unit_test(make__a_seed_decides_all),
		cmocka_unit_test(make__other_shapes),
		cmocka_unit_test(make__refuses),
	};
	return RUN(tests);
}
