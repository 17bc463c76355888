/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <math.h>

#include "plan/algorithm.h"
#include "plan/cands.h"
#include "rig.h"

TEST(topo__what_background_load_leaves)
{
	TOPO t = rig_load("grid-example");
	uint32_t s1 = rig_node(&t, "S1");
	t.node[s1].background_gbps = 2;
	t.link[0].background_gbps = 1;
	t.link[1].background_gbps = 99;
	rig_refresh(&t);
	assert_near(t.cap[fan_node_resource(&t, s1)], 7, 0);
	assert_near(t.cap[0], 2, 0);
	assert_near(t.cap[1], 2, 0);
	assert_near(t.cap[2], 0, 0); /* never below nothing */
	assert_true(isinf(t.cap[fan_node_resource(&t, rig_node(&t, "W1"))]));
}

TEST(topo__arcs)
{
	TOPO t = rig_load("grid-example");
	uint32_t s1 = rig_node(&t, "S1"), s3 = rig_node(&t, "S3");
	assert_int_equal(fan_arc_from(&t, 0), s1);
	assert_int_equal(fan_arc_to(&t, 0), s3);
	assert_int_equal(fan_arc_from(&t, 1), s3);
	assert_int_equal(t.node[s1].degree, 6);
	for (uint32_t i = 0; i < t.node[s1].degree; i++)
		assert_int_equal(fan_arc_from(&t, t.out[t.node[s1].first + i]), s1);
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
	snprintf(text + at, sizeof text - at,
		 "{\"a\":\"W\",\"b\":\"S0\",\"gbps\":1},{\"a\":\"S%u\",\"b\":\"P\",\"gbps\":1}],"
		 "\"jobs\":[{\"name\":\"j\",\"workers\":[\"W\"],\"servers\":[\"P\"]}]}",
		 switches - 1);
	struct fan_topo t;
	json_t *root = json_loads(text, 0, NULL);
	*err = fan_topo_from_json(&t, root, why);
	json_decref(root);
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
	TOPO t;
	struct fan_why why = {""};
	t = (struct fan_topo){0};
	assert_int_equal(fan_topo_add_node(&t, "W1", FAN_NODE_WORKER, 0), 0);
	assert_int_equal(fan_topo_add_node(&t, "W2", FAN_NODE_WORKER, 0), 0);
	assert_int_equal(fan_topo_add_node(&t, "PS", FAN_NODE_SERVER, 0), 0);
	assert_int_equal(fan_topo_add_link(&t, 0, 1, 1), 0);
	assert_int_equal(fan_topo_add_link(&t, 1, 2, 1), 0);
	assert_int_equal(fan_topo_add_job(&t, "job", 1, 1), 0);
	t.job[0].workers = t.job[0].servers = 1;
	t.job[0].server[0] = 2;
	assert_int_equal(fan_topo_seal(&t, &why), FAN_E_CONFIG);
	assert_non_null(strstr(why.text, "worker \"W1\" (nodes[0]) cannot reach server \"PS\""));
}

UNIT_MAIN
