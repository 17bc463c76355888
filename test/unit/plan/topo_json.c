/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "rig.h"

#define GOOD_NODES                                                                                 \
	"\"nodes\":[{\"name\":\"W1\",\"kind\":\"worker\"},"                                        \
	"{\"name\":\"S1\",\"kind\":\"switch\",\"gbps\":5,\"address\":\"h\"},"                      \
	"{\"name\":\"PS\",\"kind\":\"server\",\"gbps\":5},{\"name\":\"PT\",\"kind\":\"server\"}]"
#define LINK(a, b)	"{\"a\":\"" a "\",\"b\":\"" b "\",\"gbps\":3}"
#define GOOD_LINKS	"\"links\":[" LINK("W1", "S1") "," LINK("S1", "PS") "," LINK("S1", "PT") "]"
#define NODE(inside)	"{\"nodes\":[{" inside "}],\"links\":[],\"jobs\":[]}"
#define LINKS(list)	"{" GOOD_NODES ",\"links\":[" list "],\"jobs\":[" JOB("a", "") "]}"
#define JOBS(list)	"{" GOOD_NODES "," GOOD_LINKS ",\"jobs\":[" list "]}"
#define JOB(name, more) "{\"name\":\"" name "\",\"workers\":[\"W1\"],\"servers\":[\"PS\"]" more "}"

static const struct {
	const char *text, *why;
} bad[] = {
	{"[]", "nodes: expected a list"},
	{"{}", "nodes: expected a list"},
	{"{\"nodes\":[7]}", "nodes[0]: expected an object"},
	{NODE("\"kind\":\"worker\""), "nodes[0].name: expected a name of 1 to 63 bytes"},
	{NODE("\"name\":\"\",\"kind\":\"worker\""), "nodes[0].name: expected a name"},
	{NODE("\"name\":\"x\",\"kind\":\"router\""),
	 "nodes[0].kind: expected \"worker\", \"switch\" or \"server\""},
	{NODE("\"name\":\"x\",\"kind\":7"), "nodes[0].kind: expected"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":\"ten\""),
	 "nodes[0].gbps: expected a number from 0.0001 to 1e+09"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":0"), "nodes[0].gbps: expected a number"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":1e300"), "nodes[0].gbps: expected"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":3,\"background_gbps\":3"),
	 "nodes[0].background_gbps: 3 of 3 Gb/s are in use"},
	{"{\"nodes\":[{\"name\":\"x\",\"kind\":\"worker\"},{\"name\":\"x\",\"kind\":\"server\"}]}",
	 "nodes[1].name: \"x\" is the name of another node"},
	{LINKS(LINK("W1", "S9")), "links[0].b: no node \"S9\""},
	{LINKS("{\"a\":4,\"b\":\"S1\",\"gbps\":1}"), "links[0].a: expected the name of a node"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\"}"), "links[0].gbps: expected a number"},
	{LINKS(LINK("S1", "S1")), "links[0].b: a link from \"S1\" to itself"},
	{LINKS(LINK("W1", "S1") "," LINK("S1", "W1")), "links[1]: another link from \"S1\" to"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":2,\"background_gbps\":2}"),
	 "links[0].background_gbps: 2 of 2 Gb/s are in use"},
	{LINKS(LINK("W1", "S1")), "worker \"W1\" (nodes[0]) cannot reach server \"PS\" (nodes[2])"},
	{"{" GOOD_NODES "," GOOD_LINKS "}", "jobs: expected a list"},
	{JOBS(""), "jobs: there is none"},
	{JOBS("{}"), "jobs[0].name"},
	{JOBS("{\"name\":\"a\",\"workers\":[],\"servers\":[\"PS\"]}"),
	 "jobs[0].workers: no worker"},
	{JOBS("{\"name\":\"a\",\"workers\":[\"W1\"],\"servers\":[]}"),
	 "jobs[0].servers: no server"},
	{JOBS("{\"name\":\"a\",\"workers\":\"W1\"}"), "jobs[0].workers: expected a list of names"},
	{JOBS("{\"name\":\"a\",\"workers\":[\"S1\"]}"),
	 "jobs[0].workers[0]: \"S1\" is a switch, not a worker"},
	{JOBS("{\"name\":\"a\",\"workers\":[\"W1\",\"W1\"]}"), "jobs[0].workers[1]: \"W1\" twice"},
	{JOBS("{\"name\":\"a\",\"workers\":[null]}"), "jobs[0].workers[0]: expected the name"},
	{JOBS(JOB("a", ",\"weight\":0")), "jobs[0].weight: expected a number"},
	{JOBS(JOB("a", ",\"demand_gbps\":true")), "jobs[0].demand_gbps: expected a number"},
	{JOBS(JOB("a", "") "," JOB("a", "")), "jobs[1].name: \"a\" is the name of jobs[0]"},
	{JOBS(JOB("a@0", ",\"group\":[2,2]")), "jobs[0].group: expected the number of a group"},
	{JOBS(JOB("a", ",\"group\":[0,2]")), "jobs[0].group: expected the number of a group"},
	{JOBS(JOB("a@0", ",\"group\":[0,2],\"spares\":[\"PS\"]")), "spares[0]: \"PS\" twice"},
};

TEST(topo_json__refuses_with_path_and_cause)
{
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fan_topo t;
		struct fan_why why;
		json_t *root = json_loads(bad[i].text, 0, NULL);
		assert_non_null(root);
		int err = fan_topo_from_json(&t, root, &why);
		if (err != FAN_E_CONFIG || !strstr(why.text, bad[i].why))
			fail_msg("%s\n  said %d \"%s\"\n  not \"%s\"", bad[i].text, err, why.text,
				 bad[i].why);
		assert_int_equal(t.nodes, 0);
		json_decref(root);
	}
	struct fan_topo t;
	struct fan_why why;
	assert_int_equal(fan_topo_from_json(&t, NULL, &why), FAN_E_CONFIG);
}

TEST(topo_json__what_is_given_and_what_is_not)
{
	TOPO t = rig_parse(JOBS(JOB("a", ",\"weight\":2,\"demand_gbps\":0.5") "," JOB(
		"b@1", ",\"group\":[1,3],\"spares\":[\"PT\"]")));
	assert_int_equal(t.nodes, 4);
	assert_int_equal(t.links, 3);
	assert_int_equal(t.jobs, 2);
	assert_near(t.job[0].weight, 2, 0);
	assert_near(t.job[0].demand_gbps, 0.5, 0);
	assert_int_equal(t.job[0].groups, 0);
	assert_near(t.job[1].weight, 1, 0);
	assert_int_equal(t.job[1].group, 1);
	assert_int_equal(t.job[1].groups, 3);
	assert_int_equal(t.job[1].servers, 1);
	assert_int_equal(t.job[1].spares, 1);
	assert_int_equal(t.job[1].server[1], rig_node(&t, "PT"));
	assert_near(t.cap[fan_node_resource(&t, rig_node(&t, "S1"))], 5, 0);
}

UNIT_MAIN
