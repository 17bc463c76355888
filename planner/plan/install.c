/* SPDX-License-Identifier: Apache-2.0 */
#include "install.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "file/text.h"

#define NONE	  UINT32_MAX
#define STEPS_MAX (FAN_ROUTE_HOPS_MAX + 1)
#define WHOLE	  ((double)(UINT64_C(1) << FAN_CUT_BITS))

/* The path of a rank's part without the worker: switches, then the server. */
struct walk {
	uint32_t nodes;
	uint32_t node[STEPS_MAX];
	bool sums[STEPS_MAX]; /* which of the switches sum the part */
};

struct maker {
	struct fan_install *in;
	const struct fan_topo *t;
	const struct fan_plan *p;
	struct fan_why *why;
	uint32_t *stop_of; /* by node: its stop in the present part, or NONE */
	uint32_t *last_of; /* by stop: its last entry, or NONE */
	uint32_t *before;  /* by entry: the one before it at its stop, or NONE */
	uint32_t *routes;  /* by node: how many parts have a stop there */
	uint32_t *members; /* by node: ranks of all parts, counted each time that they pass it */
	uint8_t *seen;	   /* by entry, in the search for circles: 1: being followed, 2: done */
	uint32_t link_room, last_room;
};

static const char *name(const struct maker *m, uint32_t node)
{
	return m->t->node[node].name;
}

/* Make room for one more element, of `bytes` each, in an array with room for `*room`.  NULL: no
 * memory, or `most` are in it. */
static void *grow(void *array, uint32_t count, uint32_t *room, size_t bytes, uint32_t most)
{
	if (count < *room)
		return array;
	if (count >= most)
		return NULL;
	uint32_t more = *room ? *room * 2 : 64;
	void *moved = realloc(array, more * bytes);
	if (moved)
		*room = more;
	return moved;
}

/* ---- paths ---- */

static int too_long(const struct maker *m, uint32_t tree, uint32_t worker)
{
	return fan_why_set(m->why, FAN_E_CONFIG,
			   "trees[%u]: worker \"%s\": more than %d switches in a row", tree,
			   name(m, worker), FAN_ROUTE_HOPS_MAX);
}

static int follow(const struct maker *m, uint32_t tree, const struct fan_flow *f, struct walk *w)
{
	for (uint32_t i = 0; i < f->route.hops; i++) {
		if (w->nodes > FAN_ROUTE_HOPS_MAX)
			return too_long(m, tree, f->from);
		w->sums[w->nodes] = false;
		w->node[w->nodes++] = fan_arc_to(m->t, f->route.arc[i]);
	}
	return FAN_OK;
}

/* Switches tell packets apart by previous and next hop, so no rank may pass a link twice in the
 * same direction. */
static int check_walk(const struct maker *m, uint32_t tree, uint32_t worker, const struct walk *w)
{
	for (uint32_t i = 1; i < w->nodes; i++)
		for (uint32_t k = 1; k < i; k++)
			if (w->node[i] == w->node[k] && w->node[i - 1] == w->node[k - 1])
				return fan_why_set(
					m->why, FAN_E_CONFIG,
					"trees[%u]: the part of worker \"%s\" passes from "
					"\"%s\" to \"%s\" twice",
					tree, name(m, worker), name(m, w->node[i - 1]),
					name(m, w->node[i]));
	return FAN_OK;
}

static int find_walk(const struct maker *m, uint32_t number, uint32_t rank, struct walk *w)
{
	const struct fan_tree *tree = &m->p->tree[number];
	const struct fan_flow *f = &tree->flow[rank];
	const uint32_t worker = f->from;
	int err;

	w->nodes = 0;
	while (!(err = follow(m, number, f, w)) && f->to != tree->server) {
		w->sums[w->nodes - 1] = true; /* fan_eval has checked that this ends */
		f = fan_tree_sum(tree, f->to);
	}
	return err ? err : check_walk(m, number, worker, w);
}

/* ---- entries ---- */

/* The stop of the part at `node`, added if there is none; NONE: no memory. */
static uint32_t stop_at(struct maker *m, struct fan_install_part *part, uint32_t node)
{
	struct fan_install *in = m->in;
	if (m->stop_of[node] != NONE)
		return m->stop_of[node];
	void *stops = grow(in->stop, in->stops, &in->stop_room, sizeof *in->stop, FAN_STOPS_MAX);
	if (!stops)
		return NONE;
	in->stop = stops;
	void *last = grow(m->last_of, in->stops, &m->last_room, sizeof *m->last_of, FAN_STOPS_MAX);
	if (!last)
		return NONE;
	m->last_of = last;
	in->stop[in->stops] = (struct fan_install_stop){.node = node};
	m->last_of[in->stops] = NONE;
	m->routes[node]++;
	part->stops++;
	return m->stop_of[node] = in->stops++;
}

