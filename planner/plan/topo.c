/* SPDX-License-Identifier: Apache-2.0 */
#include "topo.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/limits.h"
#include "file/text.h"

const char *const fan_node_kinds[] = {"worker", "switch", "server"};

int fan_why_set(struct fan_why *why, int err, const char *format, ...)
{
	va_list args;
	if (!why || why->text[0])
		return err;
	va_start(args, format);
	vsnprintf(why->text, sizeof why->text, format, args);
	va_end(args);
	fan_text_plain(why->text);
	return err;
}

void fan_topo_free(struct fan_topo *t)
{
	for (uint32_t j = 0; j < t->jobs; j++) {
		free(t->job[j].worker);
		free(t->job[j].server);
	}
	free(t->node);
	free(t->link);
	free(t->job);
	free(t->out);
	free(t->cap);
	*t = (struct fan_topo){0};
}

/* Make room for one more element of `bytes` each; the table may move. */
static int grow(void **table, uint32_t count, uint32_t *room, uint32_t max, size_t bytes)
{
	if (count >= max)
		return FAN_E_INVALID;
	if (count < *room)
		return FAN_OK;
	uint32_t more = *room ? *room * 2 : 64;
	void *moved = realloc(*table, more * bytes);
	if (!moved)
		return FAN_E_NOMEM;
	*table = moved;
	*room = more;
	return FAN_OK;
}

int fan_topo_add_node(struct fan_topo *t, const char *name, enum fan_node_kind kind, double gbps)
{
	int err = grow((void **)&t->node, t->nodes, &t->node_room, FAN_TOPO_NODES_MAX,
		       sizeof *t->node);
	if (err)
		return err;
	struct fan_node *n = &t->node[t->nodes++];
	memset(n, 0, sizeof *n);
	snprintf(n->name, sizeof n->name, "%s", name);
	n->kind = kind;
	n->gbps = gbps;
	return FAN_OK;
}

int fan_topo_add_link(struct fan_topo *t, uint32_t a, uint32_t b, double gbps)
{
	int err = grow((void **)&t->link, t->links, &t->link_room, FAN_TOPO_LINKS_MAX,
		       sizeof *t->link);
	if (err)
		return err;
	t->link[t->links++] = (struct fan_link){.a = a, .b = b, .gbps = gbps};
	return FAN_OK;
}

int fan_topo_add_job(struct fan_topo *t, const char *name, uint32_t workers, uint32_t servers)
{
	int err = grow((void **)&t->job, t->jobs, &t->job_room, FAN_TOPO_JOBS_MAX, sizeof *t->job);
	if (err)
		return err;
	struct fan_job *j = &t->job[t->jobs];
	memset(j, 0, sizeof *j);
	snprintf(j->name, sizeof j->name, "%s", name);
	j->weight = 1;
	j->worker = calloc(workers + 1, sizeof *j->worker);
	j->server = calloc(servers + 1, sizeof *j->server);
	if (!j->worker || !j->server) {
		free(j->worker);
		free(j->server);
		return FAN_E_NOMEM;
	}
	t->jobs++;
	return FAN_OK;
}

static void list_arcs(struct fan_topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		t->node[i].degree = 0;
	for (uint32_t a = 0; a < 2 * t->links; a++)
		t->node[fan_arc_from(t, a)].degree++;
	for (uint32_t i = 0, at = 0; i < t->nodes; i++) {
		t->node[i].first = at;
		at += t->node[i].degree;
		t->node[i].degree = 0;
	}
	for (uint32_t a = 0; a < 2 * t->links; a++) {
		struct fan_node *n = &t->node[fan_arc_from(t, a)];
		t->out[n->first + n->degree++] = a;
	}
}

static void find_capacities(struct fan_topo *t)
{
	for (uint32_t a = 0; a < 2 * t->links; a++)
		t->cap[a] = t->link[a / 2].gbps - t->link[a / 2].background_gbps;
	for (uint32_t i = 0; i < t->nodes; i++) {
		const struct fan_node *n = &t->node[i];
		double *cap = &t->cap[fan_node_resource(t, i)];
		if (n->gbps > 0)
			*cap = n->gbps - n->background_gbps;
		else
			*cap = n->kind == FAN_NODE_SWITCH ? 0 : INFINITY;
	}
	for (uint32_t i = 0; i < fan_topo_resources(t); i++)
		if (t->cap[i] < FAN_TOPO_GBPS_MIN * (1 - 1e-9))
			t->cap[i] = 0;
}

/* Count the nodes on the shortest path through switches from `from` to each node, ends included; 0:
 * there is no path.  `queue`: room for all nodes. */
