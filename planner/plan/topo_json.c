/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "file/text.h"

#define PLACE_BYTES 64

/* Rates of a link from its `a` to its `b`, and back. */
struct directions {
	double gbps[2], background_gbps[2];
};

/* The state of the reader. */
struct reader {
	struct fan_topo *t;
	struct fan_why *why;
	json_t *names;		       /* numbers of nodes by name, of links by both ends */
	char place[PLACE_BYTES];       /* where it is, such as "links[3]" */
	double link_gbps;	       /* of links without a rate; -1: all must have one */
	struct directions *directions; /* by link so far */
	uint32_t directions_room;
	bool needs_hosts;
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
	return fan_why_set(r->why, FAN_E_CONFIG, "%s%s%s: %s", r->place,
			   key[0] && r->place[0] ? "." : "", key, cause);
}

/* A short text for a value that is not what was expected. */
static const char *found(const json_t *value, char *text, size_t bytes)
{
	switch (value ? (int)json_typeof(value) : -1) {
	case JSON_STRING: snprintf(text, bytes, "\"%.40s\"", json_string_value(value)); break;
	case JSON_INTEGER:
	case JSON_REAL: snprintf(text, bytes, "%g", json_number_value(value)); break;
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "a list";
	case JSON_NULL: return "null";
	case -1: return "nothing";
	default: return json_is_true(value) ? "true" : "false";
	}
	return text;
}

/* Refuse keys that are not among `keys`, which ends with NULL. */
static int known_keys(struct reader *r, const json_t *object, const char *const *keys)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		unsigned i = 0;
		while (keys[i] && strcmp(keys[i], key) != 0)
			i++;
		if (keys[i])
			continue;
		const char *near = fan_text_nearest(key, keys);
		return bad(r, key, near ? "no such key; did you mean \"%s\"?" : "no such key",
			   near);
	}
	return FAN_OK;
}

/* Read a rate of at least `least`, or, if absent, `missing`, whose negative value is an error. */
static int rate(struct reader *r, const json_t *from, const char *key, double least, double missing,
		double *gbps)
{
	const json_t *value = json_object_get(from, key);
	char text[PLACE_BYTES];

	if (!value && missing >= 0) {
		*gbps = missing;
		return FAN_OK;
	}
	*gbps = json_number_value(value);
	if (json_is_number(value) && *gbps >= least && *gbps <= FAN_TOPO_GBPS_MAX)
		return FAN_OK;
	const char *hint = missing >= 0 ? "; leave it out if there is none"
			   : value	? ""
				   : "; link=10, among hosts to attach, is what links have that "
				     "say none";
	if (json_is_number(value) && *gbps > 0)
		return bad(r, key, "expected a number from %g to %g, got %s", least,
			   FAN_TOPO_GBPS_MAX, found(value, text, sizeof text));
	if (least > 0)
		return bad(r, key, "expected a number above 0, got %s%s",
			   found(value, text, sizeof text), hint);
	return bad(r, key, "expected a number from 0 on, got %s", found(value, text, sizeof text));
}

static int name_of(struct reader *r, const json_t *from, const char *key, const char **name)
{
	const json_t *value = json_object_get(from, key);
	char text[PLACE_BYTES], plain[FAN_TOPO_NAME_MAX + 1];

	*name = json_string_value(value);
	if (!*name || !**name || strlen(*name) > FAN_TOPO_NAME_MAX)
		return bad(r, key, "expected a name of 1 to %d bytes, got %s", FAN_TOPO_NAME_MAX,
			   found(value, text, sizeof text));
	snprintf(plain, sizeof plain, "%s", *name);
	fan_text_plain(plain);
	if (strcmp(plain, *name) != 0)
		return bad(r, key, "\"%s\": expected a name without control characters", *name);
	return FAN_OK;
}

static int kind_of(struct reader *r, const json_t *from, enum fan_node_kind *kind)
{
	const json_t *value = json_object_get(from, "kind");
	char text[PLACE_BYTES];

	for (int k = 0; k < 3; k++) {
		if (json_is_string(value) &&
		    strcmp(json_string_value(value), fan_node_kinds[k]) == 0) {
			*kind = (enum fan_node_kind)k;
			return FAN_OK;
		}
	}
	return bad(r, "kind", "expected \"worker\", \"switch\" or \"server\", got %s",
		   found(value, text, sizeof text));
}

