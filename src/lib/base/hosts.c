/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include <assert.h>

void fan_meeting_count_idle(const struct fan_meeting *m, struct fanin_stats *s)
{
	assert(m->hosts <= FAN_MEETING_HOSTS_MAX);
	for (unsigned h = 0; h < m->hosts && m->sums; h++) {
		const struct fan_meeting_host *host = &m->host[h];
		if (!host->aggregator.port && !s->idle_hosts++) {
			s->idle_rank = host->first;
			s->idle_misses = host->misses;
		}
	}
}
