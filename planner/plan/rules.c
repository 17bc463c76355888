/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "core/base/rng.h"
#include "fit.h"
#include "steps.h"

static bool can_sum(const struct fan_topo *t, uint32_t node)
{
	return fan_node_sums(t, node) && t->cap[fan_node_resource(t, node)] > 0;
}

/* The nearest switch that can sum, by links; of several, the first in the topology. */
static uint32_t nearest(const struct fan_topo *t, uint32_t host, uint32_t *queue, bool *seen)
{
	uint32_t head = 0, tail = 0, last = 1, best = FAN_NODE_NONE;
	memset(seen, 0, t->nodes * sizeof *seen);
	seen[host] = true;
	queue[tail++] = host;
	while (head < tail) {
		const struct fan_node *n = &t->node[queue[head++]];
		for (uint32_t i = 0; i < n->degree; i++) {
			uint32_t arc = t->out[n->first + i], to = fan_arc_to(t, arc);
			if (seen[to] || t->node[to].kind != FAN_NODE_SWITCH || !(t->cap[arc] > 0))
				continue;
			seen[to] = true;
			queue[tail++] = to;
			if (can_sum(t, to) && to < best)
				best = to;
		}
		if (head == last && best != FAN_NODE_NONE)
			break;
		if (head == last) /* end of the nodes at this distance */
			last = tail;
	}
	return best;
}

/* The switch at the other end of a host's first link; FAN_NODE_NONE if it has none. */
static uint32_t rack_of(const struct fan_topo *t, uint32_t host)
{
	const struct fan_node *n = &t->node[host];
	for (uint32_t i = 0; i < n->degree; i++) {
		uint32_t to = fan_arc_to(t, t->out[n->first + i]);
		if (t->node[to].kind == FAN_NODE_SWITCH)
			return to;
	}
	return FAN_NODE_NONE;
}

static int find_places(struct fan_rules *r, enum fan_sums_at sums_at)
{
	const struct fan_topo *t = r->c.t;
	uint32_t *queue = calloc(t->nodes + 1, sizeof *queue);
	bool *seen = calloc(t->nodes + 1, sizeof *seen);
	r->sums_at = calloc(t->nodes + 1, sizeof *r->sums_at);
	for (uint32_t i = 0; i < t->nodes && queue && seen && r->sums_at; i++) {
		uint32_t rack = FAN_NODE_NONE;
		if (t->node[i].kind != FAN_NODE_SWITCH)
			rack = sums_at == FAN_SUMS_RACK ? rack_of(t, i)
							: nearest(t, i, queue, seen);
		r->sums_at[i] = rack != FAN_NODE_NONE && can_sum(t, rack) ? rack : FAN_NODE_NONE;
	}
	free(queue);
	free(seen);
	return queue && seen && r->sums_at ? FAN_OK : FAN_E_NOMEM;
}

int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, const struct fan_plan_options *o)
{
	struct fan_cands_options few = {.paths = o->paths, .levels = fan_plan_levels(o)};
	memset(r, 0, sizeof *r);
	r->seed = o->seed;
	int err = fan_cands_open(&r->c, t, &few);
	if (!err)
		err = find_places(r, o->sums_at);
	if (err)
		fan_rules_close(r);
	return err;
}

void fan_rules_close(struct fan_rules *r)
{
	fan_cands_close(&r->c);
	free(r->sums_at);
	memset(r, 0, sizeof *r);
}

/* One of the shortest of these routes, always the same from `from` to `to`. */
static uint32_t shortest(const struct fan_rules *r, struct fan_span span, uint32_t from,
			 uint32_t to)
{
	struct fan_rng hash = {r->seed + ((uint64_t)from << 32) + to};
	uint32_t equal = 1;
	while (equal < span.count &&
	       r->c.route[span.first + equal].hops == r->c.route[span.first].hops)
		equal++;
	return span.first + (span.count ? (uint32_t)fan_rng_below(&hash, equal) : 0);
}

/* Is there room for a sum at `node` once worker `w` has left its own? */
static bool has_room(struct fan_tree *tree, uint32_t w, uint32_t node)
{
	if (tree->sums == tree->workers && !fan_tree_sum(tree, node)) {
		tree->flow[w].to = FAN_NODE_NONE;
		fan_tree_prune(tree);
	}
	return tree->sums < tree->workers || fan_tree_sum(tree, node);
}