static void reach(const struct fan_topo *t, uint32_t from, uint32_t *hops, uint32_t *queue)
{
	uint32_t head = 0, tail = 0;
	memset(hops, 0, t->nodes * sizeof *hops);
	queue[tail++] = from;
	hops[from] = 1;
	while (head < tail) {
		uint32_t at = queue[head++];
		const struct fan_node *n = &t->node[at];
		if (n->kind != FAN_NODE_SWITCH && at != from)
			continue;
		for (uint32_t i = 0; i < n->degree; i++) {
			uint32_t to = fan_arc_to(t, t->out[n->first + i]);
			if (t->cap[t->out[n->first + i]] > 0 && !hops[to]) {
				hops[to] = hops[at] + 1;
				queue[tail++] = to;
			}
		}
	}
}

static int check_path(const struct fan_topo *t, uint32_t j, uint32_t w, uint32_t s, uint32_t nodes,
		      struct fan_why *why)
{
	const char *worker = t->node[w].name, *server = t->node[s].name;
	if (nodes == 0)
		return fan_why_set(
			why, FAN_E_CONFIG,
			"jobs[%u]: worker \"%s\" (nodes[%u]) cannot reach server \"%s\" (nodes[%u]): no "
			"path of links with free capacity through switches",
			j, worker, w, server, s);
	if (nodes > FAN_HOPS_MAX)
		return fan_why_set(
			why, FAN_E_CONFIG,
			"jobs[%u]: worker \"%s\" (nodes[%u]) is %u links away from server "
			"\"%s\" (nodes[%u]), and a route has at most %u: put them nearer to each "
			"other, or the server in the middle",
			j, worker, w, nodes - 1, server, s, FAN_HOPS_MAX - 1);
	return FAN_OK;
}

static int check_job(const struct fan_topo *t, uint32_t j, uint32_t *hops, uint32_t *queue,
		     struct fan_why *why)
{
	const struct fan_job *job = &t->job[j];
	int err = FAN_OK;
	if (job->workers == 0)
		return fan_why_set(why, FAN_E_CONFIG, "jobs[%u].workers: no worker", j);
	if (job->servers == 0)
		return fan_why_set(why, FAN_E_CONFIG, "jobs[%u].servers: no server", j);
	for (uint32_t s = 0; s < job->servers + job->spares && !err; s++) {
		reach(t, job->server[s], hops, queue);
		for (uint32_t w = 0; w < job->workers && !err; w++)
			err = check_path(t, j, job->worker[w], job->server[s], hops[job->worker[w]],
					 why);
	}
	return err;
}

int fan_topo_seal(struct fan_topo *t, struct fan_why *why)
{
	uint32_t *hops = calloc(t->nodes + 1, sizeof *hops);
	uint32_t *queue = calloc(t->nodes + 1, sizeof *queue);
	int err = FAN_E_NOMEM;
	free(t->out);
	free(t->cap);
	t->out = calloc(2 * (size_t)t->links + 1, sizeof *t->out);
	t->cap = calloc(fan_topo_resources(t) + 1, sizeof *t->cap);
	if (!hops || !queue || !t->out || !t->cap)
		goto out;
	list_arcs(t);
	find_capacities(t);
	err = t->jobs ? FAN_OK : fan_why_set(why, FAN_E_CONFIG, "jobs: there is none");
	for (uint32_t j = 0; j < t->jobs && !err; j++)
		err = check_job(t, j, hops, queue, why);
out:
	free(hops);
	free(queue);
	return err;
}

double fan_topo_intake(const struct fan_topo *t, uint32_t node)
{
	double sum = 0, cap = t->cap[fan_node_resource(t, node)];
	for (uint32_t i = 0; i < t->node[node].degree; i++)
		sum += t->cap[t->out[t->node[node].first + i] ^ 1];
	return sum < cap ? sum : cap;
}

/* ---- candidate routes ---- */

#define FOUND_MAX (2 * FAN_PATHS_MAX) /* routes of one length to choose from */
#define CHOICE	  8		      /* routes to choose from for each wanted, unless one is */
#define FAR	  UINT32_MAX

int fan_paths_open(struct fan_paths *p, const struct fan_topo *t)
{
	memset(p, 0, sizeof *p);
	p->t = t;
	p->target = FAN_NODE_NONE;
	p->distance = calloc(t->nodes + 1, sizeof *p->distance);
	p->queue = calloc(t->nodes + 1, sizeof *p->queue);
	p->on = calloc(t->nodes + 1, sizeof *p->on);
	p->found = calloc(FOUND_MAX, sizeof *p->found);
	p->used = calloc(2 * (size_t)t->links + 1, sizeof *p->used);
	if (p->distance && p->queue && p->on && p->found && p->used)
		return FAN_OK;
	fan_paths_close(p);
	return FAN_E_NOMEM;
}

