/* SPDX-License-Identifier: Apache-2.0 */
#include "fit.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/limits.h"

#define ARCS_MAX (FAN_ROUTE_HOPS_MAX + 1) /* of a worker's whole path: 24 switches */

/* One worker in this many is expected to pass a switch twice: once itself, and once in its sum. */
#define TWICE 16

/* Two arcs that follow each other on a worker's path. */
struct fan_fit_step {
	uint32_t to, next; /* the second arc; 1 + number of the next step of the first arc */
};

/* An entry of a switch; see install.h. */
struct fan_fit_entry {
	uint32_t from, to, depth, next; /* nodes; hops to the server; 1 + next entry there */
	bool sums;
};

/* A worker's whole path: its arcs, and which of them end at a switch that sums it. */
struct path {
	uint32_t arcs, arc[ARCS_MAX];
	bool sums[ARCS_MAX];
};

/* ---- how many ---- */

uint32_t fan_fit_trees(const struct fan_topo *t, uint32_t job, uint32_t server, uint32_t most)
{
	uint32_t members = 0, jobs = 0, servers = 1, least = most; /* members: with one tree each */
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++) {
			members += t->job[j].workers;
			jobs += t->job[j].server[s] == server;
		}
	if (t->job[job].groups) /* all groups must cut alike, so each has one part */
		return 1;
	if (t->job[job].servers > 1)
		servers = t->job[job].servers;
	const uint32_t bounds[] = {
		FAN_PARTS_MAX / servers,
		FAN_ROUTES_MAX / servers / (t->jobs > 1 ? t->jobs : 1),
		jobs ? FAN_JOBS_MAX / jobs : most,
		members ? FAN_MEMBERS_MAX / (members + members / TWICE) : most,
	};
	for (unsigned i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
		least = bounds[i] < least ? bounds[i] : least;
	return least ? least : 1;
}

/* ---- what follows what ---- */

int fan_fit_open(struct fan_fit *f, const struct fan_topo *t)
{
	uint32_t arcs = 2 * t->links;
	memset(f, 0, sizeof *f);
	int err = fan_paths_open(&f->paths, t);
	if (err)
		return err;
	f->t = t;
	f->twin = calloc(arcs + 1, sizeof *f->twin);
	f->first = calloc(arcs + 1, sizeof *f->first);
	f->mark = calloc(arcs + 1, sizeof *f->mark);
	f->last = calloc(t->nodes + 1, sizeof *f->last);
	f->stack = calloc(arcs + 1, sizeof *f->stack);
	f->entry = calloc(t->nodes + 1, sizeof *f->entry);
	f->count = calloc(t->nodes + 1, sizeof *f->count);
	if (!f->twin || !f->first || !f->mark || !f->last || !f->stack || !f->entry || !f->count) {
		fan_fit_close(f);
		return FAN_E_NOMEM;
	}
	for (uint32_t a = 0; a < arcs; a++) {
		const struct fan_node *n = &t->node[fan_arc_from(t, a)];
		f->twin[a] = a;
		for (uint32_t i = 0; i < n->degree; i++)
			if (fan_arc_to(t, t->out[n->first + i]) == fan_arc_to(t, a) &&
			    t->out[n->first + i] < f->twin[a])
				f->twin[a] = t->out[n->first + i];
	}
	return FAN_OK;
}

void fan_fit_close(struct fan_fit *f)
{
	if (f->t)
		fan_paths_close(&f->paths);
	free(f->twin);
	free(f->first);
	free(f->mark);
	free(f->last);
	free(f->stack);
	free(f->entry);
	free(f->count);
	free(f->step);
	free(f->known);
	memset(f, 0, sizeof *f);
}

static void forget(struct fan_fit *f)
{
	memset(f->first, 0, 2 * (size_t)f->t->links * sizeof *f->first);
	memset(f->entry, 0, f->t->nodes * sizeof *f->entry);
	memset(f->last, 0, f->t->nodes * sizeof *f->last);
	memset(f->count, 0, f->t->nodes * sizeof *f->count);
	f->steps = f->entries = 0;
}

