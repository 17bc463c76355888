/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_make.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/rng.h"
#include "network.h"

#define WORD_BYTES 32

static const char *const shapes[] = {"star",	 "triangle",  "leaf-spine",
				     "fat-tree", "dragonfly", "rails"};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static const struct fan_make defaults = {
	.k = 4,
	.leaves = 4,
	.spines = 2,
	.groups = 0,
	.routers = 4,
	.global = 2,
	.rails = 4,
	.workers = 8,
	.servers = 1,
	.link_gbps = 100,
	.server_gbps = 100,
	.switch_gbps = 100,
	.switch_max_gbps = 0,
	.programmable = 1,
	.seed = 1,
};

struct number {
	const char *name;
	size_t at;
	enum { COUNT, REAL, SEED } kind;
	double min, max;
};
#define AT(field) offsetof(struct fan_make, field)
static const struct number numbers[] = {
	{"k", AT(k), COUNT, 2, 64},
	{"leaves", AT(leaves), COUNT, 1, 1024},
	{"spines", AT(spines), COUNT, 1, 1024},
	{"groups", AT(groups), COUNT, 1, 1024},
	{"routers", AT(routers), COUNT, 1, 1024},
	{"global", AT(global), COUNT, 1, 1024},
	{"rails", AT(rails), COUNT, 1, 64},
	{"hosts", AT(hosts), COUNT, 0, 4096},
	{"workers", AT(workers), COUNT, 1, FAN_TOPO_NODES_MAX},
	{"servers", AT(servers), COUNT, 1, 1024},
	{"root", AT(root), COUNT, 0, 1},
	{"link", AT(link_gbps), REAL, FAN_TOPO_GBPS_MIN, FAN_TOPO_GBPS_MAX},
	{"server", AT(server_gbps), REAL, FAN_TOPO_GBPS_MIN, FAN_TOPO_GBPS_MAX},
	{"switch", AT(switch_gbps), REAL, FAN_TOPO_GBPS_MIN, FAN_TOPO_GBPS_MAX},
	{"switch_max", AT(switch_max_gbps), REAL, FAN_TOPO_GBPS_MIN, FAN_TOPO_GBPS_MAX},
	{"programmable", AT(programmable), REAL, 0, 1},
	{"seed", AT(seed), SEED, 0, 9e15},
	{"largest", AT(largest), COUNT, 0, 1},
};

static int shape_of(const char *text, size_t bytes)
{
	for (int i = 0; i < (int)SHAPES; i++)
		if (strlen(shapes[i]) == bytes && memcmp(shapes[i], text, bytes) == 0)
			return i;
	return -1;
}

bool fan_network_is_made(const char *from)
{
	return shape_of(from, strcspn(from, ":")) >= 0;
}

static int take_number(struct fan_make *m, const char *name, size_t bytes, const char *value,
		       const char **end, struct fan_why *why)
{
	for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		const struct number *n = &numbers[i];
		if (strlen(n->name) != bytes || memcmp(n->name, name, bytes) != 0)
			continue;
		char *stop;
		double x = strtod(value, &stop);
		if (stop == value || !(x >= n->min && x <= n->max) ||
		    (n->kind != REAL && x != floor(x)))
			return fan_why_set(why, FAN_E_CONFIG, "%s: expected a %s from %g to %g",
					   n->name, n->kind == REAL ? "number" : "whole number",
					   n->min, n->max);
		char *at = (char *)m + n->at;
		if (n->kind == COUNT)
			memcpy(at, &(uint32_t){(uint32_t)x}, sizeof(uint32_t));
		else if (n->kind == SEED)
			memcpy(at, &(uint64_t){(uint64_t)x}, sizeof(uint64_t));
		else
			memcpy(at, &x, sizeof x);
		m->servers_given = m->servers_given || n->at == AT(servers);
		*end = stop;
		return FAN_OK;
	}
	return fan_why_set(
		why, FAN_E_CONFIG,
		"\"%.*s\": expected k, leaves, spines, groups, routers, global, rails, hosts, "
		"workers, servers, root, link, server, switch, switch_max, programmable or seed",
		(int)(bytes < WORD_BYTES ? bytes : WORD_BYTES), name);
}