void fan_paths_close(struct fan_paths *p)
{
	free(p->distance);
	free(p->queue);
	free(p->on);
	free(p->found);
	free(p->used);
	memset(p, 0, sizeof *p);
}

/* Measure the distance from each node to `to`, in links. */
static void measure(struct fan_paths *p, uint32_t to)
{
	const struct fan_topo *t = p->t;
	uint32_t head = 0, tail = 0;
	for (uint32_t i = 0; i < t->nodes; i++)
		p->distance[i] = FAR;
	p->distance[to] = 0;
	p->queue[tail++] = to;
	p->step = 2;
	while (head < tail) {
		uint32_t at = p->queue[head++];
		if (at != to && t->node[at].kind != FAN_NODE_SWITCH)
			continue;
		for (uint32_t i = 0; i < t->node[at].degree; i++) {
			uint32_t arc = t->out[t->node[at].first + i] ^ 1; /* into `at` */
			uint32_t from = fan_arc_from(t, arc);
			if (p->distance[from] == p->distance[at] && t->cap[arc] > 0)
				p->step = 1;
			if (p->distance[from] == FAR && t->cap[arc] > 0) {
				p->distance[from] = p->distance[at] + 1;
				p->queue[tail++] = from;
			}
		}
	}
}

/* Find all simple routes of exactly `hops` links, depth first.  The order of a node's arcs depends
 * on both ends and the depth, to spread routes. */
static uint32_t routes_of(struct fan_paths *p, uint32_t from, uint32_t to, uint32_t hops)
{
	const struct fan_topo *t = p->t;
	uint32_t next[FAN_HOPS_MAX + 1], at[FAN_HOPS_MAX + 1], depth = 0, count = 0;
	struct fan_arcs now = {.hops = hops};
	at[0] = from;
	next[0] = 0;
	p->on[from] = 1;
	for (;;) {
		const struct fan_node *n = &t->node[at[depth]];
		if (depth == hops || next[depth] >= n->degree || count == p->found_max ||
		    p->steps >= FAN_PATH_STEPS_MAX) {
			if (depth == hops && count < p->found_max)
				p->found[count++] = now;
			p->on[at[depth]] = 0;
			if (depth-- == 0)
				return count;
			continue;
		}
		p->steps++;
		uint32_t turn = (next[depth]++ + from + to + depth) % n->degree;
		uint32_t arc = t->out[n->first + turn], there = fan_arc_to(t, arc);
		uint32_t left = hops - depth - 1;
		if (!(t->cap[arc] > 0) || p->on[there] || p->distance[there] == FAR ||
		    p->distance[there] > left || (there == to) != (left == 0) ||
		    (there != to && t->node[there].kind != FAN_NODE_SWITCH))
			continue;
		now.arc[depth++] = arc;
		at[depth] = there;
		next[depth] = 0;
		p->on[there] = 1;
	}
}

static uint32_t overlap(const struct fan_paths *p, const struct fan_arcs *r)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < r->hops; i++)
		sum += p->used[r->arc[i]];
	return sum;
}

/* Move up to `max` of the routes found to `route`, each time the one that shares fewest links. */
static uint32_t choose(struct fan_paths *p, uint32_t found, uint32_t max, struct fan_arcs *route)
{
	uint32_t count = 0;
	while (count < max && found) {
		uint32_t best = 0;
		for (uint32_t i = 1; i < found; i++)
			if (overlap(p, &p->found[i]) < overlap(p, &p->found[best]))
				best = i;
		route[count++] = p->found[best];
		for (uint32_t i = 0; i < p->found[best].hops; i++)
			p->used[p->found[best].arc[i]]++;
		p->found[best] = p->found[--found];
	}
	return count;
}

uint32_t fan_paths_find(struct fan_paths *p, uint32_t from, uint32_t to, uint32_t max,
			struct fan_arcs *route)
{
	uint32_t count = 0;
	if (from == to) {
		route[0].hops = 0;
		return 1;
	}
	if (p->target != to)
		measure(p, to);
	p->target = to;
	p->steps = 0;
	if (max > FAN_PATHS_MAX)
		max = FAN_PATHS_MAX;
	p->found_max = max == 1 ? 1 : max * CHOICE < FOUND_MAX ? max * CHOICE : FOUND_MAX;
	if (p->distance[from] == FAR)
		return 0;
	for (uint32_t hops = p->distance[from];
	     hops < FAN_HOPS_MAX && count < max && p->steps < FAN_PATH_STEPS_MAX; hops += p->step)
		count += choose(p, routes_of(p, from, to, hops), max - count, route + count);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < route[i].hops; k++)
			p->used[route[i].arc[k]] = 0;
	return count;
}
