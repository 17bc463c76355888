/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

#define SECOND	   UINT64_C(1000000000)
#define SEAT_EACH  5 /* numbers: node, rank, ranks, place, route */
#define LAYER_EACH 3 /* numbers: elements, times forwards and backwards */

/* A list of the scenario: how many entries it has at most, and how one is read. */
struct list {
	const char *key;
	size_t most, entry; /* bytes of an entry */
	int (*read)(struct fan_scenario *s, const json_t *o, struct fan_reader *r);
	size_t at; /* of the pointer to the entries in the scenario */
};

/* ---- nodes and links ---- */

static int read_node(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_node *n = &s->node[s->nodes];
	*n = (struct fan_scenario_node){.preemption = true,
					.ageing = true,
					.priorities = true,
					.reminders = true,
					.slots = FAN_SLOTS_MAX,
					.window = FAN_WINDOW_QUOTA,
					.jobs = FAN_JOBS_MAX,
					.ahead_max = FAN_AHEAD_MAX,
					.payload_bytes = FAN_PAYLOAD_1500,
					.parent = FAN_SIM_NONE,
					.server = FAN_SIM_NONE};
	if (fan_fields_read(r, o, "node", n))
		return -1;
	s->nodes++;
	return 0;
}

static int read_link(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_link *l = &s->link[s->links];
	*l = (struct fan_scenario_link){
		.cfg = {.delay_ns = 1000, .queue_bytes = 1 << 20, .overhead_bytes = 66}};
	if (fan_fields_read(r, o, "link", l))
		return -1;
	if (l->a >= s->nodes || l->b >= s->nodes || l->a == l->b || !l->cfg.bps)
		return fan_reader_fail(r, NULL, "expected two nodes and a rate");
	s->links++;
	return 0;
}

/* The node above `n` by `parents`, or else by servers. */
static uint32_t above(const struct fan_scenario *s, uint32_t n, bool parents)
{
	return parents ? s->node[n].parent : s->node[n].server;
}

/* Check that parents and servers exist and form no cycle, and number the children. */
static int check_trees(struct fan_scenario *s, struct fan_reader *r)
{
	for (uint32_t i = 0; i < 2 * s->nodes; i++) {
		const bool parents = i < s->nodes;
		uint32_t steps = 0, n = i % s->nodes;
		for (uint32_t at = n; at != FAN_SIM_NONE; at = above(s, at, parents))
			if (at >= s->nodes || ++steps > s->nodes)
				return fan_reader_fail(
					r, "nodes", "\"%s\" has nodes above it that make no tree",
					s->node[n].name);
	}
	for (uint32_t i = 0; i < s->nodes; i++) {
		struct fan_scenario_node *n = &s->node[i];
		if (n->parent == FAN_SIM_NONE)
			continue;
		n->index = s->node[n->parent].children++;
		if (n->index == FAN_RANKS_MAX)
			return fan_reader_fail(r, "nodes", "\"%s\" has more than %d children",
					       s->node[n->parent].name, FAN_RANKS_MAX);
	}
	return 0;
}

/* Only switches, and routers of a plan, have a policy other than the first. */
bool fan_scenario_shares(const struct fan_scenario_node *n)
{
	return fan_policy_shares((int)n->policy);
}

/* ---- jobs ---- */

/* Read a list of whole numbers from 0 to `most`, with `each` for an entry, for the caller to free;
 * `*count` entries.  NULL with r->why. */
static uint64_t *read_numbers(struct fan_reader *r, const json_t *object, const char *key,
			      unsigned each, uint64_t most, size_t *count)
{
	const json_t *list = json_object_get(object, key);
	const size_t size = json_array_size(list);
	uint64_t *to = calloc(size + 1, sizeof *to);
	*count = size / each;
	bool good = to && json_is_array(list) && size % each == 0;
	for (size_t i = 0; good && i < size; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t n = json_integer_value(v);
		good = json_is_integer(v) && n >= 0 && (uint64_t)n <= most;
		to[i] = (uint64_t)n;
	}
	if (good)
		return to;
	fan_reader_fail(r, key, "expected an array of whole numbers from 0 to %llu, %u an entry",
			(unsigned long long)most, each);
	free(to);
	return NULL;
}