/* Parse numbers such as "k=8,workers=100". */
static int take_numbers(struct fan_make *m, const char *text, struct fan_why *why)
{
	for (const char *p = text;; p++) {
		size_t name = strcspn(p, "=,");
		if (p[name] != '=')
			return fan_why_set(why, FAN_E_CONFIG, "expected NAME=NUMBER at \"%.20s\"",
					   p);
		int err = take_number(m, p, name, p + name + 1, &p, why);
		if (err || !*p)
			return err;
		if (*p != ',')
			return fan_why_set(why, FAN_E_CONFIG, "expected a comma at \"%.20s\"", p);
	}
}

int fan_make_parse(struct fan_make *m, const char *text, struct fan_why *why)
{
	size_t bytes = strcspn(text, ":");
	int shape = shape_of(text, bytes);

	*m = defaults;
	if (shape < 0)
		return fan_why_set(why, FAN_E_CONFIG,
				   "expected star, triangle, leaf-spine, fat-tree, dragonfly or "
				   "rails");
	m->shape = (enum fan_shape)shape;
	int err = text[bytes] ? take_numbers(m, text + bytes + 1, why) : FAN_OK;
	if (!err && m->largest)
		err = fan_why_set(why, FAN_E_CONFIG, "largest: only where hosts are attached");
	return err;
}

/* A topology that is being built. */
struct maker {
	struct fan_topo *t;
	const struct fan_make *m;
	struct fan_rng rng;
	uint32_t *rack; /* by place for a host: its switch, or the first of its rails */
	uint32_t places, racks;
	bool attaching;
};

static int add_switch(struct maker *k, char letter, uint32_t number)
{
	char name[WORD_BYTES];

	snprintf(name, sizeof name, "%c%u", letter, number + 1);
	return fan_topo_add_node(k->t, name, FAN_NODE_SWITCH, 0);
}

/* Draw the switches that can sum, and their capacities.  The others cannot. */
static int choose_capacities(struct maker *k)
{
	uint32_t n = 0, *order = calloc(k->t->nodes + 1, sizeof *order);
	double least = k->m->switch_gbps, most = k->m->switch_max_gbps;

	if (!order)
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < k->t->nodes; i++)
		if (k->t->node[i].kind == FAN_NODE_SWITCH) {
			k->t->node[i].gbps = 0;
			order[n++] = i;
		}
	uint32_t some = (uint32_t)lround(k->m->programmable * n);
	fan_rng_shuffle(&k->rng, order, n);
	for (uint32_t i = 0; i < some; i++) {
		double u = fan_rng_unit(&k->rng);
		k->t->node[order[i]].gbps = most > least ? least + u * (most - least) : least;
	}
	free(order);
	return FAN_OK;
}

/* Add places for hosts under switches first .. first + racks - 1, in turn: `each` under each, or as
 * many as are needed. */
static int add_places(struct maker *k, uint32_t first, uint32_t racks, uint32_t each)
{
	uint32_t hosts = k->m->workers + k->m->servers + k->m->root;

	assert(racks > 0);

	if (each == 0)
		each = (hosts + racks - 1) / racks;
	k->racks = racks;
	k->places = each * racks;
	k->rack = calloc((size_t)k->places + 1, sizeof *k->rack);
	if (!k->rack)
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < k->places; i++)
		k->rack[i] = first + i % racks;
	return FAN_OK;
}

static int add_host(struct maker *k, const char *word, uint32_t number, enum fan_node_kind kind,
		    uint32_t rack)
{
	char name[WORD_BYTES];

	snprintf(name, sizeof name, "%s%u", word, number + 1);
	int err = fan_topo_add_node(k->t, name, kind,
				    kind == FAN_NODE_SERVER ? k->m->server_gbps : 0);
	uint32_t links = k->m->shape == FAN_SHAPE_RAILS && !k->attaching ? k->m->rails : 1;
	for (uint32_t i = 0; i < links && !err; i++)
		err = fan_topo_add_link(k->t, k->t->nodes - 1, rack + i, k->m->link_gbps);
	return err;
}

