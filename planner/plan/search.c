/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "steps.h"

#define DOUBLINGS 5    /* of the exponent: load / capacity is raised to the power of 32 */
#define GAIN_MIN  1e-9 /* relative: flows do not move for a smaller gain */
#define NO_CAP	  1e15 /* Gb/s: capacity of what has no limit */
#define CAP_MIN	  1e-12

struct search {
	const struct fan_cands *c;
	const struct fan_topo *t;
	struct fan_plan *p;
	double *load;	       /* by resource, per Gb/s of the common rate */
	double *per;	       /* by resource: 1 / capacity */
	double *scaled, *base; /* by resource: per / unit, and (load * scaled) to the power */
	double *more;	       /* by resource: what one more flow of the present tree costs */
	double flow;	       /* load of a flow of the present tree */
	double unit;	       /* the highest load / capacity; keeps powers small */
	uint16_t *uses;	       /* by tree and arc: its flows, for results; NULL: not counted */
	uint16_t *now;	       /* `uses` of the present tree; NULL: not counted */
};

static double power(double x)
{
	for (unsigned i = 0; i < DOUBLINGS; i++)
		x *= x;
	return x;
}

static void add(struct search *s, uint32_t resource, double load)
{
	s->load[resource] += load;
	s->base[resource] = power(s->load[resource] * s->scaled[resource]);
	s->more[resource] =
		power((s->load[resource] + s->flow) * s->scaled[resource]) - s->base[resource];
}

/* Add a flow of the present tree; remove it if `load` is negative (-0 if the tree has no share). */
static void add_route(struct search *s, const struct fan_arcs *r, uint32_t to, double load)
{
	bool goes = signbit(load);
	for (uint32_t i = 0; i < r->hops; i++) {
		uint32_t arc = r->arc[i];
		add(s, arc, load);
		if (s->now && (goes ? --s->now[arc] : s->now[arc]++) == 0)
			add(s, arc ^ 1u, load);
	}
	add(s, fan_node_resource(s->t, to), load);
}

static double load_of(const struct search *s, const struct fan_tree *tree)
{
	return tree->share * s->t->job[tree->job].weight;
}

static void price_all(struct search *s)
{
	for (uint32_t r = 0; r < fan_topo_resources(s->t); r++)
		s->more[r] = power((s->load[r] + s->flow) * s->scaled[r]) - s->base[r];
}

static uint16_t *results_at(const struct search *s, uint32_t tree)
{
	return s->uses ? s->uses + (size_t)tree * 2 * s->t->links : NULL;
}

/* Make `tree` the present one. */
static void look_at(struct search *s, uint32_t tree)
{
	s->now = results_at(s, tree);
	s->flow = load_of(s, &s->p->tree[tree]);
	price_all(s);
}

/* The cost of one more flow over some arcs and into `to`; a cost of `limit` or more is not
 * exact. */
static double cost_of(const struct search *s, const uint32_t *arc, const uint32_t *end, uint32_t to,
		      double limit)
{
	double sum = s->more[fan_node_resource(s->t, to)];
	for (; sum < limit && arc < end; arc++) {
		sum += s->more[*arc];
		if (s->now && !s->now[*arc])
			sum += s->more[*arc ^ 1u];
	}
	return sum;
}

/* The cheapest route of `span` into `to`, if it costs less than `limit`; otherwise UINT32_MAX. */
static uint32_t cheapest(const struct search *s, struct fan_span span, uint32_t to, double limit,
			 double *cost)
{
	uint32_t best = UINT32_MAX;
	*cost = limit;
	for (uint32_t i = span.first; i < span.first + span.count; i++) {
		const uint32_t *arc = s->c->arc + s->c->arc_at[i];
		double x = cost_of(s, arc, s->c->arc + s->c->arc_at[i + 1], to, *cost);
		if (x < *cost) {
			*cost = x;
			best = i;
		}
	}
	return best;
}

static uint32_t group_of(const struct search *s, const struct fan_tree *tree, uint32_t w)
{
	return fan_cands_group(s->c, tree->job, w);
}

