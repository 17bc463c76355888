/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

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
	struct fan_route now = {.hops = hops};

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

static uint32_t overlap(const struct fan_paths *p, const struct fan_route *r)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < r->hops; i++)
		sum += p->used[r->arc[i]];
	return sum;
}

/* Move up to `max` of the routes found to `route`, each time the one that shares fewest links. */
static uint32_t choose(struct fan_paths *p, uint32_t found, uint32_t max, struct fan_route *route)
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
			struct fan_route *route)
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
