/* SPDX-License-Identifier: Apache-2.0 */
#include "cands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "plan.h"

/* The one arc that leaves a host, or UINT32_MAX if it has several, or none. */
static uint32_t only_arc(const struct fan_topo *t, uint32_t host)
{
	return t->node[host].degree == 1 ? t->out[t->node[host].first] : UINT32_MAX;
}

/* The rate that a worker's own link and capacity allow for each unit of weight of its jobs. */
static double access_of(const struct fan_topo *t, uint32_t worker, const double *weight)
{
	double least = t->cap[fan_node_resource(t, worker)];
	uint32_t arc = only_arc(t, worker);
	if (arc != UINT32_MAX && t->cap[arc] < least)
		least = t->cap[arc];
	return least / weight[worker];
}

static int find_access(struct fan_cands *c)
{
	const struct fan_topo *t = c->t;
	double *weight = calloc(t->nodes + 1, sizeof *weight);
	if (!weight)
		return FAN_E_NOMEM;
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t w = 0; w < t->job[j].workers; w++)
			weight[t->job[j].worker[w]] += t->job[j].weight;
	c->access_gbps = INFINITY;
	for (uint32_t i = 0; i < t->nodes; i++)
		if (weight[i] > 0 && access_of(t, i, weight) < c->access_gbps)
			c->access_gbps = access_of(t, i, weight);
	free(weight);
	return FAN_OK;
}

/* The node at which a worker's gradients begin to compete with others'. */
static uint32_t place_of(const struct fan_topo *t, uint32_t worker)
{
	uint32_t arc = only_arc(t, worker);
	if (arc == UINT32_MAX || t->node[fan_arc_to(t, arc)].kind != FAN_NODE_SWITCH)
		return worker;
	return fan_arc_to(t, arc);
}

static int find_groups(struct fan_cands *c, bool apart)
{
	const struct fan_topo *t = c->t;
	uint32_t all = 0, *group_at = calloc(t->nodes + 1, sizeof *group_at);
	for (uint32_t j = 0; j < t->jobs; j++)
		all += t->job[j].workers;
	c->group = calloc(all + 1, sizeof *c->group);
	c->member = calloc(all + 1, sizeof *c->member);
	c->first = calloc(t->jobs + 1, sizeof *c->first);
	c->group_of = calloc(all + 1, sizeof *c->group_of);
	if (!c->group || !c->member || !c->first || !c->group_of || !group_at) {
		free(group_at);
		return FAN_E_NOMEM;
	}
	for (uint32_t j = 0, members = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		uint32_t before = c->groups;
		c->first[j] = members;
		memset(group_at, 0xff, t->nodes * sizeof *group_at);
		for (uint32_t w = 0; w < job->workers; w++) {
			uint32_t at = place_of(t, job->worker[w]);
			if (apart || group_at[at] == UINT32_MAX) {
				group_at[at] = c->groups;
				c->group[c->groups++] =
					(struct fan_worker_group){.job = j, .at = at};
			}
			c->group[group_at[at]].count++;
		}
		for (uint32_t g = before; g < c->groups; g++) {
			c->group[g].first = members;
			members += c->group[g].count;
			c->group[g].count = 0;
		}
		for (uint32_t w = 0, next = before; w < job->workers; w++) {
			struct fan_worker_group *g =
				&c->group[group_at[place_of(t, job->worker[w])]];
			if (apart)
				g = &c->group[next++];
			c->member[g->first + g->count++] = w;
			c->group_of[c->first[j] + w] = (uint32_t)(g - c->group);
		}
	}
	free(group_at);
	return FAN_OK;
}

static int find_sums(struct fan_cands *c, uint32_t max)
{
	const struct fan_topo *t = c->t;
	c->sum = calloc(t->nodes + 1, sizeof *c->sum);
	if (!c->sum)
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < t->nodes; i++) {
		if (!fan_node_sums(t, i) || !(t->cap[fan_node_resource(t, i)] > 0))
			continue;
		double able = fan_topo_intake(t, i);
		uint32_t at = c->sums++;
		for (; at > 0 && fan_topo_intake(t, c->sum[at - 1]) < able; at--)
			c->sum[at] = c->sum[at - 1];
		c->sum[at] = i;
	}
	if (max && c->sums > max)
		c->sums = max;
	return FAN_OK;
}

static int find_targets(struct fan_cands *c)
{
	const struct fan_topo *t = c->t;
	c->target_of = calloc(t->nodes + 1, sizeof *c->target_of);
	if (!c->target_of)
		return FAN_E_NOMEM;
	memset(c->target_of, 0xff, t->nodes * sizeof *c->target_of);
	for (uint32_t v = 0; v < c->sums; v++)
		c->target_of[c->sum[v]] = v;
	c->targets = c->sums;
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			if (c->target_of[t->job[j].server[s]] == FAN_NODE_NONE)
				c->target_of[t->job[j].server[s]] = c->targets++;
	c->places = c->groups + c->sums;
	c->span = calloc((size_t)c->places * c->targets + 1, sizeof *c->span);
	return c->span ? FAN_OK : FAN_E_NOMEM;
}