static bool make_room(struct fan_fit *f)
{
	if (f->steps + ARCS_MAX > f->step_room) {
		uint32_t room = 2 * f->step_room + 256;
		void *moved = realloc(f->step, room * sizeof *f->step);
		if (!moved)
			return false;
		f->step = moved;
		f->step_room = room;
	}
	if (f->entries + ARCS_MAX > f->entry_room) {
		uint32_t room = 2 * f->entry_room + 256;
		void *moved = realloc(f->known, room * sizeof *f->known);
		if (!moved)
			return false;
		f->known = moved;
		f->entry_room = room;
	}
	return true;
}

/* Is it known that `to` follows `from`?  If not, note it. */
static bool knows_step(struct fan_fit *f, uint32_t from, uint32_t to)
{
	for (uint32_t i = f->first[from]; i; i = f->step[i - 1].next)
		if (f->step[i - 1].to == to)
			return true;
	f->step[f->steps] = (struct fan_fit_step){to, f->first[from]};
	f->first[from] = ++f->steps;
	return false;
}

static void add_entry(struct fan_fit *f, uint32_t node, const struct fan_fit_entry *like)
{
	for (uint32_t i = f->entry[node]; i; i = f->known[i - 1].next) {
		const struct fan_fit_entry *e = &f->known[i - 1];
		if (e->from == like->from && e->to == like->to && e->depth == like->depth &&
		    e->sums == like->sums)
			return;
	}
	f->known[f->entries] = *like;
	f->known[f->entries].next = f->entry[node];
	f->entry[node] = ++f->entries;
	f->count[node]++;
}

/* Can `goal` be reached from `from` by steps?  Marks the arcs that can be reached. */
static bool leads_to(struct fan_fit *f, uint32_t from, uint32_t goal)
{
	uint32_t depth = 0;
	if (from == goal)
		return true;
	f->stack[depth++] = from;
	f->mark[from] = 1;
	while (depth) {
		uint32_t at = f->stack[--depth];
		for (uint32_t i = f->first[at]; i; i = f->step[i - 1].next) {
			uint32_t to = f->step[i - 1].to;
			if (to == goal)
				return true;
			if (!f->mark[to]) {
				f->mark[to] = 1;
				f->stack[depth++] = to;
			}
		}
	}
	return false;
}

/* Remove steps and entries of path `p`, down to the numbers that there were before. */
static void take_back(struct fan_fit *f, const struct path *p, uint32_t steps, uint32_t entries)
{
	for (uint32_t k = p->arcs; k-- > 0;) {
		uint32_t arc = f->twin[p->arc[k]], node = fan_arc_to(f->t, arc);
		while (f->first[arc] > steps)
			f->first[arc] = f->step[f->first[arc] - 1].next;
		while (f->entry[node] > entries) {
			f->entry[node] = f->known[f->entry[node] - 1].next;
			f->count[node]--;
		}
	}
	f->steps = steps;
	f->entries = entries;
}

/* Note a path's entries and steps.  `circles`: check that none closes a circle; otherwise check
 * only that switches have room.  False: they do not fit, and are not noted.  Call make_room
 * before. */
static bool note(struct fan_fit *f, const struct path *p, bool circles)
{
	uint32_t steps = f->steps, entries = f->entries;
	bool fits = true;
	for (uint32_t k = 0; k + 1 < p->arcs && fits; k++) {
		uint32_t a = f->twin[p->arc[k]], b = f->twin[p->arc[k + 1]];
		uint32_t node = fan_arc_to(f->t, a), from = fan_arc_from(f->t, a);
		const struct fan_fit_entry like = {
			.from = f->t->node[from].kind == FAN_NODE_SWITCH ? from : FAN_NODE_NONE,
			.to = fan_arc_to(f->t, b),
			.depth = p->arcs - 1 - k,
			.sums = p->sums[k],
		};
		add_entry(f, node, &like);
		fits = f->count[node] <= FAN_ROUTE_ENTRIES_MAX;
		if (knows_step(f, a, b) || !circles || !fits)
			continue;
		memset(f->mark, 0, 2 * (size_t)f->t->links);
		fits = !leads_to(f, b, a);
	}
	if (!fits)
		take_back(f, p, steps, entries);
	return fits;
}

