/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - multicast: one copy on each link, however many members are behind it. */
#include <assert.h>
#include <stdlib.h>

#include "world.h"

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
			uint32_t link = fan_sim_next(s, at, to);
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