/* Refuse more hosts than places, and say which numbers would fit. */
static int too_many(const struct maker *k, struct fan_why *why)
{
	uint32_t hosts = k->m->workers + k->m->servers + k->m->root, even = 2;
	uint32_t each = k->racks ? (hosts + k->racks - 1) / k->racks : hosts;
	char fewer[WORD_BYTES] = "";

	if (k->places > k->m->servers)
		snprintf(fewer, sizeof fewer, "workers=%u, or ", k->places - k->m->servers);
	while ((uint64_t)even * even * even / 4 < hosts)
		even += 2;
	bool wider = k->m->shape == FAN_SHAPE_FAT_TREE && !k->m->hosts;
	return fan_why_set(why, FAN_E_CONFIG, "too many: %u hosts, places for %u; %s%s=%u", hosts,
			   k->places, fewer, wider ? "k" : "hosts", wider ? even : each);
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const uint32_t *)a - (int)*(const uint32_t *)b; /* numbers of switches */
}

/* Add the parent of the servers. */
static int add_root(struct maker *k)
{
	const uint32_t root = k->t->nodes, hosts = k->m->workers + k->m->servers;
	int err = fan_topo_add_node(k->t, "ROOT", FAN_NODE_SERVER, k->m->server_gbps);

	for (uint32_t i = root - k->m->servers; i < root && !err; i++)
		k->t->node[i].parent = root;
	return err ? err : fan_topo_add_link(k->t, root, k->rack[hosts], k->m->link_gbps);
}

static int add_hosts(struct maker *k, struct fan_why *why)
{
	int err = FAN_OK;

	if (k->m->workers + k->m->servers + k->m->root > k->places)
		return too_many(k, why);
	fan_rng_shuffle(&k->rng, k->rack, k->places);
	if (k->m->root)
		qsort(k->rack, k->m->workers, sizeof *k->rack, by_number);
	for (uint32_t i = 0; i < k->m->workers && !err; i++)
		err = add_host(k, "W", i, FAN_NODE_WORKER, k->rack[i]);
	for (uint32_t i = 0; i < k->m->servers && !err; i++)
		err = add_host(k, "PS", i, FAN_NODE_SERVER, k->rack[k->m->workers + i]);
	if (!err && k->m->root)
		err = add_root(k);
	return err;
}

static int make_plain(struct maker *k)
{
	uint32_t switches = k->m->shape == FAN_SHAPE_STAR ? 1 : 3;
	int err = FAN_OK;

	for (uint32_t i = 0; i < switches && !err; i++)
		err = add_switch(k, 'S', i);
	for (uint32_t i = 0; i < switches && !err; i++)
		for (uint32_t j = i + 1; j < switches && !err; j++)
			err = fan_topo_add_link(k->t, i, j, k->m->link_gbps);
	return err ? err : add_places(k, 0, switches, k->m->hosts);
}

static int make_leaf_spine(struct maker *k)
{
	uint32_t leaves = k->m->leaves, spines = k->m->spines;
	int err = FAN_OK;

	assert(spines > 0);

	for (uint32_t i = 0; i < leaves && !err; i++)
		err = add_switch(k, 'L', i);
	for (uint32_t i = 0; i < spines && !err; i++)
		err = add_switch(k, 'S', i);
	for (uint32_t i = 0; i < leaves * spines && !err; i++)
		err = fan_topo_add_link(k->t, i / spines, leaves + i % spines, k->m->link_gbps);
	return err ? err : add_places(k, 0, leaves, k->m->hosts);
}

static int make_fat_tree(struct maker *k, struct fan_why *why)
{
	uint32_t half = k->m->k / 2, racks = k->m->k * half;
	int err = half == 0 || k->m->k % 2
			  ? fan_why_set(why, FAN_E_CONFIG, "k: expected an even number")
			  : FAN_OK;

	for (uint32_t i = 0; i < racks && !err; i++)
		err = add_switch(k, 'R', i);
	for (uint32_t i = 0; i < racks && !err; i++)
		err = add_switch(k, 'A', i);
	for (uint32_t i = 0; i < half * half && !err; i++)
		err = add_switch(k, 'C', i);
	for (uint32_t a = 0; a < racks && !err; a++) {
		uint32_t pod = a / half;
		for (uint32_t i = 0; i < half && !err; i++)
			err = fan_topo_add_link(k->t, pod * half + i, racks + a, k->m->link_gbps);
		for (uint32_t i = 0; i < half && !err; i++)
			err = fan_topo_add_link(k->t, racks + a, 2 * racks + a % half * half + i,
						k->m->link_gbps);
	}
	return err ? err : add_places(k, 0, racks, k->m->hosts ? k->m->hosts : half);
}

