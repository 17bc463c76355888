/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_given.c - a topology that is generated from numbers or read from a planner's file.
 *
 * "topology" is "fat-tree:k=4,workers=16", or the name of a file, or an object with one of these as
 * "from".  The result has what read_topology knows: nodes and links. */
#include <stdio.h>
#include <string.h>

#include "plan/network.h"
#include "scenario.h"

/* Names of cities may have blanks and accents; those of nodes here must not. */
static json_t *plain_name(const json_t *from)
{
	char name[FAN_FIELD_NAME];

	snprintf(name, sizeof name, "%s", json_string_value(from));
	for (char *p = name; *p; p++)
		if (!strchr(FAN_NAME_SET, *p))
			*p = '_';
	return json_string(name);
}

/* A switch that cannot sum becomes a router.  Under a plan, a switch sums at the rate that the plan
 * has for it; without one, at any rate. */
static json_t *node_of(const json_t *from, bool planned)
{
	const char *kind = json_string_value(json_object_get(from, "kind"));
	json_t *gbps = json_object_get(from, "gbps"), *to = json_object();
	bool is_switch = strcmp(kind, "switch") == 0;

	json_object_set_new(to, "name", plain_name(json_object_get(from, "name")));
	json_object_set_new(to, "kind", json_string(is_switch && !gbps ? "router" : kind));
	if (json_object_get(from, "parent"))
		json_object_set_new(to, "parent", plain_name(json_object_get(from, "parent")));
	if (gbps && (!is_switch || planned))
		json_object_set(to, is_switch ? "sums_gbps" : "gbps", gbps);
	return to;
}

static json_t *link_of(const json_t *from)
{
	double delay_us = json_number_value(json_object_get(from, "delay_us"));
	double gbps = json_number_value(json_object_get(from, "gbps")) -
		      json_number_value(json_object_get(from, "background_gbps"));
	json_t *to = json_pack("{s:o, s:o, s:f}", "a", plain_name(json_object_get(from, "a")), "b",
			       plain_name(json_object_get(from, "b")), "gbps", gbps);

	if (delay_us > 0)
		json_object_set_new(to, "delay_us", json_real(delay_us));
	return to;
}

/* Add what all nodes of a kind, or all links, have besides what the network says. */
static void add_common(json_t *to, const json_t *given)
{
	static const char *const keys[][2] = {
		{"worker", "workers"}, {"switch", "switches"}, {"server", "servers"}};
	const char *kind = json_string_value(json_object_get(to, "kind")), *key = "links";

	for (unsigned i = 0; kind && i < sizeof keys / sizeof *keys; i++)
		if (strcmp(kind, keys[i][0]) == 0)
			key = keys[i][1];
	if (!kind || strcmp(kind, "router") != 0)
		json_object_update(to, json_object_get(given, key));
}

static json_t *topology_of(const json_t *network, const json_t *given, bool planned)
{
	json_t *nodes = json_array(), *links = json_array(), *from;
	size_t i;

	json_array_foreach (json_object_get(network, "nodes"), i, from) {
		json_t *to = node_of(from, planned);
		add_common(to, given);
		json_array_append_new(nodes, to);
	}
	json_array_foreach (json_object_get(network, "links"), i, from) {
		json_t *to = link_of(from);
		add_common(to, given);
		json_array_append_new(links, to);
	}
	return json_pack("{s:o, s:o}", "nodes", nodes, "links", links);
}

static json_t *network_of(const char *from, const char *attach, struct fan_reader *r)
{
	char why[FAN_WHY_BYTES];
	bool made = fan_network_is_made(from);
	char *text = made ? NULL : fan_scenario_file(r, "from", from);
	json_t *network = NULL;

	if (made || text)
		network = fan_network_json(from, text, text ? strlen(text) : 0, attach, why,
					   sizeof why);
	if (!network && (made || text))
		fan_reader_fail(r, NULL, "%s: %s", from, why);
	free(text);
	return network;
}

/* Check the keys beside "from".  0, or -1 with r->why. */
static int check_given(const json_t *given, struct fan_reader *r)
{
	static const struct fan_field fields[] = {
		{"from", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"attach", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"workers", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"switches", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"servers", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"links", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	};
	const json_t *attach = json_object_get(given, "attach");
	unsigned none;

	if (fan_fields_read(r, given, fields, sizeof fields / sizeof *fields, &none))
		return -1;
	if (!json_is_string(json_object_get(given, "from")))
		return fan_reader_fail(r, "from",
				       "expected fat-tree:k=4,workers=16 or the like, or "
				       "the name of a file");
	if (attach && !json_is_string(attach))
		return fan_reader_fail(r, "attach", "expected a text like workers=8,servers=1");
	for (unsigned i = 2; i < sizeof fields / sizeof *fields; i++) {
		const json_t *common = json_object_get(given, fields[i].key);
		if (common && !json_is_object(common))
			return fan_reader_fail(r, fields[i].key,
					       "expected an object: what each of them has");
	}
	return 0;
}

json_t *fan_scenario_given(const json_t *root, struct fan_reader *r)
{
	json_t *given = json_object_get(root, "topology"), *object = NULL, *copy = NULL;

	if (json_is_string(given))
		object = json_pack("{s:O}", "from", given);
	else if (json_object_get(given, "from"))
		object = json_incref(given);
	if (!object)
		return json_incref((json_t *)root);
	size_t back = fan_reader_enter(r, "topology");
	json_t *network = NULL;
	if (check_given(object, r) == 0)
		network = network_of(json_string_value(json_object_get(object, "from")),
				     json_string_value(json_object_get(object, "attach")), r);
	if (network) {
		fan_reader_leave(r, back);
		copy = json_copy((json_t *)root);
		json_object_set_new(copy, "topology",
				    topology_of(network, object, json_object_get(root, "routes")));
	}
	json_decref(network);
	json_decref(object);
	return copy;
}