/* Does a background load leave less than the least rate that is planned? */
static bool is_used_up(double background_gbps, double gbps)
{
	return background_gbps > 0 && gbps - background_gbps < FAN_TOPO_GBPS_MIN * (1 - 1e-9);
}

static int read_background(struct reader *r, const json_t *from, double gbps, double *background)
{
	int err = rate(r, from, "background_gbps", 0, 0, background);

	if (!err && is_used_up(*background, gbps))
		return bad(r, "background_gbps",
			   "%g of %g Gb/s are in use, which leaves less than %g for any job",
			   *background, gbps, FAN_TOPO_GBPS_MIN);
	return err;
}

/* Read an address, which only a controller uses. */
static int read_address(struct reader *r, const json_t *from, const char **address)
{
	const json_t *value = json_object_get(from, "address");

	*address = value ? json_string_value(value) : "";
	if (!*address || strlen(*address) > FAN_TOPO_NAME_MAX)
		return bad(r, "address", "expected the address of a host, without a port");
	return FAN_OK;
}

static int read_node(struct reader *r, const json_t *from)
{
	static const char *const keys[] = {"name",    "kind",	"gbps", "background_gbps",
					   "address", "parent", NULL};
	const char *address;
	const char *name;
	enum fan_node_kind kind = FAN_NODE_WORKER;
	double gbps = 0, background = 0;
	int err = known_keys(r, from, keys);

	if (err || (err = name_of(r, from, "name", &name)) || (err = kind_of(r, from, &kind)) ||
	    (err = rate(r, from, "gbps", FAN_TOPO_GBPS_MIN, 0, &gbps)) ||
	    (err = read_background(r, from, gbps, &background)) ||
	    (err = read_address(r, from, &address)))
		return err;
	const json_t *other = json_object_get(r->names, name);
	if (other)
		return bad(r, "name", "\"%s\" is the name of nodes[%d] already", name,
			   (int)json_integer_value(other));
	if (json_object_set_new_nocheck(r->names, name, json_integer(r->t->nodes)))
		return FAN_E_NOMEM;
	err = fan_topo_add_node(r->t, name, kind, gbps);
	if (err == FAN_E_INVALID)
		return bad(r, "", "more than %d nodes", FAN_TOPO_NODES_MAX);
	if (err)
		return err;
	struct fan_node *n = &r->t->node[r->t->nodes - 1];
	n->background_gbps = background;
	memcpy(n->address, address, strlen(address) + 1);
	return FAN_OK;
}

/* The node that a string names. */
static int node_named(struct reader *r, const char *key, const json_t *value, uint32_t *node)
{
	char text[PLACE_BYTES];
	const json_t *at =
		json_is_string(value) ? json_object_get(r->names, json_string_value(value)) : NULL;

	if (!json_is_string(value))
		return bad(r, key, "expected the name of a node, got %s",
			   found(value, text, sizeof text));
	if (!at)
		return bad(r, key, "no node \"%s\"", json_string_value(value));
	*node = (uint32_t)json_integer_value(at);
	return FAN_OK;
}

/* Read servers' parents, once all nodes are known. */
static int read_parents(struct reader *r, const json_t *root)
{
	const json_t *list = json_object_get(root, "nodes");
	int err = FAN_OK;

	for (uint32_t i = 0; i < r->t->nodes && !err; i++) {
		const json_t *value = json_object_get(json_array_get(list, i), "parent");
		struct fan_node *n = &r->t->node[i];
		if (!value)
			continue;
		snprintf(r->place, sizeof r->place, "nodes[%u]", i);
		err = node_named(r, "parent", value, &n->parent);
		if (!err && (n->kind != FAN_NODE_SERVER || n->parent == i ||
			     r->t->node[n->parent].kind != FAN_NODE_SERVER))
			err = bad(r, "parent", "expected another server's name, at a server");
	}
	for (uint32_t i = 0; i < r->t->nodes && !err; i++) {
		uint32_t parent = r->t->node[i].parent;
		snprintf(r->place, sizeof r->place, "nodes[%u]", i);
		if (parent != FAN_NODE_NONE && r->t->node[parent].parent != FAN_NODE_NONE)
			err = bad(r, "parent", "\"%s\" has a parent itself: expected one level",
				  r->t->node[parent].name);
	}
	return err;
}

