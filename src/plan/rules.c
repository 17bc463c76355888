/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "core/base/rng.h"
#include "search.h"

int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, uint32_t paths, uint64_t seed)
{
	struct fan_cands_options o = {.paths = paths};
	uint32_t all = 0;

	memset(r, 0, sizeof *r);
	r->seed = seed;
	int err = fan_cands_open(&r->c, t, &o);
	if (err)
		return err;
	r->first = calloc(t->jobs + 1, sizeof *r->first);
	for (uint32_t j = 0; j < t->jobs; j++)
		all += t->job[j].workers;
	r->group_of = calloc(all + 1, sizeof *r->group_of);
	if (!r->first || !r->group_of) {
		fan_rules_close(r);
		return FAN_E_NOMEM;
	}
	for (uint32_t j = 1; j < t->jobs; j++)
		r->first[j] = r->first[j - 1] + t->job[j - 1].workers;
	for (uint32_t g = 0; g < r->c.groups; g++) {
		const struct fan_group *group = &r->c.group[g];
		for (uint32_t i = 0; i < group->count; i++)
			r->group_of[r->first[group->job] + r->c.member[group->first + i]] = g;
	}
	return FAN_OK;
}

void fan_rules_close(struct fan_rules *r)
{
	fan_cands_close(&r->c);
	free(r->group_of);
	free(r->first);
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

void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node)
{
	uint32_t g = r->group_of[r->first[tree->job] + w], to = tree->server;
	struct fan_span span = fan_cands_to_server(&r->c, g, tree->server);

	if (node != tree->server && node != FAN_NODE_NONE) {
		uint32_t v = r->c.target_of[node];
		struct fan_span in = fan_cands_to_sum(&r->c, g, v);
		struct fan_span on = fan_cands_sum_to_server(&r->c, v, tree->server);
		if (in.count && on.count) {
			span = in;
			to = node;
			fan_tree_add_sum(tree, node)->route =
				r->c.route[shortest(r, on, node, tree->server)];
		}
	}
	fan_cands_flow(&r->c, &r->c.group[g], shortest(r, span, tree->flow[w].from, to),
		       &tree->flow[w]);
}

uint32_t fan_rules_rack(const struct fan_topo *t, uint32_t host)
{
	uint32_t rack = fan_topo_rack(t, host);

	if (rack == FAN_NODE_NONE || !fan_node_sums(t, rack) ||
	    !(t->cap[fan_node_resource(t, rack)] > 0))
		return FAN_NODE_NONE;
	return rack;
}

/* What a server takes in, itself and by its links. */
static double intake(const struct fan_topo *t, uint32_t server)
{
	double sum = 0, cap = t->cap[fan_node_resource(t, server)];

	for (uint32_t i = 0; i < t->node[server].degree; i++)
		sum += t->cap[t->out[t->node[server].first + i] ^ 1];
	return sum < cap ? sum : cap;
}

/* Routes by which flows that nobody sums get in each other's way least. */
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

/* One tree on each server, each worker to its rack switch or straight. */
static int plan_by_rule(const struct fan_topo *t, const struct fan_plan_options *o,
			struct fan_plan *p, bool racks, bool by_intake)
{
	struct fan_rules r;
	int err = fan_rules_open(&r, t, racks ? o->paths : 1, o->seed);

	fan_plan_init(p);
	for (uint32_t j = 0; j < t->jobs && !err; j++) {
		const struct fan_job *job = &t->job[j];
		double sum = 0;
		for (uint32_t s = 0; s < job->servers; s++)
			sum += by_intake ? intake(t, job->server[s]) : 1;
		for (uint32_t s = 0; s < job->servers && !err; s++) {
			uint32_t server = job->server[s];
			double share = (by_intake ? intake(t, server) : 1) / sum;
			struct fan_tree *tree = fan_plan_add(p, t, j, server, share);
			err = tree ? FAN_OK : FAN_E_NOMEM;
			for (uint32_t w = 0; w < job->workers && tree; w++) {
				uint32_t rack = fan_rules_rack(t, job->worker[w]);
				fan_rules_send(&r, tree, w, racks ? rack : server);
			}
		}
	}
	if (r.first)
		fan_rules_close(&r);
	if (!err && !racks)
		err = spread(t, o, p);
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

int fan_round_outcome(const struct fan_topo *t, const struct fan_plan_options *o,
		      struct fan_plan *p, struct fan_planned *how)
{
	(void)how;
	return plan_by_rule(t, o, p, true, false);
}
