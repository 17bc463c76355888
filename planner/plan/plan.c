/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

void fan_plan_free(struct fan_plan *p)
{
	for (uint32_t i = 0; i < p->trees; i++)
		free(p->tree[i].flow);
	free(p->tree);
	*p = (struct fan_plan){0};
}

struct fan_tree *fan_plan_add(struct fan_plan *p, const struct fan_topo *t, uint32_t job,
			      uint32_t server, double share)
{
	const struct fan_job *j = &t->job[job];
	if (p->trees >= FAN_TREES_MAX)
		return NULL;
	if (p->trees == p->room) {
		uint32_t room = p->room ? p->room * 2 : 4;
		struct fan_tree *moved = realloc(p->tree, room * sizeof *moved);
		if (!moved)
			return NULL;
		p->tree = moved;
		p->room = room;
	}
	struct fan_flow *flow = calloc(2 * (size_t)j->workers, sizeof *flow);
	if (!flow)
		return NULL;
	for (uint32_t i = 0; i < j->workers; i++) {
		flow[i].from = j->worker[i];
		flow[i].to = FAN_NODE_NONE;
	}
	struct fan_tree *tree = &p->tree[p->trees++];
	*tree = (struct fan_tree){job, server, share, j->workers, 0, flow};
	return tree;
}

struct fan_tree *fan_plan_add_like(struct fan_plan *p, const struct fan_topo *t,
				   const struct fan_tree *like)
{
	struct fan_tree *tree = fan_plan_add(p, t, like->job, like->server, like->share);
	if (!tree)
		return NULL;
	tree->sums = like->sums;
	memcpy(tree->flow, like->flow, (like->workers + like->sums) * sizeof *like->flow);
	return tree;
}

int fan_plan_copy(struct fan_plan *to, const struct fan_plan *from)
{
	*to = (struct fan_plan){0};
	to->tree = calloc(from->trees + 1, sizeof *to->tree);
	if (!to->tree)
		return FAN_E_NOMEM;
	to->room = from->trees + 1;
	for (uint32_t i = 0; i < from->trees; i++) {
		const struct fan_tree *f = &from->tree[i];
		struct fan_flow *flow = calloc(2 * (size_t)f->workers, sizeof *flow);
		if (!flow) {
			fan_plan_free(to);
			return FAN_E_NOMEM;
		}
		memcpy(flow, f->flow, (f->workers + f->sums) * sizeof *flow);
		to->tree[i] = *f;
		to->tree[i].flow = flow;
		to->trees++;
	}
	return FAN_OK;
}

void fan_plan_move(struct fan_plan *to, struct fan_plan *from)
{
	fan_plan_free(to);
	*to = *from;
	*from = (struct fan_plan){0};
}

bool fan_flows_are_twins(const struct fan_flow *a, const struct fan_flow *b)
{
	return a->to == b->to && a->route.hops == b->route.hops && a->route.hops > 0 &&
	       memcmp(a->route.arc + 1, b->route.arc + 1,
		      (a->route.hops - 1) * sizeof a->route.arc[0]) == 0;
}

struct fan_flow *fan_tree_sum(const struct fan_tree *tree, uint32_t node)
{
	for (uint32_t i = 0; i < tree->sums; i++)
		if (tree->flow[tree->workers + i].from == node)
			return &tree->flow[tree->workers + i];
	return NULL;
}

struct fan_flow *fan_tree_add_sum(struct fan_tree *tree, uint32_t node)
{
	struct fan_flow *f = fan_tree_sum(tree, node);
	if (f)
		return f;
	assert(tree->sums < tree->workers);
	f = &tree->flow[tree->workers + tree->sums++];
	f->from = node;
	f->to = tree->server;
	f->route.hops = 0;
	return f;
}

void fan_tree_add_results(const struct fan_topo *t, const struct fan_tree *tree, double load,
			  bool *seen, double *need)
{
	memset(seen, 0, 2 * t->links * sizeof *seen);
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++) {
		const struct fan_arcs *r = &tree->flow[i].route;
		for (uint32_t k = 0; k < r->hops; k++) {
			uint32_t back = r->arc[k] ^ 1u;
			if (!seen[back])
				need[back] += load;
			seen[back] = true;
		}
	}
}

/* Remove unused sums of one level: those that go to another switch (not `upper`), or to the server
 * (`upper`), which may be unused once the former are removed. */
static void prune_level(struct fan_tree *tree, bool upper)
{
	struct fan_flow *sum = tree->flow + tree->workers;
	uint32_t kept = 0, sums = tree->sums;
	for (uint32_t i = 0; i < sums; i++) {
		bool used = (sum[i].to == tree->server) != upper;
		for (uint32_t f = 0; f < tree->workers + (upper ? sums : 0) && !used; f++)
			used = tree->flow[f].to == sum[i].from;
		if (used)
			sum[kept++] = sum[i];
	}
	tree->sums = kept;
}

void fan_tree_prune(struct fan_tree *tree)
{
	prune_level(tree, false);
	prune_level(tree, true);
}
