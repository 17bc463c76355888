/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>

#include "plan/cands.h"

static void topo__what_background_load_leaves(void **state)
{
	(void)state;
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

static void topo__arcs_and_racks(void **state)
{
	(void)state;
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

static void topo__limits_between_switches_can_be_lifted(void **state)
{
	(void)state;
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

static void topo__no_worker_is_farther_than_a_route_is_long(void **state)
{
	(void)state;
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
			    "\"P\" (nodes[1]): expected at most 23");
	fan_topo_free(&t);
}

static void topo__hosts_pass_nothing_on(void **state)
{
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topo__what_background_load_leaves),
		cmocka_unit_test(topo__arcs_and_racks),
		cmocka_unit_test(topo__limits_between_switches_can_be_lifted),
		cmocka_unit_test(topo__no_worker_is_farther_than_a_route_is_long),
		cmocka_unit_test(topo__hosts_pass_nothing_on),
	};
	return RUN(tests);
}