/* The entry of the stop that equals `like` except for ranks, or a new one; NONE: no memory. */
static uint32_t entry_like(struct maker *m, uint32_t stop, const struct fan_install_entry *like)
{
	struct fan_install *in = m->in;
	assert(m->last_of); /* there is a stop, so it has room */
	for (uint32_t i = m->last_of[stop]; i != NONE; i = m->before[i]) {
		const struct fan_install_entry *e = &in->entry[i];
		if (e->from == like->from && e->next == like->next && e->depth == like->depth &&
		    e->sums == like->sums)
			return i;
	}
	void *entries =
		grow(in->entry, in->entries, &in->entry_room, sizeof *in->entry, FAN_RULES_MAX);
	if (!entries)
		return NONE;
	in->entry = entries;
	void *before =
		grow(m->before, in->entries, &m->link_room, sizeof *m->before, FAN_RULES_MAX);
	if (!before)
		return NONE;
	m->before = before;
	in->entry[in->entries] = *like;
	m->before[in->entries] = m->last_of[stop];
	m->last_of[stop] = in->entries;
	in->stop[stop].entries++;
	return in->entries++;
}

static int add_walk(struct maker *m, struct fan_install_part *part, uint32_t rank,
		    const struct walk *w)
{
	for (uint32_t i = 0; i + 1 < w->nodes; i++) {
		const struct fan_install_entry like = {
			.from = i ? w->node[i - 1] : FAN_NODE_NONE,
			.next = w->node[i + 1],
			.depth = w->nodes - 1 - i,
			.sums = w->sums[i],
		};
		uint32_t stop = stop_at(m, part, w->node[i]);
		uint32_t entry = stop == NONE ? NONE : entry_like(m, stop, &like);
		if (entry == NONE)
			return FAN_E_NOMEM;
		fan_ranks_set(m->in->entry[entry].ranks, rank);
		m->members[w->node[i]]++;
		if (m->in->stop[stop].entries > FAN_ROUTE_ENTRIES_MAX)
			return fan_why_set(m->why, FAN_E_CONFIG,
					   "trees[%u]: switch \"%s\" needs more than %d entries",
					   part->tree, name(m, w->node[i]), FAN_ROUTE_ENTRIES_MAX);
	}
	return FAN_OK;
}

/* Do entries of a part that follow each other, whichever ranks they are for, lead back to this one?
 * More than FAN_CIRCLE_MAX in a row count as a circle. */
static bool leads_round(struct maker *m, uint32_t node, uint32_t entry, uint32_t deep)
{
	const struct fan_install_entry *e = &m->in->entry[entry];
	uint32_t stop = m->stop_of[e->next];
	assert(m->last_of);
	if (m->seen[entry] || deep > FAN_CIRCLE_MAX)
		return m->seen[entry] != 2;
	m->seen[entry] = 1;
	for (uint32_t i = stop == NONE ? NONE : m->last_of[stop]; i != NONE; i = m->before[i])
		if (m->in->entry[i].from == node && leads_round(m, e->next, i, deep + 1))
			return true;
	m->seen[entry] = 2;
	return false;
}

static int check_circles(struct maker *m, const struct fan_install_part *part)
{
	m->seen = calloc(m->in->entries + 1, sizeof *m->seen);
	if (!m->seen)
		return FAN_E_NOMEM;
	int err = FAN_OK;
	for (uint32_t s = part->stop; m->last_of && s < part->stop + part->stops && !err; s++)
		for (uint32_t i = m->last_of[s]; i != NONE && !err; i = m->before[i])
			if (leads_round(m, m->in->stop[s].node, i, 0))
				err = fan_why_set(m->why, FAN_E_CONFIG,
						  "trees[%u]: its paths lead in a circle through "
						  "\"%s\"",
						  part->tree, name(m, m->in->stop[s].node));
	free(m->seen);
	return err;
}

static void forget_stops(const struct maker *m, const struct fan_install_part *part)
{
	for (uint32_t i = 0; i < part->stops; i++)
		m->stop_of[m->in->stop[part->stop + i].node] = NONE;
}

