/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts for networks that have none; the end of topo_make.c. */
#include "rig.h"

#include "plan/algorithm.h"

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

static void attach__hosts_in_turn_at_the_rate_of_their_switch(void **state)
{
	(void)state;
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

static void attach__the_seed_decides_and_links_follow(void **state)
{
	(void)state;
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

static void attach__refuses_with_a_cause(void **state)
{
	(void)state;
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

static void attach__names_pieces(void **state)
{
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attach__hosts_in_turn_at_the_rate_of_their_switch),
		cmocka_unit_test(attach__the_seed_decides_and_links_follow),
		cmocka_unit_test(attach__refuses_with_a_cause),
		cmocka_unit_test(attach__names_pieces),
	};
	return RUN(tests);
}