void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node)
{
	uint32_t g = fan_cands_group(&r->c, tree->job, w), to = tree->server;
	struct fan_span span = fan_cands_to_server(&r->c, g, tree->server);
	if (node != tree->server && node != FAN_NODE_NONE) {
		uint32_t v = r->c.target_of[node];
		struct fan_span in = fan_cands_to_sum(&r->c, g, v);
		struct fan_span on = fan_cands_sum_to_server(&r->c, v, tree->server);
		if (in.count && on.count && has_room(tree, w, node)) {
			span = in;
			to = node;
			struct fan_flow *sum = fan_tree_add_sum(tree, node);
			if (sum->to == tree->server) /* not to a second switch */
				sum->route = r->c.route[shortest(r, on, node, tree->server)];
		}
	}
	fan_cands_flow(&r->c, &r->c.group[g], shortest(r, span, tree->flow[w].from, to),
		       &tree->flow[w]);
}

/* The routes from candidate sum `v` to candidate sum `w`; none without `levels`. */
static struct fan_span sum_to_sum(const struct fan_cands *c, uint32_t v, uint32_t w)
{
	return c->span[(size_t)(c->groups + v) * c->targets + w];
}

void fan_rules_stack(const struct fan_rules *r, struct fan_tree *tree, uint32_t from, uint32_t to)
{
	uint32_t v = r->c.target_of[from], w = r->c.target_of[to];
	struct fan_span on = sum_to_sum(&r->c, v, w);
	struct fan_span end = fan_cands_sum_to_server(&r->c, w, tree->server);
	bool first = !fan_tree_sum(tree, to);
	if (from == to || !on.count || !end.count || (first && tree->sums == tree->workers))
		return;
	if (first)
		fan_tree_add_sum(tree, to)->route = r->c.route[shortest(r, end, to, tree->server)];
	struct fan_flow *f = fan_tree_sum(tree, from);
	f->to = to;
	f->route = r->c.route[shortest(r, on, from, to)];
}

void fan_rules_stack_all(const struct fan_rules *r, struct fan_tree *tree, uint32_t to)
{
	for (uint32_t i = 0; i < tree->sums && to != FAN_NODE_NONE; i++)
		fan_rules_stack(r, tree, tree->flow[tree->workers + i].from, to);
}

/* Choose routes so that flows without sums share few links. */
static int spread(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p)
{
	struct fan_cands c;
	struct fan_cands_options all = {.paths = o->paths, .sums_max = 1};
	int err = fan_cands_open(&c, t, &all);
	if (err)
		return err;
	err = fan_search(&c, p, FAN_MOVE_ROUTE, FAN_SEARCH_PASSES);
	fan_cands_close(&c);
	return err;
}

/* Make one tree on each server, in which each worker sends to the switch that sums for it (`racks`)
 * or straight to the server.  `by_intake`: shares in proportion to what servers take in. */
static int plan_by_rule(const struct fan_topo *t, const struct fan_plan_options *o,
			struct fan_plan *p, bool racks, bool by_intake)
{
	struct fan_plan_options few = *o;
	struct fan_rules r;
	few.paths = racks ? o->paths : 1;
	int err = fan_rules_open(&r, t, &few);

	*p = (struct fan_plan){0};
	for (uint32_t j = 0; j < t->jobs && !err; j++) {
		const struct fan_job *job = &t->job[j];
		double sum = 0;
		for (uint32_t s = 0; s < job->servers; s++)
			sum += by_intake ? fan_topo_intake(t, job->server[s]) : 1;
		for (uint32_t s = 0; s < job->servers && !err; s++) {
			uint32_t server = job->server[s];
			double share = (by_intake ? fan_topo_intake(t, server) : 1) / sum;
			struct fan_tree *tree = fan_plan_add(p, t, j, server, share);
			err = tree ? FAN_OK : FAN_E_NOMEM;
			for (uint32_t w = 0; w < job->workers && tree; w++)
				fan_rules_send(&r, tree, w,
					       racks ? r.sums_at[job->worker[w]] : server);
			if (tree && racks && fan_plan_levels(o))
				fan_rules_stack_all(&r, tree, r.sums_at[server]);
		}
	}
	fan_rules_close(&r);
	if (!err && !racks)
		err = spread(t, o, p);
	if (!err)
		err = fan_fit_plan(t, p);
	if (err)
		fan_plan_free(p);
	return err;
}

int fan_geryon(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	       struct fan_planned *how)
{
	(void)how;
	return plan_by_rule(t, o, p, false, false);
}

int fan_lbmm(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	     struct fan_planned *how)
{
	(void)how;
	return plan_by_rule(t, o, p, false, true);
}

int fan_switchml(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		 struct fan_planned *how)
{
	(void)how;
	return plan_by_rule(t, o, p, true, false);
}
