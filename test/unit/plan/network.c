/* SPDX-License-Identifier: Apache-2.0 */
/* Networks, and hosts that are attached to them. */
#include "unit/unit.h"

#include <math.h>

#include "plan/algorithm.h"
#include "plan/cands.h"
#include "plan/network.h"
#include "rig.h"

/* ---- topo ---- */

TEST(topo__what_background_load_leaves)
{
	struct fan_topo t = rig_load("grid-example");
	uint32_t s1 = rig_node(&t, "S1");
	t.node[s1].background_gbps = 2;
	t.link[0].background_gbps = 1;
	t.link[1].background_gbps = 99;
	fan_topo_refresh(&t);
	assert_near(t.cap[fan_node_resource(&t, s1)], 7, 0);
	assert_near(t.cap[0], 2, 0);
	assert_near(t.cap[1], 2, 0);
	assert_near(t.cap[2], 0, 0); /* never below nothing */
	assert_true(isinf(t.cap[fan_node_resource(&t, rig_node(&t, "W1"))]));
	fan_topo_free(&t);
}

TEST(topo__arcs_and_racks)
{
	struct fan_topo t = rig_load("grid-example");
	uint32_t s1 = rig_node(&t, "S1"), s3 = rig_node(&t, "S3");
	assert_int_equal(fan_arc_from(&t, 0), s1);
	assert_int_equal(fan_arc_to(&t, 0), s3);
	assert_int_equal(fan_arc_from(&t, 1), s3);
	assert_int_equal(t.node[s1].degree, 6);
	for (uint32_t i = 0; i < t.node[s1].degree; i++)
		assert_int_equal(fan_arc_from(&t, t.out[t.node[s1].first + i]), s1);
	assert_int_equal(fan_topo_rack(&t, rig_node(&t, "W6")), rig_node(&t, "S2"));
	char text[64];
	fan_resource_text(&t, 1, text, sizeof text);
	assert_string_equal(text, "link S3-S1");
	fan_resource_text(&t, fan_node_resource(&t, s3), text, sizeof text);
	assert_string_equal(text, "switch S3");
	fan_topo_free(&t);
}

TEST(topo__limits_between_switches_can_be_lifted)
{
	struct fan_topo t = rig_load("grid-example"); /* nine hosts at 3 Gb/s, the server's at 9 */
	double hosts = 0;
	t.link[0].background_gbps = 1;
	for (uint32_t i = 3; i < t.links; i++)
		hosts += t.link[i].gbps;
	fan_topo_lift_limits(&t);
	for (uint32_t a = 0; a < 6; a++)
		assert_near(t.cap[a], 2 * hosts, 0);
	for (uint32_t i = 3; i < t.links; i++)
		assert_near(t.cap[2 * i], t.link[i].gbps, 0);
	assert_true(t.link[3].gbps < hosts);
	fan_topo_free(&t);
}

/* A row of switches, a worker at its head and the server at its end. */
static struct fan_topo row(uint32_t switches, int *err, struct fan_why *why)
{
	char text[8192];
	int at = snprintf(text, sizeof text,
			  "{\"nodes\":[{\"name\":\"W\",\"kind\":\"worker\"},"
			  "{\"name\":\"P\",\"kind\":\"server\"}");
	for (uint32_t i = 0; i < switches; i++)
		at += snprintf(text + at, sizeof text - at,
			       ",{\"name\":\"S%u\",\"kind\":\"switch\"}", i);
	at += snprintf(text + at, sizeof text - at, "],\"links\":[");
	for (uint32_t i = 0; i + 1 < switches; i++)
		at += snprintf(text + at, sizeof text - at,
			       "{\"a\":\"S%u\",\"b\":\"S%u\",\"gbps\":1},", i, i + 1);
	at += snprintf(
		text + at, sizeof text - at,
		"{\"a\":\"W\",\"b\":\"S0\",\"gbps\":1},{\"a\":\"S%u\",\"b\":\"P\",\"gbps\":1}]}",
		switches - 1);
	struct fan_topo t;
	*err = fan_topo_parse(&t, text, at, why);
	return t;
}

TEST(topo__no_worker_is_farther_than_a_route_is_long)
{
	struct fan_why why;
	struct fan_cands c;
	struct fan_cands_options o = {.paths = 1};
	int err;
	struct fan_topo t = row(FAN_HOPS_MAX - 2, &err, &why);
	assert_int_equal(err, FAN_OK);
	assert_int_equal(fan_cands_open(&c, &t, &o), FAN_OK);
	fan_cands_close(&c);
	fan_topo_free(&t);
	t = row(FAN_HOPS_MAX - 1, &err, &why);
	assert_int_equal(err, FAN_E_CONFIG);
	assert_string_equal(why.text,
			    "jobs[0]: worker \"W\" (nodes[0]) is 24 links away from server "
			    "\"P\" (nodes[1]), and a route has at most 23: put them nearer to "
			    "each other, or the server in the middle");
	fan_topo_free(&t);
}