/* Does a circle of steps lead from this arc?  Arcs are marked 1 while they are followed, and 2 when
 * done. */
static bool has_circle(struct fan_fit *f, uint32_t arc, uint32_t deep)
{
	if (f->mark[arc] || deep > FAN_CIRCLE_MAX)
		return f->mark[arc] != 2;
	f->mark[arc] = 1;
	for (uint32_t i = f->first[arc]; i; i = f->step[i - 1].next)
		if (has_circle(f, f->step[i - 1].to, deep + 1))
			return true;
	f->mark[arc] = 2;
	return false;
}

/* ---- paths ---- */

static bool append(struct path *p, const struct fan_arcs *r, bool sums)
{
	if (p->arcs + r->hops > ARCS_MAX)
		return false;
	for (uint32_t i = 0; i < r->hops; i++) {
		p->arc[p->arcs] = r->arc[i];
		p->sums[p->arcs++] = sums && i + 1 == r->hops;
	}
	return true;
}

/* Find the path of a flow and of the sums that it enters, up to the server.  False: too long. */
static bool path_of(const struct fan_tree *tree, const struct fan_flow *f, struct path *p)
{
	p->arcs = 0;
	while (f->to != tree->server) {
		if (!append(p, &f->route, true))
			return false;
		f = fan_tree_sum(tree, f->to);
	}
	return append(p, &f->route, false);
}

/* Does the flow differ only in its first link from that of the last worker at the same switch? */
static bool is_twin(struct fan_fit *f, const struct fan_tree *tree, uint32_t w)
{
	const struct fan_flow *a = &tree->flow[w], *b;
	if (!a->route.hops)
		return false;
	uint32_t *last = &f->last[fan_arc_to(f->t, a->route.arc[0])];
	b = *last ? &tree->flow[*last - 1] : NULL;
	*last = w + 1;
	return b && fan_flows_are_twins(a, b);
}

static bool is_fit(struct fan_fit *f, const struct fan_tree *tree, bool *memory)
{
	struct path p;
	forget(f);
	for (uint32_t w = 0; w < tree->workers; w++) {
		if (is_twin(f, tree, w))
			continue;
		*memory = make_room(f);
		if (!*memory || !path_of(tree, &tree->flow[w], &p) || !note(f, &p, false))
			return false;
	}
	memset(f->mark, 0, 2 * (size_t)f->t->links);
	for (uint32_t a = 0; a < 2 * f->t->links; a++)
		if (f->first[a] && !f->mark[a] && has_circle(f, a, 0))
			return false;
	return true;
}

/* ---- mending ---- */

/* Send the flow to `to` by `route` if it fits then. */
static bool goes(struct fan_fit *f, const struct fan_tree *tree, struct fan_flow *flow, uint32_t to,
		 const struct fan_arcs *route)
{
	struct fan_flow other = {.from = flow->from, .to = to, .route = *route};
	struct path p;
	if (!route->hops || !path_of(tree, &other, &p) || !note(f, &p, true))
		return false;
	*flow = other;
	return true;
}

/* Send the flow to `to` by the first route that fits. */
static bool goes_somehow(struct fan_fit *f, const struct fan_tree *tree, struct fan_flow *flow,
			 uint32_t to)
{
	uint32_t n = fan_paths_find(&f->paths, flow->from, to, FAN_PATHS_DEFAULT, f->route);
	for (uint32_t i = 0; i < n; i++)
		if (goes(f, tree, flow, to, &f->route[i]))
			return true;
	return false;
}