/* The router of a group with the link to its `other`th other group; links are spread evenly. */
static uint32_t router_to(const struct maker *k, uint32_t group, uint32_t other, uint32_t groups)
{
	assert(groups > 1);
	return group * k->m->routers + other * k->m->routers / (groups - 1);
}

static int make_dragonfly(struct maker *k, struct fan_why *why)
{
	uint32_t a = k->m->routers, most = a * k->m->global + 1;
	uint32_t groups = k->m->groups ? k->m->groups : most;

	assert(a > 0);
	if (groups > most)
		return fan_why_set(why, FAN_E_CONFIG,
				   "groups: %u routers with %u global links each join %u groups; "
				   "groups=%u, or global=%u",
				   a, k->m->global, most, most, (groups - 2) / a + 1);
	int bad = FAN_OK;
	for (uint32_t i = 0; i < groups * a && !bad; i++)
		bad = add_switch(k, 'D', i);
	for (uint32_t i = 0; i < groups * a && !bad; i++)
		for (uint32_t j = i + 1; j < (i / a + 1) * a && !bad; j++)
			bad = fan_topo_add_link(k->t, i, j, k->m->link_gbps);
	for (uint32_t g = 0; g < groups && !bad; g++)
		for (uint32_t h = g + 1; h < groups && !bad; h++)
			bad = fan_topo_add_link(k->t, router_to(k, g, h - 1, groups),
						router_to(k, h, g, groups), k->m->link_gbps);
	return bad ? bad : add_places(k, 0, groups * a, k->m->hosts);
}

static int make_rails(struct maker *k)
{
	uint32_t groups = k->m->groups ? k->m->groups : 1, switches = groups * k->m->rails;
	int err = FAN_OK;

	assert(k->m->spines > 0);

	for (uint32_t i = 0; i < switches && !err; i++)
		err = add_switch(k, 'T', i);
	for (uint32_t i = 0; i < k->m->spines && !err; i++)
		err = add_switch(k, 'S', i);
	for (uint32_t i = 0; i < switches * k->m->spines && !err; i++)
		err = fan_topo_add_link(k->t, i / k->m->spines, switches + i % k->m->spines,
					k->m->link_gbps);
	if (!err)
		err = add_places(k, 0, groups, k->m->hosts);
	for (uint32_t i = 0; i < k->places && !err; i++)
		k->rack[i] *= k->m->rails;
	return err;
}

int fan_make_network(struct fan_topo *t, const struct fan_make *m, struct fan_why *why)
{
	struct maker k = {.t = t, .m = m, .rng = {m->seed}};
	int err;

	fan_topo_init(t);
	why->text[0] = '\0';
	switch (m->shape) {
	case FAN_SHAPE_FAT_TREE: err = make_fat_tree(&k, why); break;
	case FAN_SHAPE_LEAF_SPINE: err = make_leaf_spine(&k); break;
	case FAN_SHAPE_DRAGONFLY: err = make_dragonfly(&k, why); break;
	case FAN_SHAPE_RAILS: err = make_rails(&k); break;
	default: err = make_plain(&k);
	}
	if (!err)
		err = choose_capacities(&k);
	if (!err)
		err = add_hosts(&k, why);
	free(k.rack);
	if (err == FAN_E_INVALID)
		err = fan_why_set(why, FAN_E_CONFIG, "more than %d nodes or %d links",
				  FAN_TOPO_NODES_MAX, FAN_TOPO_LINKS_MAX);
	if (err)
		fan_topo_free(t);
	return err;
}

int fan_make(struct fan_topo *t, const struct fan_make *m, struct fan_why *why)
{
	int err = fan_make_network(t, m, why);

	if (!err)
		err = fan_topo_add_all(t, "job");
	if (!err)
		err = fan_topo_split(t, why);
	if (!err)
		err = fan_topo_seal(t, why);
	if (err)
		fan_topo_free(t);
	return err;
}

