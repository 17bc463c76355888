/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - the links of each node, and shortest paths over them. */
#include <assert.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "world.h"

static bool is_inside(const struct fan_sim_link *l)
{
	return l->from == l->to;
}

bool fan_sim_index(struct fan_sim *s)
{
	free(s->out);
	s->out = calloc(s->links + 1, sizeof *s->out);
	if (!s->desk && (s->desk = fan_body_make(&s->pool.whole)))
		memset(s->desk->bytes, 0, s->pool.bytes);
	if (!s->out || !s->desk)
		return false;
	for (uint32_t n = 0; n < s->nodes; n++) {
		free(s->node[n].next);
		free(s->node[n].depth);
		s->node[n].next = s->node[n].depth = NULL;
		s->node[n].links = 0;
	}
	for (uint32_t i = 0; i < s->links; i++)
		if (!is_inside(&s->link[i]))
			s->node[s->link[i].from].links++;
	uint32_t first = 0;
	for (uint32_t n = 0; n < s->nodes; n++) {
		s->node[n].first = first;
		first += s->node[n].links;
		s->node[n].links = 0;
	}
	for (uint32_t i = 0; i < s->links; i++) {
		if (is_inside(&s->link[i]))
			continue;
		struct fan_sim_node *n = &s->node[s->link[i].from];
		s->out[n->first + n->links++] = i;
	}
	return true;
}

static bool leads_nearer(const struct fan_sim *s, const struct fan_sim_link *l,
			 const uint32_t *depth, uint32_t to)
{
	return depth[l->from] != FAN_SIM_NONE && depth[l->to] != FAN_SIM_NONE &&
	       depth[l->to] + 1 == depth[l->from] && (l->to == to || s->node[l->to].forwards);
}

/* A breadth-first search from the target.  Cables have both directions, so a link towards it is the
 * reverse of one that leads away.  Of several, the link added first is taken. */
static bool find_paths(struct fan_sim *s, uint32_t to)
{
	assert(to < s->nodes);
	uint32_t *next = calloc(s->nodes, sizeof *next);
	uint32_t *depth = calloc(s->nodes, sizeof *depth);
	uint32_t *queue = calloc(s->nodes, sizeof *queue);
	bool ok = next && depth && queue;
	for (uint32_t n = 0; ok && n < s->nodes; n++)
		next[n] = depth[n] = FAN_SIM_NONE;
	uint32_t head = 0, tail = 0;
	if (ok) {
		depth[to] = 0;
		queue[tail++] = to;
	}
	while (head < tail) {
		uint32_t at = queue[head++];
		const struct fan_sim_node *n = &s->node[at];
		for (uint32_t i = 0; i < n->links && (at == to || n->forwards); i++) {
			uint32_t near = s->link[s->out[n->first + i]].to;
			if (depth[near] != FAN_SIM_NONE)
				continue;
			depth[near] = depth[at] + 1;
			queue[tail++] = near;
		}
	}
	for (uint32_t i = 0; ok && i < s->links; i++)
		if (leads_nearer(s, &s->link[i], depth, to) &&
		    next[s->link[i].from] == FAN_SIM_NONE)
			next[s->link[i].from] = i;
	free(queue);
	if (ok)
		s->node[to].next = next;
	else
		free(next);
	if (ok && s->ecmp)
		s->node[to].depth = depth;
	else
		free(depth);
	return ok;
}

/* The link on which packets for node `to` leave node `at`: the first of a shortest path; of
 * several, the one that was added first.  FAN_SIM_NONE: there is no path. */
static uint32_t next_link(struct fan_sim *s, uint32_t at, uint32_t to)
{
	assert(at < s->nodes && to < s->nodes);
	if (!s->node[to].next && !find_paths(s, to)) {
		s->broke = true;
		return FAN_SIM_NONE;
	}
	return s->node[to].next[at];
}

uint32_t fan_sim_hop(struct fan_sim *s, uint32_t at, uint32_t from, uint32_t to)
{
	uint32_t target = s->actor[to].node, first = next_link(s, at, target), count = 0;
	const struct fan_sim_node *n = &s->node[at];
	const uint32_t *depth = s->node[target].depth;
	if (first == FAN_SIM_NONE || !depth)
		return first;
	for (uint32_t i = 0; i < n->links; i++)
		count += leads_nearer(s, &s->link[s->out[n->first + i]], depth, target);
	assert(count > 0);
	uint64_t hash = fan_rng_mix(s->seed ^ fan_rng_mix((uint64_t)from << 32 | to) ^ at);
	uint32_t chosen = (uint32_t)(hash % count);
	for (uint32_t i = 0; i < n->links; i++) {
		uint32_t link = s->out[n->first + i];
		if (leads_nearer(s, &s->link[link], depth, target) && chosen-- == 0)
			return link;
	}
	return first;
}

/* ---- trees of multicast groups ---- */

static void free_tree(struct fan_sim_tree *t)
{
	free(t->link_first);
	free(t->link);
	free(t->member);
	*t = (struct fan_sim_tree){.members = 0};
}

void fan_sim_free_trees(struct fan_sim *s)
{
	for (uint32_t i = 0; i < s->trees; i++)
		free_tree(&s->tree[i]);
	free(s->tree);
}

/* Mark the links on the paths to all members.  Returns how many there are. */
static uint32_t mark(struct fan_sim *s, uint32_t from, const struct fan_sim_tree *t, bool *used)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < t->members; i++) {
		uint32_t to = s->actor[t->member[i]].node;
		for (uint32_t at = from; at != to;) {
			uint32_t link = next_link(s, at, to);
			if (link == FAN_SIM_NONE)
				break;
			count += !used[link];
			used[link] = true;
			at = s->link[link].to;
		}
	}
	return count;
}

static bool grow(struct fan_sim_tree *t, struct fan_sim *s, uint32_t from)
{
	bool *used = calloc(s->links + UINT32_C(1), sizeof *used);
	uint32_t count = used ? mark(s, from, t, used) : 0;
	t->link = calloc(count + UINT32_C(1), sizeof *t->link);
	t->link_first = calloc(s->nodes + UINT32_C(2), sizeof *t->link_first);
	bool ok = used && t->link && t->link_first;
	for (uint32_t i = 0; ok && i < s->links; i++) /* count those that leave each node */
		t->link_first[s->link[i].from + 2] += used[i];
	for (uint32_t n = 2; ok && n < s->nodes + 2; n++)
		t->link_first[n] += t->link_first[n - 1];
	for (uint32_t i = 0; ok && i < s->links; i++) /* list those that leave each node */
		if (used[i])
			t->link[t->link_first[s->link[i].from + 1]++] = i;
	free(used);
	return ok;
}

uint32_t fan_sim_set_tree(struct fan_sim *s, uint32_t tree, uint32_t from, const uint32_t *member,
			  uint32_t members)
{
	assert(from < s->nodes);
	if (tree == FAN_SIM_NONE) {
		struct fan_sim_tree *more = realloc(s->tree, (s->trees + 1) * sizeof *more);
		if (!more)
			return FAN_SIM_NONE;
		s->tree = more;
		tree = s->trees++;
	} else {
		free_tree(&s->tree[tree]);
	}
	struct fan_sim_tree *t = &s->tree[tree];
	*t = (struct fan_sim_tree){.members = members};
	t->member = calloc(members + UINT32_C(1), sizeof *t->member);
	if (t->member && members)
		memcpy(t->member, member, members * sizeof *member);
	if (t->member && grow(t, s, from))
		return tree;
	t->members = 0;
	s->broke = true;
	return tree;
}
