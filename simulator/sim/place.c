/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - where jobs' workers run, and which node sums for each job. */
#include <assert.h>
#include <stdlib.h>

#include "scenario.h"

/* Does the node sum, or does the server to which it leads? */
static bool sums(const struct fan_scenario *s, uint32_t node)
{
	assert(node < s->nodes);
	const struct fan_scenario_node *n = &s->node[fan_scenario_aggregator(s, node)];
	return n->kind == FAN_NODE_SERVER ||
	       (n->kind == FAN_NODE_SWITCH && n->policy != FAN_NODE_NONE);
}

/* The worker node with the fewest workers that this job does not use yet. */
static uint32_t emptiest(const struct fan_scenario *s, const bool *taken)
{
	uint32_t best = FAN_SIM_NONE;
	for (uint32_t n = 0; n < s->nodes; n++) {
		bool good = s->node[n].kind == FAN_NODE_WORKER && !taken[n] &&
			    (best == FAN_SIM_NONE || s->node[n].placed < s->node[best].placed);
		if (good)
			best = n;
	}
	return best;
}

static bool choose_hosts(struct fan_scenario *s, struct fan_job_config *c)
{
	bool given = c->host != NULL;
	if (!given)
		c->host = calloc(c->ranks, sizeof *c->host);
	bool *taken = calloc(s->nodes, sizeof *taken);
	if (!c->host || !taken) {
		free(taken);
		return false;
	}
	for (uint32_t i = 0; !given && i < c->ranks; i++) {
		c->host[i] = emptiest(s, taken);
		taken[c->host[i]] = true;
	}
	free(taken);
	for (uint32_t i = 0; i < c->ranks; i++)
		s->node[c->host[i]].placed++;
	return true;
}

/* The number of links from all workers to `node`; UINT64_MAX: some cannot reach it. */
static uint64_t distance(struct fan_sim *sim, const struct fan_job_config *c, uint32_t node)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < c->ranks; i++) {
		uint32_t steps = fan_sim_distance(sim, c->host[i], node);
		if (steps == FAN_SIM_NONE)
			return UINT64_MAX;
		sum += steps;
	}
	return sum;
}

/* The switch nearest to all workers or, if none sums, the nearest server. */
static uint32_t nearest(const struct fan_scenario *s, struct fan_sim *sim,
			const struct fan_job_config *c)
{
	uint32_t best = FAN_SIM_NONE;
	uint64_t least = UINT64_MAX;
	for (int kind = FAN_NODE_SWITCH; kind <= FAN_NODE_SERVER && best == FAN_SIM_NONE; kind++) {
		for (uint32_t n = 0; n < s->nodes; n++) {
			if (s->node[n].kind != kind || !sums(s, n))
				continue;
			uint64_t d = distance(sim, c, n);
			if (d < least) {
				least = d;
				best = n;
			}
		}
	}
	return best;
}

/* All workers reach each other if each reaches the next one. */
static int check_ring(struct fan_sim *sim, const struct fan_job_config *c, struct fan_reader *r)
{
	for (uint32_t i = 0; i < c->ranks; i++)
		if (fan_sim_distance(sim, c->host[i], c->host[(i + 1) % c->ranks]) == FAN_SIM_NONE)
			return fan_reader_fail(r, NULL, "no path between workers %u and %u", i,
					       (i + 1) % c->ranks);
	return 0;
}

/* Set j->at to the node that the scenario names, or to the nearest; -1 with r->why. */
static int find_node(struct fan_scenario *s, struct fan_sim *sim, struct fan_scenario_job *j,
		     struct fan_reader *r)
{
	j->at = j->at_name[0] ? fan_scenario_find(s, j->at_name) : nearest(s, sim, &j->cfg);
	bool named = j->at != FAN_SIM_NONE && j->at_name[0];
	if (j->at == FAN_SIM_NONE && !j->at_name[0])
		return fan_reader_fail(r, NULL, "no switch or server that all its workers reach");
	if (named && s->node[j->at].kind == FAN_NODE_SWITCH && !sums(s, j->at))
		return fan_reader_fail(r, "at", "\"%s\" has the policy none and names no server",
				       j->at_name);
	if (j->at == FAN_SIM_NONE || !sums(s, j->at))
		return fan_reader_fail(r, "at", "\"%s\": no switch or server of that name",
				       j->at_name);
	j->shared = fan_scenario_shares(&s->node[j->at]);
	j->at = fan_scenario_aggregator(s, j->at);
	if (distance(sim, &j->cfg, j->at) == UINT64_MAX)
		return fan_reader_fail(r, "at",
				       "\"%s\": some of the job's workers have no path "
				       "there (worker nodes forward nothing)",
				       s->node[j->at].name);
	while (s->node[j->at].parent != FAN_SIM_NONE)
		j->at = s->node[j->at].parent;
	if (s->node[j->at].children) /* workers join the leaves, whatever is in front of those */
		j->shared = false;
	return 0;
}

static int choose_node(struct fan_scenario *s, struct fan_sim *sim, struct fan_scenario_job *j,
		       struct fan_reader *r)
{
	if (j->cfg.route)
		return fan_scenario_seat_routed(s, j, r);
	if (find_node(s, sim, j, r))
		return -1;
	for (uint32_t i = 0; i < s->nodes; i++) {
		const struct fan_scenario_node *n = &s->node[i];
		bool holds = fan_scenario_is_below(s, i, j->at) ||
			     (j->shared && fan_scenario_aggregator(s, i) == j->at);
		if (holds && j->cfg.payload_bytes > n->payload_bytes)
			return fan_reader_fail(r, "payload_bytes", "%u: \"%s\" has slots of %u",
					       j->cfg.payload_bytes, n->name, n->payload_bytes);
	}
	if (j->shared)
		return fan_scenario_seat_shared(s, sim, j, r);
	return fan_scenario_seat(s, sim, j, r);
}

int fan_scenario_place(struct fan_scenario *s, struct fan_reader *r)
{
	struct fan_sim sim;
	int bad = 0;
	if (!fan_scenario_network(&sim, s))
		bad = fan_reader_fail(r, NULL, "out of memory");
	for (uint32_t i = 0; i < s->jobs && !bad; i++) {
		struct fan_scenario_job *j = &s->job[i];
		/* named by the job, since an entry with copies has several */
		size_t back = fan_reader_enter(r, "jobs.%s", j->cfg.name);
		if (!choose_hosts(s, &j->cfg))
			bad = fan_reader_fail(r, NULL, "out of memory");
		else if (j->reduce != FAN_REDUCE_FANIN)
			bad = check_ring(&sim, &j->cfg, r);
		else
			bad = choose_node(s, &sim, j, r);
		fan_reader_leave(r, back);
	}
	for (uint32_t i = 0; i < s->flows && !bad; i++)
		if (fan_sim_distance(&sim, s->flow[i].from, s->flow[i].to) == FAN_SIM_NONE)
			bad = fan_reader_fail(r, "background", "no path from \"%s\" to \"%s\"",
					      s->flow[i].from_name, s->flow[i].to_name);
	for (uint32_t i = 0; i < s->tcps && !bad; i++)
		if (fan_sim_distance(&sim, s->tcp[i].from, s->tcp[i].to) == FAN_SIM_NONE)
			bad = fan_reader_fail(r, "flows", "no path from \"%s\" to \"%s\"",
					      s->tcp[i].from_name, s->tcp[i].to_name);
	fan_sim_free(&sim);
	return bad;
}
