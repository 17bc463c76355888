/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_topology.c - nodes and links: how they are read, and a world made of them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const kinds[] = {"worker", "switch", "server", "router", NULL};
static const char *const policies[] = {FAN_POLICY_NAMES, "none", NULL};

/* An entry of "nodes", which may stand for several. */
struct node_entry {
	struct fan_scenario_node node;
	uint32_t count;	       /* 0: one, with just that name */
	uint32_t memory_frags; /* 0: "slots" counts */
};

#define AT(field) offsetof(struct node_entry, field)
static const struct fan_field node_fields[] = {
	{"name", FAN_FIELD_TEXT, AT(node.name), 0, 0, NULL},
	{"kind", FAN_FIELD_WORD, AT(node.kind), 0, 0, kinds},
	{"count", FAN_FIELD_U32, AT(count), 1, FAN_SCENARIO_NODES_MAX, NULL},
	{"gbps", FAN_FIELD_GBPS, AT(node.bps), 1e-6, 1e5, NULL},
	{"sums_gbps", FAN_FIELD_GBPS, AT(node.sums_bps), 1e-6, 1e5, NULL},
	{"ecn_bytes", FAN_FIELD_U32, AT(node.ecn_bytes), 0, FAN_LINK_QUEUE_MAX, NULL},
	{"policy", FAN_FIELD_WORD, AT(node.policy), 0, 0, policies},
	{"server", FAN_FIELD_TEXT, AT(node.server_name), 0, 0, NULL},
	{"quota", FAN_FIELD_U32, AT(node.quota), 0, FAN_SLOTS_MAX, NULL},
	{"free_early", FAN_FIELD_BOOL, AT(node.free_early), 0, 0, NULL},
	{"preemption", FAN_FIELD_BOOL, AT(node.preemption), 0, 0, NULL},
	{"ageing", FAN_FIELD_BOOL, AT(node.ageing), 0, 0, NULL},
	{"priorities", FAN_FIELD_BOOL, AT(node.priorities), 0, 0, NULL},
	{"reminders", FAN_FIELD_BOOL, AT(node.reminders), 0, 0, NULL},
	{"slots", FAN_FIELD_U32, AT(node.slots), 1, FAN_SLOTS_MAX, NULL},
	{"memory_frags", FAN_FIELD_U32, AT(memory_frags), 0, 2 * FAN_SLOTS_MAX, NULL},
	{"window", FAN_FIELD_U32, AT(node.window), 2, FAN_WINDOW_MAX, NULL},
	{"ahead_max", FAN_FIELD_U16, AT(node.ahead_max), 0, FAN_AHEAD_MAX, NULL},
	{"jobs", FAN_FIELD_U32, AT(node.jobs), 1, FAN_JOBS_MAX, NULL},
	{"buffer_bytes", FAN_FIELD_U32, AT(node.buffer_bytes), 0, 0, NULL},
	{"multicast", FAN_FIELD_BOOL, AT(node.multicast), 0, 0, NULL},
	{"parent", FAN_FIELD_TEXT, AT(node.parent_name), 0, 0, NULL},
	{"payload_bytes", FAN_FIELD_U16, AT(node.payload_bytes), FAN_PAYLOAD_MIN, FAN_PAYLOAD_MAX,
	 NULL},
};
#undef AT

struct link_entry {
	struct fan_link_config cfg;
	uint64_t back_bps;
	char a[FAN_FIELD_NAME], b[FAN_FIELD_NAME];
};

#define AT(field) offsetof(struct link_entry, field)
static const struct fan_field link_fields[] = {
	{"a", FAN_FIELD_NAMES, AT(a), 0, 0, NULL},
	{"b", FAN_FIELD_NAMES, AT(b), 0, 0, NULL},
	{"gbps", FAN_FIELD_GBPS, AT(cfg.bps), 1e-6, 1e5, NULL},
	{"back_gbps", FAN_FIELD_GBPS, AT(back_bps), 1e-6, 1e5, NULL},
	{"delay_us", FAN_FIELD_US, AT(cfg.delay_ns), 0, 1e7, NULL},
	{"queue_bytes", FAN_FIELD_U32, AT(cfg.queue_bytes), 64, FAN_LINK_QUEUE_MAX, NULL},
	{"ecn_bytes", FAN_FIELD_U32, AT(cfg.ecn_bytes), 0, FAN_LINK_QUEUE_MAX, NULL},
	{"overhead_bytes", FAN_FIELD_U32, AT(cfg.overhead_bytes), 0, 1000, NULL},
	{"loss", FAN_FIELD_SHARE, AT(cfg.fault.loss), 0, 1, NULL},
	{"loss_burst", FAN_FIELD_SHARE, AT(cfg.fault.burst), 0, 1, NULL},
	{"loss_burst_us", FAN_FIELD_US, AT(cfg.fault.burst_ns), 0, 1e7, NULL},
	{"duplicate", FAN_FIELD_SHARE, AT(cfg.fault.duplicate), 0, 1, NULL},
	{"reorder", FAN_FIELD_SHARE, AT(cfg.fault.reorder), 0, 1, NULL},
	{"reorder_us", FAN_FIELD_US, AT(cfg.fault.reorder_ns), 0, 1e7, NULL},
	{"corrupt", FAN_FIELD_SHARE, AT(cfg.fault.corrupt), 0, 1, NULL},
	{"jitter_us", FAN_FIELD_US, AT(cfg.fault.jitter_ns), 0, 1e7, NULL},
};
#undef AT