/* Read the layers of model `c->model` of `root`. */
static int read_model(struct fan_job_config *c, const json_t *root, uint32_t model,
		      struct fan_reader *r)
{
	const json_t *o = json_array_get(json_object_get(root, "models"), model);
	const char *name = json_string_value(json_object_get(o, "name"));
	struct fan_model *m = &c->model;
	size_t layers;
	if (!name)
		return fan_reader_fail(r, "model", "%u: no such model", model);
	snprintf(m->name, sizeof m->name, "%s", name);
	uint64_t *n = read_numbers(r, o, "layers", LAYER_EACH, FAN_MODEL_NUMEL_MAX, &layers);
	if (n && (layers < 1 || layers > FAN_MODEL_LAYERS_MAX))
		fan_reader_fail(r, "model", "expected 1 to %d layers", FAN_MODEL_LAYERS_MAX);
	else if (n)
		m->layer = calloc(layers, sizeof *m->layer);
	for (size_t i = 0; n && m->layer && i < layers; i++)
		m->layer[i] = (struct fan_layer){.numel = n[LAYER_EACH * i],
						 .forward_ns = n[LAYER_EACH * i + 1],
						 .backward_ns = n[LAYER_EACH * i + 2]};
	m->layers = m->layer ? (uint32_t)layers : 0;
	free(n);
	return m->layer ? 0 : -1;
}

static int read_hosts(struct fan_scenario *s, struct fan_job_config *c, const json_t *o,
		      struct fan_reader *r)
{
	size_t count;
	uint64_t *n = read_numbers(r, o, "hosts", 1, s->nodes - 1u, &count);
	const bool fits = n && count >= 2 && count <= FAN_WORKERS_MAX;
	if (fits)
		c->host = calloc(count, sizeof *c->host);
	if (c->host)
		c->ranks = (uint32_t)count;
	for (size_t i = 0; fits && c->host && i < count; i++)
		c->host[i] = (uint32_t)n[i];
	free(n);
	if (n && !c->host)
		return fan_reader_fail(r, "hosts", "expected 2 to %d", FAN_WORKERS_MAX);
	return n ? 0 : -1;
}

static int read_seats(struct fan_scenario *s, struct fan_job_config *c, const json_t *o,
		      struct fan_reader *r)
{
	size_t count;
	uint64_t *n = read_numbers(r, o, "seats", SEAT_EACH, FAN_WORKERS_MAX, &count);
	bool good = n && count && count == c->ranks && (c->seat = calloc(count, sizeof *c->seat));
	for (uint32_t i = 0; good && i < c->ranks; i++) {
		const uint64_t *at = &n[(size_t)SEAT_EACH * i];
		good = at[0] < s->nodes && at[1] < at[2] && at[2] <= FAN_RANKS_MAX &&
		       at[3] < c->ranks && at[4] <= UINT16_MAX;
		c->seat[i] = (struct fan_job_seat){.node = (uint32_t)at[0],
						   .rank = (uint16_t)at[1],
						   .ranks = (uint16_t)at[2],
						   .place = (uint32_t)at[3],
						   .route = (uint16_t)at[4]};
	}
	free(n);
	if (n && !good)
		return fan_reader_fail(r, "seats", "expected one of each worker");
	return good ? 0 : -1;
}

/* Enter a part of the current object, "jobs" or "[3]".  Returns the length to leave with. */
static size_t enter(struct fan_reader *r, const char *format, ...)
{
	size_t before = strlen(r->path);
	struct fan_text t = {r->path, sizeof r->path, before};
	va_list args;
	if (before)
		fan_text_add(&t, ".");
	va_start(args, format);
	fan_text_vadd(&t, format, args);
	va_end(args);
	return before;
}

static void leave(struct fan_reader *r, size_t length)
{
	r->path[length] = '\0';
}