/* Make room for the rates of one more link. */
static int grow_ways(struct reader *r)
{
	if (r->t->links < r->directions_room)
		return FAN_OK;
	uint32_t room = r->directions_room ? 2 * r->directions_room : 64;
	struct directions *moved = realloc(r->directions, room * sizeof *moved);
	if (!moved)
		return FAN_E_NOMEM;
	r->directions = moved;
	r->directions_room = room;
	return FAN_OK;
}

/* The link between two nodes, added when it is first needed: parallel cables are one link. */
static int link_between(struct reader *r, uint32_t a, uint32_t b, uint32_t *at)
{
	char ends[2 * (FAN_TOPO_NAME_MAX + 2)];

	snprintf(ends, sizeof ends, "%u %u", a < b ? a : b, a < b ? b : a);
	const json_t *other = json_object_get(r->names, ends);
	*at = json_is_real(other) ? (uint32_t)json_real_value(other) : r->t->links;
	if (*at < r->t->links)
		return FAN_OK;
	if (grow_ways(r))
		return FAN_E_NOMEM;
	if (!other && json_object_set_new_nocheck(r->names, ends, json_real(r->t->links)))
		return FAN_E_NOMEM;
	int err = fan_topo_add_link(r->t, a, b, 0);
	if (err == FAN_E_INVALID)
		return bad(r, "", "more than %d links", FAN_TOPO_LINKS_MAX);
	r->directions[*at] = (struct directions){{0}, {0}};
	return err;
}

/* Add a cable to its link.  A directed cable counts only in its direction: two opposite ones make a
 * link with the lower of their rates; a single one makes a link with its own. */
static int add_cable(struct reader *r, uint32_t at, uint32_t from, bool directed,
		     const struct fan_link *cable)
{
	struct fan_link *l = &r->t->link[at];
	struct directions *w = &r->directions[at];

	for (unsigned k = 0; k < 2; k++) {
		if (directed && (k == 0) != (l->a == from))
			continue;
		w->gbps[k] += cable->gbps;
		w->background_gbps[k] += cable->background_gbps;
	}
	bool both = w->gbps[0] > 0 && w->gbps[1] > 0;
	l->gbps = both ? fmin(w->gbps[0], w->gbps[1]) : fmax(w->gbps[0], w->gbps[1]);
	l->background_gbps = fmax(w->background_gbps[0], w->background_gbps[1]);
	l->delay_us = fmax(l->delay_us, cable->delay_us);
	if (is_used_up(l->background_gbps, l->gbps))
		return bad(r, "background_gbps",
			   "%g of the %g Gb/s between \"%s\" and \"%s\" are in use, which leaves "
			   "less than %g for any job",
			   l->background_gbps, l->gbps, r->t->node[l->a].name,
			   r->t->node[l->b].name, FAN_TOPO_GBPS_MIN);
	return FAN_OK;
}

static int read_link(struct reader *r, const json_t *from)
{
	static const char *const keys[] = {"a",	       "b", "gbps", "delay_us", "background_gbps",
					   "directed", NULL};
	const json_t *directed = json_object_get(from, "directed");
	uint32_t a = 0, b = 0, at = 0;
	struct fan_link cable = {0};
	char text[PLACE_BYTES];
	int err = known_keys(r, from, keys);

	if (err || (err = node_named(r, "a", json_object_get(from, "a"), &a)) ||
	    (err = node_named(r, "b", json_object_get(from, "b"), &b)) ||
	    (err = rate(r, from, "gbps", FAN_TOPO_GBPS_MIN, r->link_gbps, &cable.gbps)) ||
	    (err = rate(r, from, "delay_us", 0, 0, &cable.delay_us)) ||
	    (err = read_background(r, from, cable.gbps, &cable.background_gbps)))
		return err;
	if (directed && !json_is_boolean(directed))
		return bad(r, "directed", "expected true or false, got %s",
			   found(directed, text, sizeof text));
	if (a == b)
		return bad(r, "b", "a link from \"%s\" to itself", r->t->node[a].name);
	err = link_between(r, a, b, &at);
	return err ? err : add_cable(r, at, a, json_is_true(directed), &cable);
}