uint32_t fan_scenario_find(const struct fan_scenario *s, const char *name)
{
	for (uint32_t i = 0; i < s->nodes; i++)
		if (strcmp(s->node[i].name, name) == 0)
			return i;
	return FAN_SIM_NONE;
}

static int add_node(struct fan_scenario *s, struct fan_reader *r, const struct node_entry *e,
		    uint32_t number)
{
	struct fan_scenario_node n = e->node;
	if (e->count) {
		int bytes = snprintf(n.name, sizeof n.name, "%.50s%u", e->node.name, number);
		if (bytes >= (int)sizeof n.name)
			return fan_reader_fail(r, "name", "too long");
	}
	if (fan_scenario_find(s, n.name) != FAN_SIM_NONE)
		return fan_reader_fail(r, "name", "there are two nodes \"%s\"", n.name);
	if (s->nodes == FAN_SCENARIO_NODES_MAX)
		return fan_reader_fail(r, NULL, "more than %d nodes", FAN_SCENARIO_NODES_MAX);
	s->node[s->nodes++] = n;
	return 0;
}

/* Refuse keys that a node of this kind has no use for. */
static int check_keys(const struct fan_scenario_node *n, const json_t *o, struct fan_reader *r)
{
	static const char *const of_switches[] = {"policy",	"server",     "quota",
						  "free_early", "preemption", "ageing",
						  "priorities", "sums_gbps"};
	bool sums = n->kind == FAN_NODE_SWITCH || n->kind == FAN_NODE_SERVER;
	if (!sums && (n->slots || n->window || n->jobs || n->buffer_bytes || n->multicast))
		return fan_reader_fail(r, NULL,
				       "a %s has no slots, window, jobs, buffer or multicast",
				       kinds[n->kind]);
	if (!sums && json_object_get(o, "ahead_max"))
		return fan_reader_fail(r, "ahead_max", "a %s has none", kinds[n->kind]);
	if (!sums && json_object_get(o, "reminders"))
		return fan_reader_fail(r, "reminders", "a %s sends none", kinds[n->kind]);
	if (!sums && json_object_get(o, "parent"))
		return fan_reader_fail(r, "parent", "a %s has none", kinds[n->kind]);
	for (unsigned i = 0; i < COUNT(of_switches) && n->kind != FAN_NODE_SWITCH; i++)
		if (json_object_get(o, of_switches[i]))
			return fan_reader_fail(r, of_switches[i], "a %s has none: only switches do",
					       kinds[n->kind]);
	if (n->ecn_bytes && !n->bps)
		return fan_reader_fail(r, "ecn_bytes", "goes with gbps: else nothing waits there");
	if (n->sums_bps && (json_object_get(o, "gbps") || n->ecn_bytes))
		return fan_reader_fail(r, "sums_gbps", "goes without gbps and ecn_bytes");
	if (n->slots == 1 && !fan_scenario_shares(n))
		return fan_reader_fail(r, "slots", "1: the policy %s needs two",
				       policies[n->policy]);
	return 0;
}

/* The slots for which the memory has room: switchml has each slot twice. */
static int count_slots(struct node_entry *e, struct fan_reader *r)
{
	uint32_t most = fan_scenario_shares(&e->node) ? FAN_SLOTS_MAX : 2 * FAN_SLOTS_MAX;
	if (!e->memory_frags)
		return 0;
	if (e->node.kind != FAN_NODE_SWITCH)
		return fan_reader_fail(r, "memory_frags", "a %s has none: only switches do",
				       kinds[e->node.kind]);
	if (e->node.slots)
		return fan_reader_fail(r, "memory_frags", "goes without slots: it says how many");
	if (e->memory_frags > most)
		return fan_reader_fail(r, "memory_frags", "%u: expected at most %u",
				       e->memory_frags, most);
	e->node.slots = fan_scenario_shares(&e->node) ? e->memory_frags : e->memory_frags / 2;
	if (e->node.slots == 0)
		return fan_reader_fail(r, "memory_frags", "1: the policy %s needs two",
				       policies[e->node.policy]);
	return 0;
}