static int read_slow(struct fan_job_config *c, const json_t *list, struct fan_reader *r)
{
	if (json_array_size(list) > FAN_JOB_SLOWS_MAX)
		return fan_reader_fail(r, "slow", "more than %d entries", FAN_JOB_SLOWS_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct fan_slow *w = &c->slow[c->slows];
		size_t back = enter(r, "slow[%zu]", i);
		*w = (struct fan_slow){.speed = 1000000, .chance = 1000000, .to_ns = UINT64_MAX};
		if (fan_fields_read(r, json_array_get(list, i), "slow", w))
			return -1;
		if (w->rank >= c->ranks || w->ranks > c->ranks - w->rank || w->to_ns <= w->from_ns)
			return fan_reader_fail(r, NULL, "expected ranks and times that exist");
		leave(r, back);
		c->slows++;
	}
	return 0;
}

/* Check what the tables cannot. */
static int check_job(const struct fan_scenario *s, const struct fan_scenario_job *j,
		     struct fan_reader *r)
{
	const struct fan_job_config *c = &j->cfg;
	bool fanin = j->reduce == FAN_REDUCE_FANIN;
	if (fanin ? j->at >= s->nodes : j->at != FAN_SIM_NONE)
		return fan_reader_fail(r, "at", "expected a node that sums");
	if (fanin && !c->seat && c->ranks > FAN_RANKS_MAX)
		return fan_reader_fail(r, "hosts", "more than %d at one node", FAN_RANKS_MAX);
	if (c->payload_bytes % 8)
		return fan_reader_fail(r, "payload_bytes", "expected a multiple of 8");
	if (c->ahead && c->ahead < c->window)
		return fan_reader_fail(r, "ahead", "expected 0, or the window or more");
	if (c->mode == FAN_FIXED && c->wire != FAN_FLOAT32)
		return fan_reader_fail(r, "mode", "fixed goes with wire float32 only");
	return 0;
}

static int read_job(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_job *j = &s->job[s->jobs];
	struct fan_job_config *c = &j->cfg;
	*j = (struct fan_scenario_job){.at = FAN_SIM_NONE,
				       .cfg = {.iterations = 1,
					       .payload_bytes = FAN_PAYLOAD_1500,
					       .window = FAN_WINDOW_QUOTA,
					       .alive_ms = FAN_ALIVE_MS,
					       .stall_ms = 3600000}};
	c->seed = fan_rng_mix(s->seed ^ fan_rng_mix(s->jobs + UINT64_C(77)));
	s->jobs++; /* from here on it is freed with the scenario */
	if (fan_fields_read(r, o, "job", j) || read_hosts(s, c, o, r) ||
	    (json_object_get(o, "seats") && read_seats(s, c, o, r)) ||
	    read_slow(c, json_object_get(o, "slow"), r) || check_job(s, j, r) ||
	    read_model(c, s->root, j->model, r))
		return -1;
	if (!fan_job_cut(c, j->bucket_bytes))
		return fan_reader_fail(r, NULL, "out of memory");
	return 0;
}

/* Check that the parts of a tensor are alike, and not too many. */
static int check_tensors(const struct fan_scenario *s, struct fan_reader *r)
{
	for (uint32_t i = 0; i < s->jobs; i++) {
		const struct fan_scenario_job *a = &s->job[i], *b;
		uint32_t parts = 1;
		for (uint32_t k = i + 1; a->tensor[0] && k < s->jobs; k++) {
			b = &s->job[k];
			if (strcmp(a->tensor, b->tensor) != 0)
				continue;
			if (++parts > FAN_TENSOR_PARTS_MAX || a->cfg.ranks != b->cfg.ranks ||
			    a->cfg.iterations != b->cfg.iterations || a->reduce || b->reduce)
				return fan_reader_fail(r, "jobs", "\"%s\" is no part of a tensor",
						       b->cfg.name);
		}
	}
	return 0;
}

/* ---- traffic, changes, routes ---- */

