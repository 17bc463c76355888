/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_network.c - a scenario's nodes and links, as a world has them. */
#include "scenario.h"

uint32_t fan_scenario_link(const struct fan_scenario *s, uint32_t link)
{
	uint32_t inside = 0;
	for (uint32_t i = 0; i < s->nodes; i++)
		inside += s->node[i].bps != 0;
	return inside + 2 * link;
}

static uint32_t packet_bytes(const struct fan_scenario *s)
{
	uint32_t most = FAN_CTL_BYTES_MAX;
	for (uint32_t i = 0; i < s->jobs; i++)
		if ((uint32_t)FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes > most)
			most = FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes;
	for (uint32_t i = 0; i < s->nodes; i++)
		if (fan_scenario_shares(&s->node[i])) /* whose sums carry bitmaps */
			return most + FAN_BITMAP_MAX;
	return most;
}

bool fan_scenario_network(struct fan_sim *sim, const struct fan_scenario *s)
{
	fan_sim_init(sim, s->seed, packet_bytes(s));
	for (uint32_t i = 0; i < s->nodes; i++) {
		const struct fan_scenario_node *n = &s->node[i];
		bool forwards = n->kind == FAN_NODE_SWITCH || n->kind == FAN_NODE_ROUTER;
		if (fan_sim_add_node(sim, forwards, n->bps, n->ecn_bytes) == FAN_SIM_NONE)
			return false;
	}
	for (uint32_t i = 0; i < s->links; i++) {
		const struct fan_scenario_link *l = &s->link[i];
		struct fan_link_config back = l->cfg;
		back.bps = l->back_bps ? l->back_bps : back.bps;
		if (fan_sim_add_link(sim, l->a, l->b, &l->cfg) == FAN_SIM_NONE ||
		    fan_sim_add_link(sim, l->b, l->a, &back) == FAN_SIM_NONE)
			return false;
	}
	return fan_sim_index(sim);
}
