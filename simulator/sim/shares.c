/* SPDX-License-Identifier: Apache-2.0 */
/* shares.c - switches whose slots all jobs share: what completes their sums, and which of
 * them workers join. */
#include <assert.h>
#include <stdlib.h>

#include "scenario.h"

/* Only switches, and routers of a plan, have a policy other than the first. */
bool fan_scenario_shares(const struct fan_scenario_node *n)
{
	return fan_policy_shares((int)n->policy);
}

uint32_t fan_scenario_aggregator(const struct fan_scenario *s, uint32_t node)
{
	assert(node < s->nodes);
	while (s->node[node].server != FAN_SIM_NONE)
		node = s->node[node].server; /* ends: servers form no cycle */
	return node;
}

/* May "server" of `n` name `up`?  Switches without shared slots have no use for the key and take
 * one of their own policy, so that a sweep over policies needs no other change. */
static bool may_serve(const struct fan_scenario_node *n, const struct fan_scenario_node *up)
{
	if (up->kind == FAN_NODE_SERVER || fan_scenario_shares(up))
		return true;
	return up->kind == FAN_NODE_SWITCH && !fan_scenario_shares(n) && n->policy == up->policy;
}

static int read_server(struct fan_scenario *s, uint32_t i, struct fan_reader *r)
{
	assert(i < s->nodes);
	struct fan_scenario_node *n = &s->node[i];
	uint32_t up = fan_scenario_find(s, n->server_name);
	if (up == FAN_SIM_NONE || !may_serve(n, &s->node[up]))
		return fan_reader_fail(r, "server",
				       "\"%s\": no server or switch with shared slots of that name",
				       n->server_name);
	for (uint32_t at = up; at != FAN_SIM_NONE; at = s->node[at].server)
		if (at == i)
			return fan_reader_fail(r, "server", "\"%s\" leads to \"%s\" itself",
					       n->server_name, n->name);
	n->server = n->policy == FAN_POLICY_SWITCHML ? FAN_SIM_NONE : up;
	return 0;
}

static int check_length(struct fan_scenario *s, uint32_t i, struct fan_reader *r)
{
	assert(i < s->nodes);
	uint32_t hops = 0;
	for (uint32_t at = i; at != FAN_SIM_NONE; at = s->node[at].server)
		hops += fan_scenario_shares(&s->node[at]);
	if (hops <= FAN_ENVELOPE_HOPS_MAX)
		return 0;
	return fan_reader_fail(r, "server", "more than %d switches in a row",
			       FAN_ENVELOPE_HOPS_MAX);
}

static int for_each(struct fan_scenario *s, struct fan_reader *r,
		    int (*what)(struct fan_scenario *, uint32_t, struct fan_reader *))
{
	for (uint32_t i = 0; i < s->nodes; i++) {
		if (!s->node[i].server_name[0])
			continue;
		size_t back = fan_reader_enter(r, "nodes[%u]", s->node[i].entry);
		if (what(s, i, r))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}

int fan_scenario_read_servers(struct fan_scenario *s, struct fan_reader *r)
{
	return for_each(s, r, read_server) || for_each(s, r, check_length) ? -1 : 0;
}

/* Is node `n` a switch with shared slots that leads to `aggregator`? */
static bool leads_to(const struct fan_scenario *s, uint32_t n, uint32_t aggregator)
{
	assert(n < s->nodes && aggregator < s->nodes);
	return fan_scenario_shares(&s->node[n]) && fan_scenario_aggregator(s, n) == aggregator;
}

/* Check that every switch on the path reaches the next one. */
static int check_path(const struct fan_scenario *s, struct fan_sim *sim, uint32_t from,
		      struct fan_reader *r)
{
	assert(from < s->nodes);
	for (uint32_t n = from; s->node[n].server != FAN_SIM_NONE; n = s->node[n].server)
		if (fan_sim_distance(sim, n, s->node[n].server) == FAN_SIM_NONE)
			return fan_reader_fail(r, NULL, "no path from \"%s\" to its server \"%s\"",
					       s->node[n].name, s->node[n].server_name);
	return 0;
}

int fan_scenario_seat_shared(struct fan_scenario *s, struct fan_sim *sim,
			     struct fan_scenario_job *j, struct fan_reader *r)
{
	struct fan_job_config *c = &j->cfg;
	if (c->ranks > FAN_RANKS_MAX)
		return fan_reader_fail(r, "workers", "%u behind switches: expected 2 to %d",
				       c->ranks, FAN_RANKS_MAX);
	c->seat = calloc(c->ranks, sizeof *c->seat);
	if (!c->seat)
		return fan_reader_fail(r, NULL, "out of memory");
	for (uint32_t i = 0; i < c->ranks; i++) {
		uint32_t n = fan_scenario_nearest(s, sim, c->host[i], leads_to, j->at);
		if (n == FAN_SIM_NONE)
			return fan_reader_fail(r, NULL, "worker %u reaches no switch of \"%s\"", i,
					       s->node[j->at].name);
		if (check_path(s, sim, n, r))
			return -1;
		c->seat[i] = (struct fan_job_seat){
			.node = n,
			.rank = (uint16_t)i,
			.ranks = (uint16_t)c->ranks,
			.place = i,
		};
	}
	return 0;
}