/* A place where a worker may send, and its cost, a new sum included. */
struct place {
	uint32_t node, route, on; /* `on`: route of a new sum; UINT32_MAX: it has one */
	double cost;
};

static void consider(const struct search *s, const struct fan_tree *tree, uint32_t g, uint32_t v,
		     bool is_open, struct place *best)
{
	double cost, more = 0;
	uint32_t node = s->c->sum[v], on = UINT32_MAX;
	if (!is_open) {
		on = cheapest(s, fan_cands_sum_to_server(s->c, v, tree->server), tree->server,
			      best->cost, &more);
		if (on == UINT32_MAX)
			return;
	}
	uint32_t route = cheapest(s, fan_cands_to_sum(s->c, g, v), node, best->cost - more, &cost);
	if (route != UINT32_MAX && cost + more < best->cost)
		*best = (struct place){node, route, on, cost + more};
}

static void consider_server(const struct search *s, const struct fan_tree *tree, uint32_t g,
			    struct place *best)
{
	double cost;
	uint32_t route = cheapest(s, fan_cands_to_server(s->c, g, tree->server), tree->server,
				  best->cost, &cost);
	if (route != UINT32_MAX)
		*best = (struct place){tree->server, route, UINT32_MAX, cost};
}

static void consider_all(const struct search *s, const struct fan_tree *tree, uint32_t g,
			 uint32_t now, enum fan_moves moves, struct place *best)
{
	if (moves == FAN_MOVE_ROUTE) {
		if (now == tree->server)
			consider_server(s, tree, g, best);
		else
			consider(s, tree, g, s->c->target_of[now], fan_tree_sum(tree, now), best);
		return;
	}
	consider_server(s, tree, g, best);
	for (uint32_t i = 0; i < tree->sums && moves == FAN_MOVE_PLACE; i++) {
		uint32_t v = s->c->target_of[tree->flow[tree->workers + i].from];
		if (v != FAN_NODE_NONE)
			consider(s, tree, g, v, true, best);
	}
	for (uint32_t v = 0; v < s->c->sums && moves == FAN_MOVE_OPEN; v++)
		consider(s, tree, g, v, fan_tree_sum(tree, s->c->sum[v]), best);
}

/* Add the load of a worker's whole flow, its own link included. */
static void add_flow(struct search *s, const struct fan_flow *f, double load)
{
	add_route(s, &f->route, f->to, load);
}

static void place_worker(struct search *s, struct fan_tree *tree, uint32_t w,
			 const struct place *at)
{
	struct fan_flow *f = &tree->flow[w];
	fan_cands_flow(s->c, &s->c->group[group_of(s, tree, w)], at->route, f);
	add_flow(s, f, load_of(s, tree));
	if (at->on != UINT32_MAX) {
		struct fan_flow *sum = fan_tree_add_sum(tree, at->node);
		sum->route = s->c->route[at->on];
		add_flow(s, sum, load_of(s, tree));
	}
}

/* Does no other worker send to the same node as worker `w`? */
static bool is_alone(const struct fan_tree *tree, uint32_t w)
{
	for (uint32_t i = 0; i < tree->workers; i++)
		if (i != w && tree->flow[i].to == tree->flow[w].to)
			return false;
	return true;
}

/* The cost of a worker's flow at its old place, without its own link, as for candidates. */
static double cost_now(const struct search *s, const struct fan_tree *tree, uint32_t w,
		       const struct fan_flow *was)
{
	const struct fan_worker_group *g = &s->c->group[group_of(s, tree, w)];
	const uint32_t *arc = was->route.arc + (g->at != was->from && was->route.hops);
	return cost_of(s, arc, was->route.arc + was->route.hops, was->to, INFINITY);
}