/* ---- hosts for a network that has none ---- */

int fan_attach_parse(struct fan_attach *a, const char *text, struct fan_why *why)
{
	static const char *const known[] = {"workers",	    "servers", "link",
					    "server",	    "switch",  "switch_max",
					    "programmable", "seed",    "largest"};

	*a = (struct fan_attach){.make = defaults};
	a->make.server_gbps = 0; /* no limit but its link */
	for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',') {
		size_t bytes = strcspn(p, "=,");
		bool fits = false;
		for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
			fits = fits ||
			       (strlen(known[i]) == bytes && memcmp(known[i], p, bytes) == 0);
		if (!fits)
			return fan_why_set(
				why, FAN_E_CONFIG,
				"\"%.*s\": expected workers, servers, link, server, switch, "
				"switch_max, programmable, seed or largest",
				(int)(bytes < WORD_BYTES ? bytes : WORD_BYTES), p);
		a->link_given = a->link_given || strncmp(p, "link=", 5) == 0;
		a->switch_given = a->switch_given || strncmp(p, "switch=", 7) == 0;
	}
	return take_numbers(&a->make, text, why);
}

static double fastest_link(const struct fan_topo *t, uint32_t node)
{
	double gbps = 0;

	for (uint32_t i = 0; i < t->links; i++)
		if (t->link[i].a == node || t->link[i].b == node)
			gbps = fmax(gbps, t->link[i].gbps);
	return gbps > 0 ? gbps : defaults.link_gbps;
}

static bool is_taken(const struct fan_topo *t, const char *word, uint32_t number)
{
	char name[WORD_BYTES];

	snprintf(name, sizeof name, "%s%u", word, number + 1);
	for (uint32_t i = 0; i < t->nodes; i++)
		if (strcmp(t->node[i].name, name) == 0)
			return true;
	return false;
}

/* Add `count` hosts to the switches of k->rack in turn, from place `at` on, with unused numbers. */
static int attach_hosts(struct maker *k, const char *word, uint32_t count, enum fan_node_kind kind,
			uint32_t at, bool link_given)
{
	struct fan_make m = *k->m;
	int err = FAN_OK;

	assert(k->places > 0);
	for (uint32_t i = 0, number = 0; i < count && !err; i++, number++) {
		uint32_t rack = k->rack[(at + i) % k->places];
		while (is_taken(k->t, word, number))
			number++;
		if (!link_given)
			m.link_gbps = fastest_link(k->t, rack);
		err = add_host(&(struct maker){.t = k->t, .m = &m, .attaching = true}, word, number,
			       kind, rack);
	}
	return err;
}

int fan_attach(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why)
{
	int err = fan_attach_hosts(t, a, why);

	if (!err && t->jobs == 0)
		err = fan_topo_add_all(t, "job");
	return err ? err : fan_topo_seal(t, why);
}

int fan_attach_hosts(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why)
{
	struct maker k = {.t = t, .m = &a->make, .rng = {a->make.seed}};
	int err = fan_topo_whole(t, a->make.largest, why);

	k.rack = calloc((size_t)t->nodes + 1, sizeof *k.rack);
	if (!k.rack || err)
		goto out;
	for (uint32_t i = 0; i < t->nodes; i++)
		if (t->node[i].kind == FAN_NODE_SWITCH)
			k.rack[k.places++] = i;
	if (k.places == 0)
		err = fan_why_set(why, FAN_E_CONFIG, "no switch that hosts could be attached to");
	if (!err && a->switch_given)
		err = choose_capacities(&k);
	fan_rng_shuffle(&k.rng, k.rack, k.places);
	if (!err)
		err = attach_hosts(&k, "PS", a->make.servers, FAN_NODE_SERVER, 0, a->link_given);
	if (!err)
		err = attach_hosts(&k, "W", a->make.workers, FAN_NODE_WORKER, a->make.servers,
				   a->link_given);
out:
	err = err || k.rack ? err : FAN_E_NOMEM;
	free(k.rack);
	if (err == FAN_E_INVALID)
		err = fan_why_set(why, FAN_E_CONFIG, "more than %d nodes or %d links",
				  FAN_TOPO_NODES_MAX, FAN_TOPO_LINKS_MAX);
	return err;
}