static int read_background(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_flow *f = &s->flow[s->flows];
	*f = (struct fan_scenario_flow){.packet_bytes = 1500, .stop_ns = UINT64_MAX};
	if (fan_fields_read(r, o, "background", f))
		return -1;
	if (f->from >= s->nodes || f->to >= s->nodes || f->from == f->to || !f->bps)
		return fan_reader_fail(r, NULL, "expected two nodes and a rate");
	s->flows++;
	return 0;
}

static int read_flow(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_tcp *f = &s->tcp[s->tcps];
	*f = (struct fan_scenario_tcp){.stop_ns = UINT64_MAX, .ack_segments = 2};
	if (fan_fields_read(r, o, "flow", f))
		return -1;
	if (f->from >= s->nodes || f->to >= s->nodes || f->from == f->to ||
	    f->stop_ns <= f->start_ns)
		return fan_reader_fail(r, NULL, "expected two nodes, and to stop after the start");
	f->from_name = s->node[f->from].name;
	f->to_name = s->node[f->to].name;
	s->tcps++;
	return 0;
}

static int read_change(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_change *c = &s->change[s->changes];
	*c = (struct fan_scenario_change){.link = FAN_SIM_NONE, .node = FAN_SIM_NONE};
	if (fan_fields_read(r, o, "change", c))
		return -1;
	if (c->link == FAN_SIM_NONE ? c->node >= s->nodes : c->link >= s->links)
		return fan_reader_fail(r, NULL, "expected a link or a node");
	s->changes++;
	return 0;
}

static int read_entry(struct fan_scenario *s, struct fan_scenario_entry *e, const json_t *o,
		      struct fan_reader *r)
{
	size_t count;
	*e = (struct fan_scenario_entry){.from = FAN_SIM_NONE, .next = FAN_SIM_NONE};
	if (fan_fields_read(r, o, "entry", e))
		return -1;
	if ((e->from != FAN_SIM_NONE && e->from >= s->nodes) || e->next >= s->nodes || !e->depth)
		return fan_reader_fail(r, NULL, "expected nodes, and a depth");
	uint64_t *n = read_numbers(r, o, "ranks", 1, FAN_RANKS_MAX - 1, &count);
	for (size_t i = 0; n && i < count; i++)
		fan_ranks_set(e->ranks, (unsigned)n[i]);
	free(n);
	return n ? 0 : -1;
}

/* Check that a switch would accept the route. */
static int check_route(const struct fan_scenario_route *route, const json_t *o,
		       struct fan_reader *r)
{
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	const char *path = json_string_value(json_object_get(o, "path"));
	struct fan_route *scratch = malloc(sizeof *scratch);
	const struct fan_route_config c = {
		.number = route->number, .entry = entry, .entries = route->entries};
	for (uint32_t i = 0; i < route->entries; i++)
		fan_scenario_entry_put(&entry[i], &route->entry[i],
				       fan_sim_peer(route->entry[i].from),
				       fan_sim_peer(route->entry[i].next));
	int err = scratch ? fan_route_set(scratch, &c) : FAN_E_NOMEM;
	free(scratch);
	if (!err)
		return 0;
	leave(r, 0); /* people know it by the plan's path */
	enter(r, "%s", path ? path : "routes");
	return fan_reader_fail(r, "entries", "contradict each other");
}

static int read_route(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_route *route = &s->route[s->routes];
	const json_t *list = json_object_get(o, "entries");
	uint32_t size = (uint32_t)json_array_size(list), others = 0;
	*route = (struct fan_scenario_route){.node = FAN_SIM_NONE};
	if (fan_fields_read(r, o, "route", route))
		return -1;
	for (uint32_t i = 0; i < s->routes; i++)
		others += s->route[i].node == route->node;
	if (route->node >= s->nodes || !fan_scenario_shares(&s->node[route->node]) ||
	    others >= FAN_ROUTES_MAX)
		return fan_reader_fail(r, "node", "expected a switch, with at most %d routes",
				       FAN_ROUTES_MAX);
	if (!route->number || size < 1 || size > FAN_ROUTE_ENTRIES_MAX)
		return fan_reader_fail(r, "entries", "expected a number, and 1 to %d entries",
				       FAN_ROUTE_ENTRIES_MAX);
	route->entry = calloc(size, sizeof *route->entry);
	if (!route->entry)
		return fan_reader_fail(r, NULL, "out of memory");
	s->routes++;
	for (; route->entries < size; route->entries++) {
		size_t back = enter(r, "entries[%u]", route->entries);
		struct fan_scenario_entry *e = &route->entry[route->entries];
		if (read_entry(s, e, json_array_get(list, route->entries), r))
			return -1;
		leave(r, back);
	}
	return check_route(route, o, r);
}

