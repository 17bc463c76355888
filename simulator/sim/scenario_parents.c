/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_parents.c - trees of switches: their parents and children, and where workers join. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

bool fan_scenario_is_below(const struct fan_scenario *s, uint32_t node, uint32_t root)
{
	assert(node < s->nodes && root < s->nodes);
	while (node != root && s->node[node].parent != FAN_SIM_NONE)
		node = s->node[node].parent; /* ends: parents form no cycle */
	return node == root;
}

/* Does the node complete sums, with or without slots in front of it? */
static bool completes(const struct fan_scenario_node *n)
{
	if (n->kind == FAN_NODE_SERVER || n->policy == FAN_POLICY_SWITCHML)
		return true;
	return fan_scenario_shares(n) && !n->server_name[0];
}

static int read_parent(struct fan_scenario *s, uint32_t i, struct fan_reader *r)
{
	assert(i < s->nodes);
	struct fan_scenario_node *n = &s->node[i];
	uint32_t p = fan_scenario_find(s, n->parent_name);
	if (p == FAN_SIM_NONE ||
	    (s->node[p].kind != FAN_NODE_SWITCH && s->node[p].kind != FAN_NODE_SERVER))
		return fan_reader_fail(r, "parent", "\"%s\": no switch or server of that name",
				       n->parent_name);
	if (!completes(n) || !completes(&s->node[p]))
		return fan_reader_fail(r, "parent",
				       "goes without \"server\", here and there: it is for those "
				       "who complete sums themselves");
	for (uint32_t up = p; up != FAN_SIM_NONE; up = s->node[up].parent)
		if (up == i)
			return fan_reader_fail(r, "parent", "\"%s\" is below \"%s\" itself",
					       n->parent_name, n->name);
	if (s->node[p].children == FAN_RANKS_MAX)
		return fan_reader_fail(r, "parent", "\"%s\" has more than %d children",
				       n->parent_name, FAN_RANKS_MAX);
	n->parent = p;
	n->index = s->node[p].children++;
	return 0;
}

int fan_scenario_read_parents(struct fan_scenario *s, struct fan_reader *r)
{
	for (uint32_t i = 0; i < s->nodes; i++) {
		if (!s->node[i].parent_name[0])
			continue;
		size_t back = fan_reader_enter(r, "nodes[%u]", s->node[i].entry);
		if (read_parent(s, i, r))
			return -1;
		fan_reader_leave(r, back);
	}
	for (uint32_t i = 0; i < s->nodes; i++) {
		const struct fan_scenario_node *n = &s->node[i];
		if (n->parent == FAN_SIM_NONE || s->node[n->parent].children > 1)
			continue;
		size_t back = fan_reader_enter(r, "nodes[%u]", n->entry);
		fan_reader_fail(r, "parent", "\"%s\" has one child only: it needs two",
				n->parent_name);
		fan_reader_leave(r, back);
		return -1;
	}
	return 0;
}

uint32_t fan_scenario_nearest(const struct fan_scenario *s, struct fan_sim *sim, uint32_t host,
			      fan_seat_fits *fits, uint32_t at)
{
	assert(host < s->nodes);
	uint32_t best = FAN_SIM_NONE, least = FAN_SIM_NONE;
	for (uint32_t n = 0; n < s->nodes; n++) {
		if (!fits(s, n, at))
			continue;
		uint32_t d = fan_sim_distance(sim, host, n);
		if (d < least) {
			least = d;
			best = n;
		}
	}
	return best;
}

/* Do workers join node `n` of the tree of `root`? */
static bool is_leaf(const struct fan_scenario *s, uint32_t n, uint32_t root)
{
	assert(n < s->nodes);
	return !s->node[n].children && fan_scenario_is_below(s, n, root);
}

/* Check that every leaf has workers, but not too many, and that every child reaches its parent. */
static int check_tree(struct fan_scenario *s, struct fan_sim *sim, const struct fan_scenario_job *j,
		      const uint32_t *count, struct fan_reader *r)
{
	for (uint32_t n = 0; n < s->nodes; n++) {
		const struct fan_scenario_node *node = &s->node[n];
		if (!fan_scenario_is_below(s, n, j->at))
			continue;
		if (node->parent != FAN_SIM_NONE &&
		    fan_sim_distance(sim, n, node->parent) == FAN_SIM_NONE)
			return fan_reader_fail(r, NULL, "no path from \"%s\" to its parent \"%s\"",
					       node->name, node->parent_name);
		if (!node->children && (count[n] < 2 || count[n] > FAN_RANKS_MAX))
			return fan_reader_fail(r, "workers",
					       "%u of them would join \"%s\": expected 2 to %d",
					       count[n], node->name, FAN_RANKS_MAX);
	}
	return 0;
}

/* Turn the leaves' counts of workers, in the tree of `root`, into their first places, from `first`
 * on.  Returns the place after the last. */
static uint32_t find_places(const struct fan_scenario *s, uint32_t root, uint32_t *count,
			    uint32_t first)
{
	assert(root < s->nodes);
	uint32_t own = count[root];
	count[root] = first;
	first += own;
	for (uint32_t n = 0; s->node[root].children && n < s->nodes; n++)
		if (s->node[n].parent == root)
			first = find_places(s, n, count, first); /* ends: no cycle */
	return first;
}

int fan_scenario_seat(struct fan_scenario *s, struct fan_sim *sim, struct fan_scenario_job *j,
		      struct fan_reader *r)
{
	struct fan_job_config *c = &j->cfg;
	uint32_t *count = calloc(s->nodes, sizeof *count);
	bool tree = s->node[j->at].children > 0;
	if (tree)
		c->seat = calloc(c->ranks, sizeof *c->seat);
	if (!count || (tree && !c->seat)) {
		free(count);
		return fan_reader_fail(r, NULL, "out of memory");
	}
	count[j->at] = tree ? 0 : c->ranks;
	for (uint32_t i = 0; tree && i < c->ranks; i++) {
		uint32_t n = fan_scenario_nearest(s, sim, c->host[i], is_leaf, j->at);
		c->seat[i].node = n == FAN_SIM_NONE ? j->at : n;
		c->seat[i].rank = (uint16_t)count[c->seat[i].node]++;
	}
	for (uint32_t i = 0; tree && i < c->ranks; i++)
		c->seat[i].ranks = (uint16_t)count[c->seat[i].node];
	int bad = check_tree(s, sim, j, count, r);
	find_places(s, j->at, count, 0);
	for (uint32_t i = 0; tree && i < c->ranks; i++)
		c->seat[i].place = count[c->seat[i].node] + c->seat[i].rank;
	free(count);
	return bad;
}