static int make_entries(struct maker *m, struct fan_install_part *part)
{
	const struct fan_tree *tree = &m->p->tree[part->tree];
	struct walk w;
	int err = FAN_OK;
	assert(part->join); /* make_parts has allocated it */
	part->stop = m->in->stops;
	for (uint32_t rank = 0; rank < tree->workers && !err; rank++) {
		err = find_walk(m, part->tree, rank, &w);
		if (err)
			break;
		assert(w.nodes); /* fan_eval has checked that it ends at the server */
		part->join[rank] = w.node[0];
		err = add_walk(m, part, rank, &w);
	}
	if (!err)
		err = check_circles(m, part);
	forget_stops(m, part);
	return err;
}

/* Sort the entries by stop. */
static int sort_entries(struct maker *m)
{
	struct fan_install *in = m->in;
	struct fan_install_entry *sorted = calloc(in->entries + 1, sizeof *sorted);
	uint32_t count = 0;
	if (!sorted)
		return FAN_E_NOMEM;
	assert(m->last_of || !in->stops);
	for (uint32_t s = 0; s < in->stops; s++) {
		in->stop[s].entry = count;
		for (uint32_t i = m->last_of[s]; i != NONE; i = m->before[i])
			sorted[count++] = in->entry[i];
	}
	free(in->entry);
	in->entry = sorted;
	in->entry_room = in->entries + 1;
	return FAN_OK;
}

/* ---- parts ---- */

static int check_job(const struct maker *m, uint32_t j, uint32_t parts)
{
	const struct fan_job *job = &m->t->job[j];
	if (job->workers < 2 || job->workers > FAN_RANKS_MAX)
		return fan_why_set(m->why, FAN_E_CONFIG,
				   "jobs[%u].workers: %u: a job that is installed has 2 to %d", j,
				   job->workers, FAN_RANKS_MAX);
	if (parts > FAN_PARTS_MAX)
		return fan_why_set(
			m->why, FAN_E_CONFIG,
			"trees: %u of job \"%s\": at most %d can be installed; plan with "
			"fewer, by --trees",
			parts, job->name, FAN_PARTS_MAX);
	if (job->groups && parts > 1)
		return fan_why_set(m->why, FAN_E_CONFIG,
				   "trees: %u of job \"%s\": a group of a job has one", parts,
				   job->name);
	if (parts == 0)
		return fan_why_set(m->why, FAN_E_CONFIG, "trees: none of job \"%s\"", job->name);
	return FAN_OK;
}

/* Make a part for each tree with a share, and its cut of tensors. */
static int make_parts(struct maker *m, const struct fan_eval *e)
{
	struct fan_install *in = m->in;
	for (uint32_t j = 0; j < m->t->jobs; j++) {
		struct fan_install_part *last = NULL;
		double sum = 0;
		uint32_t count = 0;
		for (uint32_t i = 0; i < m->p->trees; i++) {
			const struct fan_tree *tree = &m->p->tree[i];
			if (tree->job != j || tree->share < FAN_PART_SHARE)
				continue;
			if (in->parts == UINT16_MAX)
				return fan_why_set(m->why, FAN_E_CONFIG,
						   "trees: more than there are route numbers");
			struct fan_install_part *part = &in->part[in->parts++];
			*part = (struct fan_install_part){.tree = i,
							  .job = j,
							  .server = tree->server,
							  .route = (uint16_t)in->parts,
							  .number = count++,
							  .from = last ? last->to : 0,
							  .gbps = e->job_results_gbps[j] *
								  tree->share};
			sum += tree->share;
			part->to = (uint64_t)llround(fmin(sum, 1) * WHOLE);
			part->join = calloc(tree->workers, sizeof *part->join);
			if (!part->join)
				return FAN_E_NOMEM;
			last = part;
		}
		int err = check_job(m, j, count);
		if (err)
			return err;
		assert(last);
		last->to = UINT64_C(1) << FAN_CUT_BITS; /* check_job found one */
	}
	return FAN_OK;
}

static bool sums_here(const struct fan_install *in, const struct fan_install_stop *stop)
{
	for (uint32_t i = 0; i < stop->entries; i++)
		if (in->entry[stop->entry + i].sums)
			return true;
	return false;
}

