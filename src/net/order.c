/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "udp.h"

static bool read_rank(unsigned *rank, const char **text)
{
	const char *p = *text;
	if (*p < '0' || *p > '9')
		return false;
	for (*rank = 0; *p >= '0' && *p <= '9'; p++) {
		*rank = *rank * 10 + (unsigned)(*p - '0');
		if (*rank >= FAN_RANKS_MAX)
			return false;
	}
	*text = p;
	return true;
}

/* Parse "0-3,7" to a set.  False: another form, empty, or a rank beyond FAN_RANKS_MAX. */
static bool read_ranks(uint64_t *set, const char *text)
{
	unsigned first, last;
	fan_ranks_none(set);
	for (;;) {
		if (!read_rank(&first, &text))
			return false;
		last = first;
		if (*text == '-') {
			text++;
			if (!read_rank(&last, &text) || last < first)
				return false;
		}
		for (unsigned r = first; r <= last; r++)
			fan_ranks_set(set, r);
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
	}
}

static int wrong(char *why, unsigned entry, const char *key, const char *expected)
{
	snprintf(why, FAN_ORDER_WHY_BYTES, "entries[%u].%s: expected %s", entry, key, expected);
	return FAN_E_CONFIG;
}

static bool read_peer(fan_peer *p, const json_t *value)
{
	const char *text = json_string_value(value);
	return text && fan_peer_read(p, text) && p->port >= 1;
}

static int read_entry(struct fan_route_entry *e, const json_t *value, unsigned i, char *why)
{
	const json_t *from = json_object_get(value, "from");
	const json_t *depth = json_object_get(value, "depth");
	const char *ranks = json_string_value(json_object_get(value, "ranks"));
	const json_t *sums = json_object_get(value, "sums");
	memset(e, 0, sizeof *e);
	if (!from || (!json_is_null(from) && !read_peer(&e->from, from)))
		return wrong(why, i, "from", "null or an address and port");
	if (!read_peer(&e->next, json_object_get(value, "next")))
		return wrong(why, i, "next", "an address and port");
	if (!ranks || !read_ranks(e->ranks, ranks))
		return wrong(why, i, "ranks", "a text as \"0-3,7\"");
	if (!json_is_integer(depth) || json_integer_value(depth) < 1 ||
	    json_integer_value(depth) > FAN_ROUTE_HOPS_MAX)
		return wrong(why, i, "depth", "a number of hops to the aggregator");
	if (!json_is_boolean(sums))
		return wrong(why, i, "sums", "true or false");
	e->depth = (uint8_t)json_integer_value(depth);
	e->sums = json_is_true(sums);
	return FAN_OK;
}

static int read_number(uint16_t *route, const json_t *value, char *why)
{
	if (!json_is_integer(value) || json_integer_value(value) < 1 ||
	    json_integer_value(value) > UINT16_MAX) {
		snprintf(why, FAN_ORDER_WHY_BYTES, "route: expected a number from 1 to 65535");
		return FAN_E_CONFIG;
	}
	*route = (uint16_t)json_integer_value(value);
	return FAN_OK;
}

static int read_install(struct fan_order *o, const json_t *value, char *why)
{
	const json_t *entries = json_object_get(value, "entries");
	const json_t *quota = json_object_get(value, "quota");
	size_t count = json_array_size(entries);
	int err = read_number(&o->route, json_object_get(value, "route"), why);
	if (err)
		return err;
	if (quota && (!json_is_integer(quota) || json_integer_value(quota) < 0 ||
		      json_integer_value(quota) > FAN_SLOTS_MAX * FAN_SHARDS_MAX)) {
		snprintf(why, FAN_ORDER_WHY_BYTES, "quota: expected a number of slots");
		return FAN_E_CONFIG;
	}
	if (count < 1 || count > FAN_ROUTE_ENTRIES_MAX) {
		snprintf(why, FAN_ORDER_WHY_BYTES, "entries: expected 1 to %d, got %zu",
			 FAN_ROUTE_ENTRIES_MAX, count);
		return FAN_E_CONFIG;
	}
	o->quota = quota ? (uint32_t)json_integer_value(quota) : 0;
	o->entries = (unsigned)count;
	for (unsigned i = 0; i < count && !err; i++)
		err = read_entry(&o->entry[i], json_array_get(entries, i), i, why);
	return err;
}

static int read_neighbours(struct fan_order *o, const json_t *value, char *why)
{
	const json_t *number = json_object_get(value, "number"), *of = json_object_get(value, "of");
	if (!json_is_integer(number) || json_integer_value(number) < 1 ||
	    json_integer_value(number) > UINT32_MAX || !json_is_array(of) ||
	    json_array_size(of) > FAN_NEIGHBOURS_MAX) {
		snprintf(why, FAN_ORDER_WHY_BYTES,
			 "neighbours: expected a number, and at most %d of them",
			 FAN_NEIGHBOURS_MAX);
		return FAN_E_CONFIG;
	}
	o->list = (uint32_t)json_integer_value(number);
	o->neighbours = (unsigned)json_array_size(of);
	for (unsigned i = 0; i < o->neighbours; i++) {
		const json_t *one = json_array_get(of, i);
		const char *name = json_string_value(json_object_get(one, "name"));
		struct fan_neighbour *n = &o->neighbour[i];
		if (!name || !name[0] || strlen(name) > FAN_NAME_MAX ||
		    !read_peer(&n->at, json_object_get(one, "at")) || fan_peer_is_any(&n->at)) {
			snprintf(why, FAN_ORDER_WHY_BYTES,
				 "neighbours[%u]: expected a name, and at: an address and port", i);
			return FAN_E_CONFIG;
		}
		snprintf(n->name, sizeof n->name, "%s", name);
	}
	return FAN_OK;
}

static int read_order(struct fan_order *o, const json_t *root, char *why)
{
	const json_t *install = json_object_get(root, "install");
	const json_t *gone = json_object_get(root, "remove");
	const json_t *neighbours = json_object_get(root, "neighbours");
	const char *refused = json_string_value(json_object_get(root, "refused"));
	const json_t *id = json_object_get(root, "id");
	if (json_is_integer(id)) {
		o->numbered = true;
		o->id = json_integer_value(id);
	}
	if (refused) {
		o->kind = FAN_ORDER_REFUSED;
		snprintf(o->refused, sizeof o->refused, "%s", refused);
		return FAN_OK;
	}
	if (neighbours) { /* needs no answer, but for its number in later reports */
		o->kind = FAN_ORDER_NEIGHBOURS;
		return read_neighbours(o, neighbours, why);
	}
	if (!install && !gone)
		return FAN_OK;
	if (!o->numbered) {
		snprintf(why, FAN_ORDER_WHY_BYTES, "id: expected a number");
		return FAN_E_CONFIG;
	}
	o->kind = install ? FAN_ORDER_INSTALL : FAN_ORDER_REMOVE;
	return install ? read_install(o, install, why) : read_number(&o->route, gone, why);
}

int fan_order_get(struct fan_order *o, const char *text, size_t bytes, char *why)
{
	json_error_t error;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	memset(o, 0, sizeof *o);
	o->kind = FAN_ORDER_OTHER;
	why[0] = '\0';
	if (!json_is_object(root)) {
		snprintf(why, FAN_ORDER_WHY_BYTES, "expected a JSON object, column %d",
			 error.column);
		json_decref(root);
		return FAN_E_CONFIG;
	}
	int err = read_order(o, root, why);
	json_decref(root);
	return err;
}