/* Send the flow to another sum of the tree, or to the server. */
static bool goes_elsewhere(struct fan_fit *f, const struct fan_tree *tree, struct fan_flow *flow)
{
	for (uint32_t i = 0; i < tree->sums; i++)
		if (goes_somehow(f, tree, flow, tree->flow[tree->workers + i].from))
			return true;
	return goes_somehow(f, tree, flow, tree->server);
}

/* Send all workers straight to the server; each node has one next hop, which is nearer to it. */
static void go_straight(struct fan_fit *f, struct fan_tree *tree)
{
	tree->sums = 0;
	f->given_up++;
	for (uint32_t w = 0; w < tree->workers; w++) {
		struct fan_flow *flow = &tree->flow[w];
		uint32_t at = flow->from;
		flow->to = tree->server;
		flow->route.hops = 0;
		while (at != tree->server && flow->route.hops < FAN_HOPS_MAX) {
			if (!fan_paths_find(&f->paths, at, tree->server, 1, f->route))
				return; /* fan_eval reports the error */
			flow->route.arc[flow->route.hops++] = f->route[0].arc[0];
			at = fan_arc_to(f->t, f->route[0].arc[0]);
		}
	}
}

/* Send sums that go to another switch first straight to the server. */
static void flatten(struct fan_fit *f, struct fan_tree *tree)
{
	for (uint32_t i = 0; i < tree->sums; i++) {
		struct fan_flow *sum = &tree->flow[tree->workers + i];
		if (sum->to == tree->server ||
		    !fan_paths_find(&f->paths, sum->from, tree->server, 1, f->route))
			continue;
		sum->to = tree->server;
		sum->route = f->route[0];
	}
}

/* Fit sums first, since all their workers need them.  A sum that does not fit takes another route,
 * or is removed, and its workers send elsewhere. */
static bool mend_sums(struct fan_fit *f, struct fan_tree *tree)
{
	struct fan_flow *sum = tree->flow + tree->workers;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < tree->sums; i++) {
		const struct fan_arcs route = sum[i].route;
		if (!make_room(f))
			return false;
		if (goes(f, tree, &sum[i], tree->server, &route) ||
		    goes_somehow(f, tree, &sum[i], tree->server))
			sum[kept++] = sum[i];
	}
	tree->sums = kept;
	for (uint32_t w = 0; w < tree->workers; w++)
		if (tree->flow[w].to != tree->server && !fan_tree_sum(tree, tree->flow[w].to)) {
			tree->flow[w].to = tree->server;
			tree->flow[w].route.hops = 0;
		}
	return true;
}

static bool mend(struct fan_fit *f, struct fan_tree *tree)
{
	forget(f);
	if (!mend_sums(f, tree))
		return false;
	for (uint32_t pass = 0; pass < 2; pass++) /* first flows that can stay, then the others */
		for (uint32_t w = 0; w < tree->workers; w++) {
			struct fan_flow *flow = &tree->flow[w];
			const struct fan_arcs route = flow->route;
			if (!make_room(f))
				return false;
			if (pass == 0 && !goes(f, tree, flow, flow->to, &route))
				flow->route.hops = 0;
			if (pass == 1 && !route.hops && !goes_somehow(f, tree, flow, flow->to) &&
			    !goes_elsewhere(f, tree, flow))
				return false;
		}
	fan_tree_prune(tree);
	return true;
}

int fan_fit_tree(struct fan_fit *f, struct fan_tree *tree)
{
	bool memory = true;
	if (is_fit(f, tree, &memory))
		return FAN_OK;
	if (!memory)
		return FAN_E_NOMEM;
	f->mended++;
	flatten(f, tree);
	if (!mend(f, tree) || !is_fit(f, tree, &memory))
		go_straight(f, tree);
	return memory ? FAN_OK : FAN_E_NOMEM;
}

int fan_fit_plan(const struct fan_topo *t, struct fan_plan *p)
{
	struct fan_fit f;
	int err = fan_fit_open(&f, t);
	if (err)
		return err;
	for (uint32_t i = 0; i < p->trees && !err; i++)
		err = fan_fit_tree(&f, &p->tree[i]);
	fan_fit_close(&f);
	return err;
}
