/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "topo.h"

#define PLACE_BYTES 64
#define KINDS	    3 /* of nodes */

/* The state of the reader. */
struct reader {
	struct fan_topo *t;
	struct fan_why *why;
	json_t *names;		 /* numbers of nodes by name */
	json_t *ends;		 /* of links, each pair once */
	char place[PLACE_BYTES]; /* where it is, such as "links[3]" */
};

static int bad(struct reader *r, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int bad(struct reader *r, const char *key, const char *format, ...)
{
	char cause[FAN_WHY_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(cause, sizeof cause, format, args);
	va_end(args);
	return fan_why_set(r->why, FAN_E_CONFIG, "%s%s%s: %s", r->place, key[0] ? "." : "", key,
			   cause);
}

/* A number of an object: its key, and where its value goes. */
struct number {
	const char *key;
	double *to;
	double least, missing; /* if it is absent; negative: it must be there */
};

static int read_numbers(struct reader *r, const json_t *from, const struct number *n)
{
	for (; n->key; n++) {
		const json_t *value = json_object_get(from, n->key);
		*n->to = value ? json_number_value(value) : n->missing;
		if (!value && n->missing >= 0)
			continue;
		if (!json_is_number(value) || !(*n->to >= n->least && *n->to <= FAN_TOPO_GBPS_MAX))
			return bad(r, n->key, "expected a number from %g to %g", n->least,
				   FAN_TOPO_GBPS_MAX);
	}
	return FAN_OK;
}

static int read_name(struct reader *r, const json_t *from, const char **name)
{
	*name = json_string_value(json_object_get(from, "name"));
	if (*name && **name && strlen(*name) <= FAN_TOPO_NAME_MAX)
		return FAN_OK;
	return bad(r, "name", "expected a name of 1 to %d bytes", FAN_TOPO_NAME_MAX);
}

/* Check that a background load leaves at least the least rate that is planned. */
static int check_background(struct reader *r, double background, double gbps)
{
	if (background > 0 && gbps - background < FAN_TOPO_GBPS_MIN * (1 - 1e-9))
		return bad(r, "background_gbps",
			   "%g of %g Gb/s are in use, which leaves less than %g for any job",
			   background, gbps, FAN_TOPO_GBPS_MIN);
	return FAN_OK;
}

static int read_node(struct reader *r, const json_t *from)
{
	const char *kind = json_string_value(json_object_get(from, "kind")), *name;
	double gbps = 0, background = 0;
	const struct number numbers[] = {{"gbps", &gbps, FAN_TOPO_GBPS_MIN, 0},
					 {"background_gbps", &background, 0, 0},
					 {NULL, NULL, 0, 0}};
	int k = 0, err = read_name(r, from, &name);
	while (kind && k < KINDS && strcmp(kind, fan_node_kinds[k]) != 0)
		k++;
	if (!err && (!kind || k == KINDS))
		err = bad(r, "kind", "expected \"worker\", \"switch\" or \"server\"");
	if (err || (err = read_numbers(r, from, numbers)) ||
	    (err = check_background(r, background, gbps)))
		return err;
	if (json_object_get(r->names, name))
		return bad(r, "name", "\"%s\" is the name of another node", name);
	if (json_object_set_new_nocheck(r->names, name, json_integer(r->t->nodes)))
		return FAN_E_NOMEM;
	err = fan_topo_add_node(r->t, name, (enum fan_node_kind)k, gbps);
	if (err)
		return err == FAN_E_INVALID ? bad(r, "", "more than %d nodes", FAN_TOPO_NODES_MAX)
					    : err;
	r->t->node[r->t->nodes - 1].background_gbps = background;
	return FAN_OK;
}

/* The node that a string names. */
static int node_named(struct reader *r, const char *key, const json_t *value, uint32_t *node)
{
	const char *name = json_string_value(value);
	const json_t *at = name ? json_object_get(r->names, name) : NULL;
	if (!at)
		return bad(r, key, name ? "no node \"%s\"" : "expected the name of a node", name);
	*node = (uint32_t)json_integer_value(at);
	return FAN_OK;
}

static int read_link(struct reader *r, const json_t *from)
{
	char ends[PLACE_BYTES];
	uint32_t a = 0, b = 0;
	double gbps = 0, background = 0;
	const struct number numbers[] = {{"gbps", &gbps, FAN_TOPO_GBPS_MIN, -1},
					 {"background_gbps", &background, 0, 0},
					 {NULL, NULL, 0, 0}};
	int err = node_named(r, "a", json_object_get(from, "a"), &a);
	if (err || (err = node_named(r, "b", json_object_get(from, "b"), &b)) ||
	    (err = read_numbers(r, from, numbers)) || (err = check_background(r, background, gbps)))
		return err;
	if (a == b)
		return bad(r, "b", "a link from \"%s\" to itself", r->t->node[a].name);
	snprintf(ends, sizeof ends, "%u %u", a < b ? a : b, a < b ? b : a);
	if (json_object_get(r->ends, ends))
		return bad(r, "", "another link from \"%s\" to \"%s\"", r->t->node[a].name,
			   r->t->node[b].name);
	if (json_object_set_new_nocheck(r->ends, ends, json_true()))
		return FAN_E_NOMEM;
	err = fan_topo_add_link(r->t, a, b, gbps);
	if (err)
		return err == FAN_E_INVALID ? bad(r, "", "more than %d links", FAN_TOPO_LINKS_MAX)
					    : err;
	r->t->link[r->t->links - 1].background_gbps = background;
	return FAN_OK;
}

/* Read the members of one kind behind the first `*count` of `at`, which has room for all nodes. */
static int read_members(struct reader *r, const json_t *from, const char *key,
			enum fan_node_kind kind, uint32_t *at, uint32_t *count)
{
	const json_t *list = json_object_get(from, key);
	char place[PLACE_BYTES];
	if (!json_is_array(list))
		return bad(r, key, "expected a list of names");
	for (size_t i = 0; i < json_array_size(list); i++) {
		uint32_t node = 0;
		snprintf(place, sizeof place, "%s[%zu]", key, i);
		int err = node_named(r, place, json_array_get(list, i), &node);
		if (err)
			return err;
		if (r->t->node[node].kind != kind)
			return bad(r, place, "\"%s\" is a %s, not a %s", r->t->node[node].name,
				   fan_node_kinds[r->t->node[node].kind], fan_node_kinds[kind]);
		for (uint32_t k = 0; k < *count; k++)
			if (at[k] == node)
				return bad(r, place, "\"%s\" twice", r->t->node[node].name);
		at[(*count)++] = node;
	}
	return FAN_OK;
}

/* Read "group" and "spares" of a job that is one of several groups. */
static int read_group(struct reader *r, const json_t *from, struct fan_job *j)
{
	const json_t *group = json_object_get(from, "group");
	json_int_t number = json_integer_value(json_array_get(group, 0));
	json_int_t groups = json_integer_value(json_array_get(group, 1));
	if (!group)
		return FAN_OK;
	if (json_array_size(group) != 2 || number < 0 || number >= groups ||
	    groups > FAN_TOPO_JOBS_MAX || j->servers > 1 || !strchr(j->name, '@'))
		return bad(r, "group", "expected the number of a group, and of groups");
	j->group = (uint32_t)number;
	j->groups = (uint32_t)groups;
	if (!json_object_get(from, "spares"))
		return FAN_OK;
	uint32_t count = j->servers;
	int err = read_members(r, from, "spares", FAN_NODE_SERVER, j->server, &count);
	j->spares = count - j->servers;
	return err;
}

static int read_job(struct reader *r, const json_t *from)
{
	const char *name;
	int err = read_name(r, from, &name);
	for (uint32_t j = 0; j < r->t->jobs && !err; j++)
		if (strcmp(r->t->job[j].name, name) == 0)
			err = bad(r, "name", "\"%s\" is the name of jobs[%u] already", name, j);
	if (err)
		return err;
	err = fan_topo_add_job(r->t, name, r->t->nodes, r->t->nodes);
	if (err)
		return err == FAN_E_INVALID ? bad(r, "", "more than %d jobs", FAN_TOPO_JOBS_MAX)
					    : err;
	struct fan_job *j = &r->t->job[r->t->jobs - 1];
	const struct number numbers[] = {{"weight", &j->weight, FAN_TOPO_GBPS_MIN, 1},
					 {"demand_gbps", &j->demand_gbps, 0, 0},
					 {NULL, NULL, 0, 0}};
	if ((err = read_numbers(r, from, numbers)) ||
	    (err = read_members(r, from, "workers", FAN_NODE_WORKER, j->worker, &j->workers)) ||
	    (err = read_members(r, from, "servers", FAN_NODE_SERVER, j->server, &j->servers)))
		return err;
	return read_group(r, from, j);
}

/* Read a list of objects, each with `one`. */
static int read_all(struct reader *r, const json_t *root, const char *section,
		    int (*one)(struct reader *, const json_t *))
{
	const json_t *list = json_object_get(root, section);
	int err = FAN_OK;
	snprintf(r->place, sizeof r->place, "%s", section);
	if (!json_is_array(list))
		return bad(r, "", "expected a list");
	for (size_t i = 0; i < json_array_size(list) && !err; i++) {
		const json_t *item = json_array_get(list, i);
		snprintf(r->place, sizeof r->place, "%s[%zu]", section, i);
		err = json_is_object(item) ? one(r, item) : bad(r, "", "expected an object");
	}
	return err;
}

int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why)
{
	struct reader r = {.t = t, .why = why, .names = json_object(), .ends = json_object()};
	int err = r.names && r.ends ? FAN_OK : FAN_E_NOMEM;
	why->text[0] = '\0';
	*t = (struct fan_topo){0};
	if (!err)
		err = read_all(&r, root, "nodes", read_node);
	if (!err)
		err = read_all(&r, root, "links", read_link);
	if (!err)
		err = read_all(&r, root, "jobs", read_job);
	if (!err)
		err = fan_topo_seal(t, why);
	json_decref(r.names);
	json_decref(r.ends);
	if (err)
		fan_topo_free(t);
	return err;
}