/* Move a worker to a cheaper place.  Returns true if it moved. */
static bool move_worker(struct search *s, struct fan_tree *tree, uint32_t w, enum fan_moves moves)
{
	struct fan_flow was = tree->flow[w], sum = {0};
	double load = load_of(s, tree);
	bool alone = was.to != tree->server && moves != FAN_MOVE_ROUTE && is_alone(tree, w);
	add_flow(s, &was, -load);
	if (alone) {
		sum = *fan_tree_sum(tree, was.to);
		add_flow(s, &sum, -load);
	}
	double back = cost_now(s, tree, w, &was);
	if (alone)
		back += cost_of(s, sum.route.arc, sum.route.arc + sum.route.hops, sum.to, INFINITY);
	tree->flow[w].to = FAN_NODE_NONE;
	if (alone)
		fan_tree_prune(tree);
	struct place best = {.cost = back - GAIN_MIN * (fabs(back) + GAIN_MIN)};
	best.node = FAN_NODE_NONE;
	consider_all(s, tree, group_of(s, tree, w), was.to, moves, &best);
	if (best.node != FAN_NODE_NONE) {
		place_worker(s, tree, w, &best);
		return true;
	}
	tree->flow[w] = was;
	add_flow(s, &was, load);
	if (alone) {
		*fan_tree_add_sum(tree, sum.from) = sum;
		add_flow(s, &sum, load);
	}
	return false;
}

/* Move workers by group: if one finds no better place, skip its twins until another moves. */
static bool move_workers(struct search *s, struct fan_tree *tree, enum fan_moves moves)
{
	bool moved = false;
	for (uint32_t g = 0; g < s->c->groups; g++) {
		const struct fan_worker_group *group = &s->c->group[g];
		const struct fan_flow *stays = NULL;
		for (uint32_t i = 0; i < group->count && group->job == tree->job; i++) {
			uint32_t w = s->c->member[group->first + i];
			if (stays && fan_flows_are_twins(stays, &tree->flow[w]))
				continue;
			bool goes = move_worker(s, tree, w, moves);
			stays = goes ? NULL : &tree->flow[w];
			moved = moved || goes;
		}
	}
	return moved;
}

static bool move_sum(struct search *s, struct fan_tree *tree, struct fan_flow *f)
{
	double load = load_of(s, tree), cost;
	uint32_t v = s->c->target_of[f->from];
	if (v == FAN_NODE_NONE)
		return false;
	add_flow(s, f, -load);
	double back = cost_of(s, f->route.arc, f->route.arc + f->route.hops, f->to, INFINITY);
	uint32_t route = cheapest(s, fan_cands_sum_to_server(s->c, v, tree->server), tree->server,
				  back - GAIN_MIN * (fabs(back) + GAIN_MIN), &cost);
	bool better = route != UINT32_MAX;
	if (better)
		f->route = s->c->route[route];
	add_flow(s, f, load);
	return better;
}

static void find_unit(struct search *s)
{
	s->unit = 0;
	for (uint32_t r = 0; r < fan_topo_resources(s->t); r++)
		s->unit = fmax(s->unit, s->load[r] * s->per[r]);
	if (!(s->unit > 0))
		s->unit = 1;
	for (uint32_t r = 0; r < fan_topo_resources(s->t); r++) {
		s->scaled[r] = s->per[r] / s->unit;
		s->base[r] = power(s->load[r] * s->scaled[r]);
	}
	price_all(s);
}

static void close_search(struct search *s)
{
	free(s->load);
	free(s->per);
	free(s->scaled);
	free(s->base);
	free(s->more);
	free(s->uses);
}