/* Read the members of one kind: those named, or all if the key is absent. */
static int read_members(struct reader *r, const json_t *from, const char *key,
			enum fan_node_kind kind, uint32_t *at, uint32_t *count)
{
	const json_t *list = json_object_get(from, key);
	char place[PLACE_BYTES], text[PLACE_BYTES];

	for (uint32_t i = 0; !list && i < r->t->nodes; i++)
		if (r->t->node[i].kind == kind && !fan_topo_children(r->t, i))
			at[(*count)++] = i;
	if (list && !json_is_array(list))
		return bad(r, key, "expected a list of names, got %s",
			   found(list, text, sizeof text));
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
				return bad(r, place, "\"%s\" is %s[%u] already",
					   r->t->node[node].name, key, k);
		at[(*count)++] = node;
	}
	return FAN_OK;
}

/* Read "group": [NUMBER, OF HOW MANY] and "spares" of jobs that are split already. */
static int read_group(struct reader *r, const json_t *from, struct fan_job *j)
{
	const json_t *group = json_object_get(from, "group");
	json_int_t number = json_integer_value(json_array_get(group, 0));
	json_int_t groups = json_integer_value(json_array_get(group, 1));

	if (!group)
		return json_object_get(from, "spares") ? bad(r, "spares", "not of a group")
						       : FAN_OK;
	if (json_array_size(group) != 2 || number < 0 || number >= groups ||
	    groups > FAN_TOPO_JOBS_MAX || j->servers > 1 || !strchr(j->name, '@'))
		return bad(r, "group", "expected as fanin plan --topology writes it");
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
	static const char *const keys[] = {"name",   "workers", "servers",     "group",
					   "spares", "weight",	"demand_gbps", NULL};
	const char *name;
	double weight = 1, demand = 0;
	int err = known_keys(r, from, keys);

	if (err || (err = name_of(r, from, "name", &name)) ||
	    (err = rate(r, from, "weight", FAN_TOPO_GBPS_MIN, 1, &weight)) ||
	    (err = rate(r, from, "demand_gbps", 0, 0, &demand)))
		return err;
	for (uint32_t j = 0; j < r->t->jobs; j++)
		if (strcmp(r->t->job[j].name, name) == 0)
			return bad(r, "name", "\"%s\" is the name of jobs[%u] already", name, j);
	err = fan_topo_add_job(r->t, name, r->t->nodes, r->t->nodes);
	if (err == FAN_E_INVALID)
		return bad(r, "", "more than %d jobs", FAN_TOPO_JOBS_MAX);
	if (err)
		return err;
	struct fan_job *j = &r->t->job[r->t->jobs - 1];
	j->weight = weight;
	j->demand_gbps = demand;
	err = read_members(r, from, "workers", FAN_NODE_WORKER, j->worker, &j->workers);
	if (!err)
		err = read_members(r, from, "servers", FAN_NODE_SERVER, j->server, &j->servers);
	return err ? err : read_group(r, from, j);
}

/* Read a list of objects, each with `one`. */
static int read_all(struct reader *r, const json_t *root, const char *section,
		    int (*one)(struct reader *, const json_t *))
{
	const json_t *list = json_object_get(root, section);
	char text[PLACE_BYTES];
	int err = FAN_OK;

	snprintf(r->place, sizeof r->place, "%s", section);
	if (!json_is_array(list))
		return bad(r, "", "expected a list, got %s", found(list, text, sizeof text));
	if (list == json_object_get(root, "nodes") && json_array_size(list) == 0)
		return bad(r, "", "there is none: the file is blank");
	for (size_t i = 0; i < json_array_size(list) && !err; i++) {
		const json_t *item = json_array_get(list, i);
		snprintf(r->place, sizeof r->place, "%s[%zu]", section, i);
		err = json_is_object(item) ? one(r, item)
					   : bad(r, "", "expected an object, got %s",
						 found(item, text, sizeof text));
	}
	return err;
}