static int add_routes(struct fan_cands *c, struct fan_paths *p, uint32_t place, uint32_t to,
		      uint32_t max)
{
	uint32_t from = place < c->groups ? c->group[place].at : c->sum[place - c->groups];
	if (c->route_room - c->routes < max) {
		uint32_t room = c->route_room * 2 + 16 * max;
		struct fan_arcs *moved = realloc(c->route, room * sizeof *moved);
		if (!moved)
			return FAN_E_NOMEM;
		c->route = moved;
		c->route_room = room;
	}
	uint32_t n = fan_paths_find(p, from, to, max, c->route + c->routes);
	c->span[(size_t)place * c->targets + c->target_of[to]] = (struct fan_span){c->routes, n};
	c->routes += n;
	return FAN_OK;
}

static int find_routes(struct fan_cands *c, uint32_t max, bool levels)
{
	struct fan_paths p;
	int err = fan_paths_open(&p, c->t);
	for (uint32_t to = 0; to < c->t->nodes && !err; to++) {
		if (c->target_of[to] == FAN_NODE_NONE)
			continue;
		bool sums = c->target_of[to] < c->sums;
		uint32_t places = sums && !levels ? c->groups : c->places;
		for (uint32_t place = 0; place < places && !err; place++)
			err = add_routes(c, &p, place, to, max);
	}
	if (p.t)
		fan_paths_close(&p);
	return err;
}

/* Check that each worker has a candidate route to each of its job's servers. */
static int check_routes(const struct fan_cands *c)
{
	for (uint32_t g = 0; g < c->groups; g++) {
		const struct fan_job *job = &c->t->job[c->group[g].job];
		for (uint32_t s = 0; s < job->servers; s++)
			if (fan_cands_to_server(c, g, job->server[s]).count == 0)
				return FAN_E_INVALID;
	}
	return FAN_OK;
}

/* List the arcs of all routes without gaps; struct fan_arcs has room for the longest route. */
static int list_arcs(struct fan_cands *c)
{
	size_t all = 1;
	for (uint32_t i = 0; i < c->routes; i++)
		all += c->route[i].hops;
	c->arc = calloc(all, sizeof *c->arc);
	c->arc_at = calloc((size_t)c->routes + 1, sizeof *c->arc_at);
	if (!c->arc || !c->arc_at)
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < c->routes; i++) {
		const struct fan_arcs *r = &c->route[i];
		memcpy(c->arc + c->arc_at[i], r->arc, r->hops * sizeof r->arc[0]);
		c->arc_at[i + 1] = c->arc_at[i] + r->hops;
	}
	return FAN_OK;
}

int fan_cands_open(struct fan_cands *c, const struct fan_topo *t, const struct fan_cands_options *o)
{
	int err;
	memset(c, 0, sizeof *c);
	c->t = t;
	if ((err = find_access(c)) || (err = find_groups(c, o->apart)) ||
	    (err = find_sums(c, o->sums_max)) || (err = find_targets(c)) ||
	    (err = find_routes(c, o->paths, o->levels)) || (err = check_routes(c)) ||
	    (err = list_arcs(c)))
		fan_cands_close(c);
	return err;
}

int fan_cands_open_bounded(struct fan_cands *c, const struct fan_topo *t, uint32_t paths,
			   double routes_max)
{
	struct fan_cands_options few = {.paths = 1, .sums_max = 1};
	double sums = 0;
	int err = fan_cands_open(c, t, &few);
	if (err)
		return err;
	for (uint32_t i = 0; i < t->nodes; i++)
		sums += fan_node_sums(t, i);
	double pairs = (c->groups + sums) * (c->targets - c->sums) + c->groups * sums;
	fan_cands_close(c);
	few = (struct fan_cands_options){.paths = paths};
	while (few.paths > 1 && few.paths * pairs > routes_max)
		few.paths--;
	return fan_cands_open(c, t, &few);
}

void fan_cands_close(struct fan_cands *c)
{
	free(c->group);
	free(c->member);
	free(c->first);
	free(c->group_of);
	free(c->sum);
	free(c->target_of);
	free(c->span);
	free(c->route);
	free(c->arc);
	free(c->arc_at);
	memset(c, 0, sizeof *c);
}

void fan_cands_flow(const struct fan_cands *c, const struct fan_worker_group *g, uint32_t r,
		    struct fan_flow *f)
{
	const struct fan_arcs *route = &c->route[r];
	uint32_t own = g->at == f->from ? 0 : 1;
	if (own)
		f->route.arc[0] = only_arc(c->t, f->from);
	memcpy(f->route.arc + own, route->arc, route->hops * sizeof route->arc[0]);
	f->route.hops = route->hops + own;
	f->to = route->hops ? fan_arc_to(c->t, route->arc[route->hops - 1]) : g->at;
}