static int open_search(struct search *s, const struct fan_cands *c, struct fan_plan *p)
{
	const struct fan_topo *t = c->t;
	uint32_t resources = fan_topo_resources(t);
	*s = (struct search){.c = c, .t = t, .p = p};
	s->load = calloc(resources + 1, sizeof *s->load);
	s->per = calloc(resources + 1, sizeof *s->per);
	s->scaled = calloc(resources + 1, sizeof *s->scaled);
	s->base = calloc(resources + 1, sizeof *s->base);
	s->more = calloc(resources + 1, sizeof *s->more);
	if (t->results)
		s->uses = calloc((size_t)p->trees * 2 * t->links + 1, sizeof *s->uses);
	if (!s->load || !s->per || !s->scaled || !s->base || !s->more || (t->results && !s->uses)) {
		close_search(s);
		return FAN_E_NOMEM;
	}
	for (uint32_t r = 0; r < resources; r++)
		s->per[r] = 1 / fmax(fmin(t->cap[r], NO_CAP), CAP_MIN);
	for (uint32_t i = 0; i < p->trees; i++) {
		s->now = results_at(s, i);
		for (uint32_t k = 0; k < p->tree[i].workers + p->tree[i].sums; k++)
			if (p->tree[i].flow[k].to != FAN_NODE_NONE)
				add_flow(s, &p->tree[i].flow[k], load_of(s, &p->tree[i]));
	}
	find_unit(s);
	return FAN_OK;
}

/* Does the sum of any switch go to another switch? */
static bool has_levels(const struct fan_tree *tree)
{
	for (uint32_t i = 0; i < tree->sums; i++)
		if (tree->flow[tree->workers + i].to != tree->server)
			return true;
	return false;
}

int fan_search(const struct fan_cands *c, struct fan_plan *p, enum fan_moves moves, uint32_t passes)
{
	struct search s;
	int err = open_search(&s, c, p);
	bool moved = true;
	if (err)
		return err;
	for (uint32_t pass = 0; pass < passes && moved; pass++) {
		moved = false;
		find_unit(&s);
		for (uint32_t i = 0; i < p->trees; i++) {
			struct fan_tree *tree = &p->tree[i];
			look_at(&s, i);
			if (has_levels(tree))
				continue;
			moved = move_workers(&s, tree, moves) || moved;
			for (uint32_t k = 0; k < tree->sums; k++)
				moved = move_sum(&s, tree, &tree->flow[tree->workers + k]) || moved;
		}
	}
	close_search(&s);
	return FAN_OK;
}

int fan_search_fill(const struct fan_cands *c, struct fan_plan *p, uint32_t i, const uint32_t *open,
		    uint32_t count)
{
	struct search s;
	int err = open_search(&s, c, p);
	struct fan_tree *tree = &p->tree[i];
	if (err)
		return err;
	look_at(&s, i);
	for (uint32_t w = 0; w < tree->workers; w++) {
		uint32_t g = group_of(&s, tree, w);
		struct place best = {.node = FAN_NODE_NONE, .cost = INFINITY};
		for (uint32_t k = 0; k < count; k++)
			consider(&s, tree, g, open[k], fan_tree_sum(tree, c->sum[open[k]]), &best);
		if (best.node == FAN_NODE_NONE)
			consider_server(&s, tree, g, &best);
		place_worker(&s, tree, w, &best);
		if ((w & (w + 1)) == 0) /* loads have doubled: keep powers in range */
			find_unit(&s);
	}
	close_search(&s);
	return FAN_OK;
}

int fan_search_mend(const struct fan_cands *c, struct fan_plan *p)
{
	struct search s;
	int err = open_search(&s, c, p);
	if (err)
		return err;
	for (uint32_t i = 0; i < p->trees; i++) {
		struct fan_tree *tree = &p->tree[i];
		look_at(&s, i);
		for (uint32_t w = 0; w < tree->workers; w++) {
			struct place best = {.node = FAN_NODE_NONE, .cost = INFINITY};
			enum fan_moves moves = tree->sums ? FAN_MOVE_PLACE : FAN_MOVE_OPEN;
			if (tree->flow[w].to != FAN_NODE_NONE)
				continue;
			consider_all(&s, tree, group_of(&s, tree, w), FAN_NODE_NONE, moves, &best);
			if (best.node == FAN_NODE_NONE) {
				close_search(&s);
				return FAN_E_INVALID;
			}
			place_worker(&s, tree, w, &best);
		}
		find_unit(&s);
	}
	close_search(&s);
	return FAN_OK;
}