static void set_defaults(struct fan_scenario_node *n, const json_t *o)
{
	bool server = n->kind == FAN_NODE_SERVER || fan_scenario_shares(n);
	if (!n->slots)
		n->slots = n->kind == FAN_NODE_SERVER ? FAN_SLOTS_MAX : 4096;
	if (!n->window)
		n->window = server ? FAN_WINDOW_MAX : FAN_WINDOW_QUOTA;
	if (!server && !json_object_get(o, "window") && n->jobs && n->slots / n->jobs < n->window)
		n->window = n->slots / n->jobs < 2 ? 2 : n->slots / n->jobs; /* each its share */
	if (!n->jobs)
		n->jobs = FAN_JOBS_MAX;
	n->payload_bytes = (uint16_t)(n->payload_bytes / 8 * 8);
}

static int read_node(struct fan_scenario *s, const json_t *o, struct fan_reader *r, size_t entry)
{
	struct node_entry e = {.node = {.kind = -1,
					.payload_bytes = FAN_PAYLOAD_1500,
					.ahead_max = FAN_AHEAD_MAX,
					.preemption = true,
					.ageing = true,
					.priorities = true,
					.reminders = true,
					.parent = FAN_SIM_NONE,
					.server = FAN_SIM_NONE,
					.entry = (uint32_t)entry}};
	if (fan_fields_read(r, o, node_fields, COUNT(node_fields), &e))
		return -1;
	if (!e.node.name[0])
		return fan_reader_fail(r, NULL, "lacks the key \"name\"");
	if (e.node.kind < 0)
		return fan_reader_fail(r, NULL, "lacks the key \"kind\"");
	if (count_slots(&e, r) || check_keys(&e.node, o, r))
		return -1;
	if (e.node.sums_bps)
		e.node.bps = e.node.sums_bps;
	set_defaults(&e.node, o);
	for (uint32_t i = 0; i < (e.count ? e.count : 1); i++)
		if (add_node(s, r, &e, i))
			return -1;
	return 0;
}

/* Does the name fit "w3" or "w*"? */
static bool fits(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);
	if (n && pattern[n - 1] == '*')
		return strncmp(pattern, name, n - 1) == 0;
	return strcmp(pattern, name) == 0;
}

static int add_links(struct fan_scenario *s, struct fan_reader *r, const struct link_entry *e)
{
	uint32_t before = s->links;
	for (uint32_t a = 0; a < s->nodes; a++) {
		for (uint32_t b = 0; fits(e->a, s->node[a].name) && b < s->nodes; b++) {
			if (a == b || !fits(e->b, s->node[b].name))
				continue;
			if (s->links == FAN_SCENARIO_LINKS_MAX)
				return fan_reader_fail(r, NULL, "more than %d links",
						       FAN_SCENARIO_LINKS_MAX);
			s->link[s->links++] = (struct fan_scenario_link){a, b, e->cfg, e->back_bps};
		}
	}
	if (s->links > before)
		return 0;
	if (strcmp(e->a, e->b) == 0)
		return fan_reader_fail(r, NULL, "leads from \"%s\" to itself", e->a);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? e->b : e->a;
		uint32_t n = 0;
		while (n < s->nodes && !fits(name, s->node[n].name))
			n++;
		if (n == s->nodes)
			return fan_reader_fail(r, i ? "b" : "a", "no node \"%s\"", name);
	}
	return fan_reader_fail(r, NULL, "joins no two nodes");
}

static int read_link(struct fan_scenario *s, const json_t *o, struct fan_reader *r, size_t entry)
{
	(void)entry;
	struct link_entry e = {
		.cfg = {.delay_ns = 1000, .queue_bytes = 1 << 20, .overhead_bytes = 66}};
	if (fan_fields_read(r, o, link_fields, COUNT(link_fields), &e))
		return -1;
	if (!e.a[0] || !e.b[0])
		return fan_reader_fail(r, NULL, "lacks the key \"%s\"", e.a[0] ? "b" : "a");
	if (!e.cfg.bps)
		return fan_reader_fail(r, NULL, "lacks the key \"gbps\"");
	return add_links(s, r, &e);
}

static int read_list(struct fan_scenario *s, const json_t *o, struct fan_reader *r, const char *key,
		     int (*read)(struct fan_scenario *, const json_t *, struct fan_reader *,
				 size_t))
{
	const json_t *list = json_object_get(o, key);
	if (!json_is_array(list) || json_array_size(list) == 0)
		return fan_reader_fail(r, key, "expected an array with an entry");
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "%s[%zu]", key, i);
		if (read(s, json_array_get(list, i), r, i))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}

/* The two nodes that a link joins, the lower number first. */
struct ends {
	uint32_t low, high;
};