void fan_scenario_entry_put(struct fan_route_entry *to, const struct fan_scenario_entry *e,
			    fan_peer from, fan_peer next)
{
	*to = (struct fan_route_entry){.next = next, .depth = (uint8_t)e->depth, .sums = e->sums};
	if (e->from != FAN_SIM_NONE)
		to->from = from;
	memcpy(to->ranks, e->ranks, sizeof to->ranks);
}

/* ---- the whole scenario ---- */

#define LIST(key, most, name, read)                                                                \
	{                                                                                          \
		key, most, sizeof *((struct fan_scenario *)0)->name, read,                         \
			offsetof(struct fan_scenario, name)                                        \
	}

/* In this order: each refers to those before it. */
static const struct list lists[] = {
	LIST("nodes", FAN_SCENARIO_NODES_MAX, node, read_node),
	LIST("links", FAN_SCENARIO_LINKS_MAX, link, read_link),
	LIST("jobs", FAN_SCENARIO_JOBS_MAX, job, read_job),
	LIST("background", FAN_SCENARIO_FLOWS_MAX, flow, read_background),
	LIST("flows", FAN_SCENARIO_TCPS_MAX, tcp, read_flow),
	LIST("changes", FAN_SCENARIO_CHANGES_MAX, change, read_change),
	LIST("routes", FAN_SCENARIO_ROUTES_MAX, route, read_route),
};

static int read_list(struct fan_scenario *s, const json_t *root, const struct list *l,
		     struct fan_reader *r)
{
	const json_t *list = json_object_get(root, l->key);
	const size_t size = json_array_size(list);
	if (size > l->most)
		return fan_reader_fail(r, l->key, "more than %zu", l->most);
	void *entries = calloc(size + 1, l->entry);
	if (!entries)
		return fan_reader_fail(r, NULL, "out of memory");
	memcpy((uint8_t *)s + l->at, &entries, sizeof entries);
	for (size_t i = 0; i < size; i++) {
		size_t back = enter(r, "%s[%zu]", l->key, i);
		if (l->read(s, json_array_get(list, i), r))
			return -1;
		leave(r, back);
	}
	return 0;
}

static int read_all(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	if (fan_fields_read(r, root, "scenario", s))
		return -1;
	s->root = root;
	for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
		if (read_list(s, root, &lists[i], r))
			return -1;
		if (i == 0 && !s->nodes)
			return fan_reader_fail(r, "nodes", "expected at least one");
		if (i == 0 && check_trees(s, r))
			return -1;
	}
	if (!s->jobs)
		return fan_reader_fail(r, "jobs", "expected at least one");
	return check_tensors(s, r);
}

int fan_scenario_read(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	*s = (struct fan_scenario){.seed = 1, .limit_ns = 3600 * SECOND, .sample_ns = 100000};
	*r = (struct fan_reader){.path = ""};
	int bad = read_all(s, root, r);
	s->root = NULL;
	if (bad)
		fan_scenario_free(s);
	return bad;
}

void fan_scenario_free(struct fan_scenario *s)
{
	for (uint32_t i = 0; i < s->jobs; i++) {
		free(s->job[i].cfg.model.layer);
		free(s->job[i].cfg.bucket);
		free(s->job[i].cfg.host);
		free(s->job[i].cfg.seat);
	}
	for (uint32_t i = 0; i < s->routes; i++)
		free(s->route[i].entry);
	free(s->route);
	free(s->node);
	free(s->link);
	free(s->job);
	free(s->flow);
	free(s->tcp);
	free(s->change);
	memset(s, 0, sizeof *s);
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