static int need_kinds(struct reader *r)
{
	uint32_t count[3] = {0};

	for (uint32_t i = 0; i < r->t->nodes; i++)
		count[r->t->node[i].kind]++;
	if (count[FAN_NODE_WORKER] == 0)
		return fan_why_set(r->why, FAN_E_CONFIG,
				   "nodes: no worker among them; --attach workers=8,servers=1 "
				   "puts hosts on switches");
	if (count[FAN_NODE_SERVER] == 0)
		return fan_why_set(r->why, FAN_E_CONFIG, "nodes: no server among them");
	return FAN_OK;
}

static int read_jobs(struct reader *r, const json_t *root, const struct fan_attach *a)
{
	bool jobs = json_object_get(root, "jobs") != NULL;

	if (a && jobs)
		return fan_why_set(r->why, FAN_E_CONFIG,
				   "jobs: hosts are attached where no job names any");
	if (a)
		return fan_attach(r->t, a, r->why);
	int err = jobs ? read_all(r, root, "jobs", read_job) : fan_topo_add_all(r->t, "job");
	if (!err)
		err = fan_topo_split(r->t, r->why);
	return err ? err : fan_topo_seal(r->t, r->why);
}

/* Read nodes and links.  `t` is freed on error. */
static int read_network(struct reader *r, const json_t *root)
{
	static const char *const keys[] = {"nodes", "links", "jobs", "name", "comment", NULL};
	int err = r->names ? FAN_OK : FAN_E_NOMEM;

	r->why->text[0] = '\0';
	fan_topo_init(r->t);
	if (!err && !json_is_object(root))
		err = fan_why_set(r->why, FAN_E_CONFIG, "expected an object with nodes and links");
	if (!err)
		err = known_keys(r, root, keys);
	if (!err)
		err = read_all(r, root, "nodes", read_node);
	if (!err)
		err = read_parents(r, root);
	if (!err && r->needs_hosts)
		err = need_kinds(r);
	return err ? err : read_all(r, root, "links", read_link);
}

static int read_end(struct reader *r, int err)
{
	json_decref(r->names);
	free(r->directions);
	if (err)
		fan_topo_free(r->t);
	return err;
}

int fan_topo_from_json_attach(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
			      struct fan_why *why)
{
	struct reader r = {.t = t,
			   .why = why,
			   .names = json_object(),
			   .link_gbps = a && a->link_given ? a->make.link_gbps : -1,
			   .needs_hosts = !a};
	int err = read_network(&r, root);

	return read_end(&r, err ? err : read_jobs(&r, root, a));
}

int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why)
{
	return fan_topo_from_json_attach(t, root, NULL, why);
}

int fan_topo_network(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
		     struct fan_why *why)
{
	struct reader r = {.t = t,
			   .why = why,
			   .names = json_object(),
			   .link_gbps = a && a->link_given ? a->make.link_gbps : -1};
	int err = read_network(&r, root);

	return read_end(&r, err || !a ? err : fan_attach_hosts(t, a, why));
}

json_t *fan_json_parse(const char *text, size_t bytes, struct fan_why *why)
{
	json_error_t e;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &e);

	if (!root)
		fan_why_set(why, FAN_E_CONFIG, "line %d, column %d: not JSON: %s%s", e.line,
			    e.column, e.text,
			    strncmp(e.text, "'[' or '{' expected", 19)
				    ? ""
				    : "; networks are read as JSON or GraphML, nothing as YAML");
	return root;
}

int fan_topo_parse(struct fan_topo *t, const char *text, size_t bytes, struct fan_why *why)
{
	fan_topo_init(t);
	why->text[0] = '\0';
	json_t *root = fan_json_parse(text, bytes, why);
	int err = root ? fan_topo_from_json(t, root, why) : FAN_E_CONFIG;
	json_decref(root);
	return err;
}