static int by_ends(const void *a, const void *b)
{
	const struct ends *x = a, *y = b;
	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return (x->high > y->high) - (x->high < y->high);
}

/* Check that no two links join the same nodes: a pattern such as "c*" may match too many. */
static int check_single(const struct fan_scenario *s, struct fan_reader *r)
{
	struct ends *e = calloc(s->links, sizeof *e);
	if (!e)
		return fan_reader_fail(r, NULL, "out of memory");
	for (uint32_t i = 0; i < s->links; i++) {
		uint32_t a = s->link[i].a, b = s->link[i].b;
		e[i] = a < b ? (struct ends){a, b} : (struct ends){b, a};
	}
	qsort(e, s->links, sizeof *e, by_ends);
	uint32_t i = 1;
	while (i < s->links && by_ends(&e[i - 1], &e[i]))
		i++;
	const char *low = i < s->links ? s->node[e[i].low].name : NULL;
	const char *high = i < s->links ? s->node[e[i].high].name : NULL;
	free(e);
	if (!low)
		return 0;
	return fan_reader_fail(r, "links", "two links between \"%s\" and \"%s\"", low, high);
}

/* Check that links connect all nodes, if need be through a host. */
static int check_connected(const struct fan_scenario *s, struct fan_reader *r)
{
	assert(s->nodes > 0);
	bool *reached = calloc(s->nodes, sizeof *reached);
	if (!reached)
		return fan_reader_fail(r, NULL, "out of memory");
	reached[0] = true;
	for (bool more = true; more;) { /* ends: each turn reaches another node */
		more = false;
		for (uint32_t i = 0; i < s->links; i++) {
			bool *a = &reached[s->link[i].a], *b = &reached[s->link[i].b];
			more |= *a != *b;
			*a = *b = *a || *b;
		}
	}
	uint32_t n = 0;
	while (n < s->nodes && reached[n])
		n++;
	free(reached);
	if (n == s->nodes)
		return 0;
	return fan_reader_fail(r, "links", "no path from \"%s\" to \"%s\"", s->node[0].name,
			       s->node[n].name);
}

int fan_scenario_read_topology(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	static const struct fan_field fields[] = {
		{"nodes", FAN_FIELD_OTHER, 0, 0, 0, NULL},
		{"links", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	};
	if (fan_fields_read(r, o, fields, COUNT(fields), s))
		return -1;
	s->node = calloc(FAN_SCENARIO_NODES_MAX, sizeof *s->node);
	s->link = calloc(FAN_SCENARIO_LINKS_MAX, sizeof *s->link);
	if (!s->node || !s->link)
		return fan_reader_fail(r, NULL, "out of memory");
	if (read_list(s, o, r, "nodes", read_node) || fan_scenario_read_parents(s, r) ||
	    fan_scenario_read_servers(s, r) || read_list(s, o, r, "links", read_link))
		return -1;
	return check_single(s, r) ? -1 : check_connected(s, r);
}

/* ---- a world of nodes and links ---- */

uint32_t fan_scenario_link(const struct fan_scenario *s, uint32_t link)
{
	uint32_t inside = 0;
	for (uint32_t i = 0; i < s->nodes; i++)
		inside += s->node[i].bps != 0;
	return inside + 2 * link;
}

static uint32_t packet_bytes(const struct fan_scenario *s)
{
	uint32_t most = FAN_CTL_BYTES_MAX;
	for (uint32_t i = 0; i < s->jobs; i++)
		if ((uint32_t)FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes > most)
			most = FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes;
	for (uint32_t i = 0; i < s->nodes; i++)
		if (fan_scenario_shares(&s->node[i])) /* its partial sums carry bitmaps */
			return most + FAN_BITMAP_MAX;
	return most;
}

bool fan_scenario_network(struct fan_sim *sim, const struct fan_scenario *s)
{
	fan_sim_init(sim, s->seed, packet_bytes(s));
	sim->ecmp = s->ecmp;
	for (uint32_t i = 0; i < s->nodes; i++) {
		const struct fan_scenario_node *n = &s->node[i];
		bool forwards = n->kind == FAN_NODE_SWITCH || n->kind == FAN_NODE_ROUTER;
		if (fan_sim_add_node(sim, forwards, n->bps, n->ecn_bytes) == FAN_SIM_NONE)
			return false;
	}
	for (uint32_t i = 0; i < s->links; i++) {
		const struct fan_scenario_link *l = &s->link[i];
		struct fan_link_config back = l->cfg;
		back.bps = l->back_bps ? l->back_bps : back.bps;
		if (fan_sim_add_link(sim, l->a, l->b, &l->cfg) == FAN_SIM_NONE ||
		    fan_sim_add_link(sim, l->b, l->a, &back) == FAN_SIM_NONE)
			return false;
	}
	return fan_sim_index(sim);
}
