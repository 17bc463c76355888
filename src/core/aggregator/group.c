/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator_priv.h"

#define HEALTH_SPAN 1024 /* results between two checks of missed results */

void fan_job_group_put(const struct fan_aggregator *ag, const struct fan_job *j, uint8_t *addr)
{
	unsigned last = ag->cfg.group_family == 4 ? 3 : 15;
	memcpy(addr, ag->cfg.group_base, 16);
	unsigned sum = addr[last] + (j->id & 0xff);
	addr[last] = (uint8_t)sum;
	addr[last - 1] = (uint8_t)(addr[last - 1] + (sum >> 8));
}

void fan_job_group_set(const struct fan_aggregator *ag, struct fan_job *j, const fan_peer *via)
{
	uint8_t addr[16], mapped[16] = {[10] = 0xff, [11] = 0xff};
	fan_job_group_put(ag, j, addr);
	if (ag->cfg.group_family == 4)
		memcpy(mapped + 12, addr, 4);
	memcpy(j->group.addr.addr, ag->cfg.group_family == 4 ? mapped : addr, 16);
	j->group.addr.port = ag->cfg.group_port;
	j->group.via = *via;
}

void fan_job_group_health(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank)
{
	if (!j->group.multicast)
		return;
	if (rank != FAN_RANK_NONE) {
		struct fan_member *m = &j->members[rank];
		if (m->replays < HEALTH_SPAN)
			m->replays++;
		if (m->replays > HEALTH_SPAN / 2) {
			j->group.multicast = false;
			fan_aggregator_note(ag, FAN_EV_GROUP_OFF, j, rank);
		}
		return;
	}
	if (++j->span < HEALTH_SPAN)
		return;
	j->span = 0;
	for (unsigned r = 0; r < j->ranks; r++)
		j->members[r].replays = 0;
}