/* Divide each switch's slots among the parts summed there, in proportion to their shares. */
static int set_quotas(struct maker *m, uint32_t slots)
{
	struct fan_install *in = m->in;
	double *sum = calloc(m->t->nodes + 1, sizeof *sum);
	if (!sum)
		return FAN_E_NOMEM;
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t p = 0; p < in->parts; p++)
			for (uint32_t s = 0; s < in->part[p].stops; s++) {
				struct fan_install_stop *stop = &in->stop[in->part[p].stop + s];
				double share = m->p->tree[in->part[p].tree].share;
				if (!sums_here(in, stop))
					continue;
				if (pass == 0)
					sum[stop->node] += share;
				else
					stop->quota =
						(uint32_t)fmax(1, slots * share / sum[stop->node]);
			}
	free(sum);
	return FAN_OK;
}

static int check_routes(const struct maker *m)
{
	for (uint32_t i = 0; i < m->t->nodes; i++)
		if (m->routes[i] > FAN_ROUTES_MAX)
			return fan_why_set(
				m->why, FAN_E_CONFIG,
				"trees: %u paths pass switch \"%s\": at most %d; plan with "
				"fewer, by --trees",
				m->routes[i], name(m, i), FAN_ROUTES_MAX);
	for (uint32_t i = 0; i < m->t->nodes; i++)
		if (m->members[i] > FAN_MEMBERS_MAX)
			return fan_why_set(
				m->why, FAN_E_CONFIG,
				"trees: %u workers' paths pass switch \"%s\": at most %d; plan "
				"with fewer, by --trees",
				m->members[i], name(m, i), FAN_MEMBERS_MAX);
	return FAN_OK;
}

static int make_all(struct maker *m, uint32_t slots)
{
	struct fan_eval e;
	int err = fan_eval(&e, m->t, m->p, m->why);
	if (err)
		return err;
	err = make_parts(m, &e);
	fan_eval_free(&e);
	for (uint32_t i = 0; i < m->in->parts && !err; i++)
		err = make_entries(m, &m->in->part[i]);
	if (!err)
		err = check_routes(m);
	if (!err)
		err = sort_entries(m);
	if (!err && slots)
		err = set_quotas(m, slots);
	return err;
}

int fan_install_make(struct fan_install *in, const struct fan_topo *t, const struct fan_plan *p,
		     uint32_t slots, struct fan_why *why)
{
	struct maker m = {.in = in, .t = t, .p = p, .why = why};
	memset(in, 0, sizeof *in);
	why->text[0] = '\0';
	in->t = t;
	in->part = calloc(p->trees + 1, sizeof *in->part);
	m.stop_of = calloc(t->nodes + 1, sizeof *m.stop_of);
	m.routes = calloc(t->nodes + 1, sizeof *m.routes);
	m.members = calloc(t->nodes + 1, sizeof *m.members);
	int err = in->part && m.stop_of && m.routes && m.members ? FAN_OK : FAN_E_NOMEM;
	for (uint32_t i = 0; i < t->nodes && !err; i++)
		m.stop_of[i] = NONE;
	if (!err)
		err = make_all(&m, slots);
	free(m.stop_of);
	free(m.last_of);
	free(m.before);
	free(m.routes);
	free(m.members);
	if (err)
		fan_install_free(in);
	return err;
}

void fan_install_free(struct fan_install *in)
{
	for (uint32_t i = 0; in->part && i < in->parts; i++)
		free(in->part[i].join);
	free(in->part);
	free(in->stop);
	free(in->entry);
	memset(in, 0, sizeof *in);
}

/* ---- as JSON ---- */

#define RANKS_BYTES 1024 /* the longest text, every third of 256 ranks missing, has 609 bytes */
#define NAME_BYTES  (FAN_TOPO_NAME_MAX + 16)

/* A set of ranks as text such as "0-3,7": a new reference. */
static json_t *ranks_json(const uint64_t *ranks)
{
	char text[RANKS_BYTES];
	struct fan_text t = fan_text_in(text, sizeof text);
	for (uint32_t r = 0; r < FAN_RANKS_MAX; r++) {
		uint32_t end = r;
		while (end < FAN_RANKS_MAX && fan_ranks_has(ranks, end))
			end++;
		if (end == r)
			continue;
		fan_text_add(&t, t.used ? ",%u" : "%u", r);
		if (end - r > 1)
			fan_text_add(&t, "-%u", end - 1);
		r = end;
	}
	return json_string(text);
}

