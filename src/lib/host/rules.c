/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include "segment.h"

bool fan_host_sharing_is_wanted(const struct fan_config *cfg)
{
	return cfg->local != 0 && !*cfg->server_addr && !*cfg->controller_addr &&
	       cfg->mode == FANIN_MODE_NATIVE && !cfg->ahead;
}

bool fan_host_sharing_is_asked_for(const struct fan_config *cfg)
{
	return cfg->local == 1 && fan_host_sharing_is_wanted(cfg);
}

bool fan_host_sharing_pays(const struct fan_meeting *m)
{
	bool several = false;
	for (unsigned h = 0; h < m->hosts; h++) {
		if (m->host[h].ranks > FAN_HOST_RANKS_MAX)
			return false;
		several |= m->host[h].ranks > 1;
	}
	return several && m->hosts < FAN_MEETING_HOSTS_MAX;
}

bool fan_host_sharing_is_agreed(const struct fan_meeting *m, unsigned ranks, bool named)
{
	bool left_to_switches = named && !m->sums;
	return (left_to_switches ? m->ask_to_share : m->may_share) == ranks && !m->cannot_share &&
	       fan_host_sharing_pays(m);
}

unsigned fan_host_columns(const struct fan_meeting *m, bool named)
{
	unsigned columns = named ? FAN_HOST_NAMED_COLUMNS : FAN_HOST_RANKS_MAX;
	for (unsigned h = 0; h < m->hosts; h++)
		columns = m->host[h].ranks < columns ? m->host[h].ranks : columns;
	return columns;
}
