/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

int fan_path_rank(const struct fan_switch *sw, const struct fan_switch_job *j, const fan_peer *from,
		  uint16_t rank, struct fan_contribution *p)
{
	if (rank >= j->ranks)
		return FAN_DROP_SENDER;
	if (j->route)
		return fan_routed_rank(sw, j, from, rank, p);
	fan_peer hop = fan_relay_hop(sw, j, rank);
	p->sums = true;
	p->next = &j->up;
	return fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
}

fan_peer fan_path_down(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank)
{
	return j->route ? fan_routed_down(sw, j, &j->up, rank) : fan_relay_hop(sw, j, rank);
}

bool fan_path_has_all(const struct fan_switch_job *j)
{
	return fan_ranks_count(j->below) == j->ranks;
}