static json_t *entry_json(const struct fan_install *in, const struct fan_install_entry *e)
{
	const char *from = e->from == FAN_NODE_NONE ? NULL : in->t->node[e->from].name;
	return json_pack("{ss? so ss si so}", "from", from, "ranks", ranks_json(e->ranks), "next",
			 in->t->node[e->next].name, "depth", (int)e->depth, "sums",
			 e->sums ? json_integer(fan_ranks_count(e->ranks)) : json_false());
}

static json_t *stop_json(const struct fan_install *in, uint16_t route,
			 const struct fan_install_stop *stop)
{
	json_t *entries = json_array();
	for (uint32_t i = 0; i < stop->entries; i++)
		json_array_append_new(entries, entry_json(in, &in->entry[stop->entry + i]));
	return json_pack("{si si so}", "route", (int)route, "quota", (int)stop->quota, "entries",
			 entries);
}

/* The length in bytes of a job's name without the suffix of a group. */
static uint32_t job_name_bytes(const char *name, uint32_t groups)
{
	const char *at = groups ? strrchr(name, '@') : NULL;
	return (uint32_t)(at ? (size_t)(at - name) : strlen(name));
}

static json_t *part_json(const struct fan_install *in, const struct fan_install_part *part)
{
	const struct fan_job *job = &in->t->job[part->job];
	double whole = (double)(UINT64_C(1) << FAN_CUT_BITS);
	char text[NAME_BYTES];
	snprintf(text, sizeof text, "%.*s/%u", (int)job_name_bytes(job->name, job->groups),
		 job->name, part->number);
	json_t *o = json_pack(
		"{si ss si ss ss sf s[II] sf si}", "route", (int)part->route, "job", job->name,
		"part", (int)part->number, "name", text, "server", in->t->node[part->server].name,
		"share", (double)(part->to - part->from) / whole, "cut", (json_int_t)part->from,
		(json_int_t)part->to, "gbps", part->gbps, "ranks", (int)job->workers);
	if (o && job->groups)
		json_object_set_new(o, "group",
				    json_pack("[ii]", (int)job->group, (int)job->groups));
	return o;
}

static json_t *worker_json(const struct fan_install *in, uint32_t job, uint32_t rank)
{
	json_t *joins = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		if (in->part[i].job == job)
			json_array_append_new(
				joins, json_pack("{si ss}", "route", (int)in->part[i].route, "at",
						 in->t->node[in->part[i].join[rank]].name));
	return json_pack("{ss ss si so}", "worker", in->t->node[in->t->job[job].worker[rank]].name,
			 "job", in->t->job[job].name, "rank", (int)rank, "joins", joins);
}

/* The node with what is installed there, if anything is; takes the reference. */
static json_t *node_json(const struct fan_install *in, uint32_t node, json_t *routes)
{
	if (json_array_size(routes))
		return json_pack("{ss so}", "name", in->t->node[node].name, "routes", routes);
	json_decref(routes);
	return NULL;
}

static json_t *switch_json(const struct fan_install *in, uint32_t node)
{
	json_t *routes = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		for (uint32_t s = 0; s < in->part[i].stops; s++)
			if (in->stop[in->part[i].stop + s].node == node)
				json_array_append_new(routes,
						      stop_json(in, in->part[i].route,
								&in->stop[in->part[i].stop + s]));
	return node_json(in, node, routes);
}

static json_t *server_json(const struct fan_install *in, uint32_t node)
{
	json_t *routes = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		if (in->part[i].server == node)
			json_array_append_new(routes, json_integer(in->part[i].route));
	return node_json(in, node, routes);
}

json_t *fan_install_json(const struct fan_install *in)
{
	json_t *parts = json_array(), *workers = json_array();
	json_t *switches = json_array(), *servers = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		json_array_append_new(parts, part_json(in, &in->part[i]));
	for (uint32_t j = 0; j < in->t->jobs; j++)
		for (uint32_t r = 0; r < in->t->job[j].workers; r++)
			json_array_append_new(workers, worker_json(in, j, r));
	for (uint32_t n = 0; n < in->t->nodes; n++) {
		json_t *at = switch_json(in, n), *server = server_json(in, n);
		if (at)
			json_array_append_new(switches, at);
		if (server)
			json_array_append_new(servers, server);
	}
	return json_pack("{so so so so}", "parts", parts, "workers", workers, "switches", switches,
			 "servers", servers);
}