TEST(topo__hosts_pass_nothing_on)
{
	struct fan_topo t;
	struct fan_why why = {""};
	fan_topo_init(&t);
	assert_int_equal(fan_topo_add_node(&t, "W1", FAN_NODE_WORKER, 0), 0);
	assert_int_equal(fan_topo_add_node(&t, "W2", FAN_NODE_WORKER, 0), 0);
	assert_int_equal(fan_topo_add_node(&t, "PS", FAN_NODE_SERVER, 0), 0);
	assert_int_equal(fan_topo_add_link(&t, 0, 1, 1), 0);
	assert_int_equal(fan_topo_add_link(&t, 1, 2, 1), 0);
	assert_int_equal(fan_topo_add_all(&t, "job"), 0);
	assert_int_equal(fan_topo_seal(&t, &why), FAN_E_CONFIG);
	assert_non_null(strstr(why.text, "worker \"W1\" (nodes[0]) cannot reach server \"PS\""));
	fan_topo_free(&t);
}

/* ---- topo_make ---- */

static uint32_t count_kind(const struct fan_topo *t, enum fan_node_kind kind)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->nodes; i++)
		n += t->node[i].kind == kind;
	return n;
}

TEST(make__fat_tree_of_the_grid_paper)
{
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

TEST(make__a_seed_decides_all)
{
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

TEST(make__other_shapes)
{
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

TEST(make__refuses)
{
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
	assert_true(fan_network_is_made("fat-tree:k=4"));
	assert_true(fan_network_is_made("star"));
	assert_false(fan_network_is_made("fat-tree.json"));
}

/* ---- attach ---- */

/* Hosts for networks that have none; the end of topo_make.c. */

/* test/data/ring.graphml, five switches, with these hosts. */
static int load_ring(struct fan_topo *t, const char *attach, struct fan_why *why)
{
	static char text[RIG_FILE_BYTES];
	struct fan_attach a;
	FILE *f = fopen(TEST_DATA "/ring.graphml", "r");
	assert_non_null(f);
	size_t bytes = fread(text, 1, sizeof text, f);
	fclose(f);
	json_t *o = fan_graphml_to_json(text, bytes, why);
	assert_non_null(o);
	int err = attach ? fan_attach_parse(&a, attach, why) : FAN_OK;
	if (!err)
		err = fan_topo_from_json_attach(t, o, attach ? &a : NULL, why);
	json_decref(o);
	return err;
}

TEST(attach__hosts_in_turn_at_the_rate_of_their_switch)
{
	struct fan_topo t;
	struct fan_why why = {""};
	if (load_ring(&t, "workers=9,servers=2,link=10,switch=30,seed=4", &why))
		fail_msg("%s", why.text);
	assert_int_equal(t.nodes, 5 + 11);
	assert_int_equal(t.job[0].workers, 9);
	assert_int_equal(t.job[0].servers, 2);
	assert_near(t.link[3].gbps, 10, 0); /* the file does not say */
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t hosts = t.node[i].degree - 2;
		assert_true(hosts == 2 || hosts == 3); /* eleven on five */
		assert_true(fan_node_sums(&t, i));
	}
	struct fan_planned how = {0};
	struct fan_plan p;
	assert_int_equal(fan_best(&t, &fan_plan_defaults, &p, &how), FAN_OK);
	assert_true(fan_eval_gbps(&t, &p) > 1);
	fan_plan_free(&p);
	fan_topo_free(&t);
}

TEST(attach__the_seed_decides_and_links_follow)
{
	struct fan_why why = {""};
	struct fan_topo one, again, other;
	struct fan_attach a;
	assert_int_equal(fan_attach_parse(&a, "workers=3,seed=1", &why), FAN_OK);
	assert_false(a.link_given);
	for (unsigned i = 0; i < 3; i++) {
		struct fan_topo *t = i == 0 ? &one : i == 1 ? &again : &other;
		*t = rig_load("grid-example"); /* its hosts stay, and so do their names */
		a.make.seed = i == 2 ? 9 : 1;
		free(t->job[--t->jobs].worker);
		free(t->job[t->jobs].server);
		t->link[0].gbps = 7;
		assert_int_equal(fan_attach(t, &a, &why), FAN_OK);
		assert_int_equal(t->job[0].workers, 8 + 3);
	}
	bool differs = false;
	for (uint32_t i = 0; i < one.links; i++) {
		assert_int_equal(one.link[i].b, again.link[i].b);
		differs = differs || one.link[i].b != other.link[i].b;
	}
	assert_true(differs);
	uint32_t w9 = rig_node(&one, "W9"), s = fan_topo_rack(&one, w9);
	double most = strcmp(one.node[s].name, "S2") ? 9 : 3; /* S3 has the server's 9 */
	assert_near(one.cap[one.out[one.node[w9].first]], strcmp(one.node[s].name, "S1") ? most : 7,
		    0);
	fan_topo_free(&one);
	fan_topo_free(&again);
	fan_topo_free(&other);
}

TEST(attach__refuses_with_a_cause)
{
	static const char *const bad[][2] = {
		{"workers=0", "workers: expected a whole number from 1"},
		{"k=4", "\"k\": expected workers, servers, link"},
		{"workers", "expected NAME=NUMBER at \"workers\""},
		{"workers=2,", "expected NAME=NUMBER"},
		{"workers=2;servers=1", "expected a comma"},
		{"workers=16384,link=1", "more than 16384 nodes"},
		{"workers=2", "links[3].gbps: expected a number above 0, got nothing"},
		{NULL, "no worker among them"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fan_topo t;
		struct fan_why why = {""};
		int err = load_ring(&t, bad[i][0], &why);
		if (err != FAN_E_CONFIG || !strstr(why.text, bad[i][1]))
			fail_msg("%s: %d \"%s\"", bad[i][0] ? bad[i][0] : "none", err, why.text);
	}
}

TEST(attach__names_pieces)
{
	static const char *const text =
		"<graph><node id=\"a\"/><node id=\"b\"/><node id=\"c\"/><node id=\"d\"/>"
		"<edge source=\"b\" target=\"c\"/></graph>";
	struct fan_topo t;
	struct fan_attach a;
	struct fan_why why = {""};
	json_t *o = fan_graphml_to_json(text, strlen(text), &why);
	assert_int_equal(fan_attach_parse(&a, "workers=2,link=10", &why), FAN_OK);
	assert_int_equal(fan_topo_from_json_attach(&t, o, &a, &why), FAN_E_CONFIG);
	json_decref(o);
	assert_string_equal(
		why.text, "the network is in 3 pieces: 2 of its 4 nodes hang together with \"b\", "
			  "but not \"a\"; add links, or attach hosts with largest=1 and leave out "
			  "the rest");
	why.text[0] = '\0';
	o = fan_graphml_to_json(text, strlen(text), &why);
	assert_int_equal(fan_attach_parse(&a, "workers=3,link=10,largest=1", &why), FAN_OK);
	assert_int_equal(fan_topo_from_json_attach(&t, o, &a, &why), FAN_OK);
	json_decref(o);
	assert_int_equal(t.nodes, 2 + 4);
	assert_int_equal(t.links, 1 + 4);
	assert_string_equal(t.node[t.link[0].a].name, "b");
	assert_string_equal(t.node[t.link[0].b].name, "c");
	fan_topo_free(&t);
}

/* A server's parent is the one of that name also where nodes before it are left out; one that is
 * left out is nobody's. */
TEST(attach__the_largest_piece_keeps_parents)
{
	static const char text[] =
		"{\"nodes\": [{\"name\": \"A\", \"kind\": \"switch\"},"
		" {\"name\": \"GONE\", \"kind\": \"server\"},"
		" {\"name\": \"B\", \"kind\": \"switch\"}, {\"name\": \"ROOT\", \"kind\": \"server\"},"
		" {\"name\": \"P\", \"kind\": \"server\", \"parent\": \"ROOT\"},"
		" {\"name\": \"Q\", \"kind\": \"server\", \"parent\": \"GONE\"}],"
		" \"links\": [{\"a\": \"A\", \"b\": \"GONE\", \"gbps\": 1},"
		" {\"a\": \"ROOT\", \"b\": \"B\", \"gbps\": 1}, {\"a\": \"P\", \"b\": \"B\", \"gbps\": 1},"
		" {\"a\": \"Q\", \"b\": \"B\", \"gbps\": 1}]}";
	struct fan_topo t = {0};
	struct fan_why why = {""};
	struct fan_attach a;
	json_t *root = json_loads(text, 0, NULL);
	assert_int_equal(fan_attach_parse(&a, "workers=2,link=10,largest=1", &why), FAN_OK);
	assert_int_equal(fan_topo_from_json_attach(&t, root, &a, &why), FAN_OK);
	json_decref(root);
	assert_string_equal(t.node[2].name, "P");
	assert_int_equal(t.node[2].parent, 1);
	assert_string_equal(t.node[1].name, "ROOT");
	assert_string_equal(t.node[3].name, "Q");
	assert_int_equal(t.node[3].parent, FAN_NODE_NONE);
	fan_topo_free(&t);
}

UNIT_MAIN
