/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator.h - a process that sums: a switch daemon, or a server that stands in for one.
 *
 * It does what src/net does around a fan_switch, and watches its slots. */
#ifndef FAN_SIM_AGGREGATOR_H
#define FAN_SIM_AGGREGATOR_H

#include "core/switch.h"
#include "series.h"
#include "world.h"

struct fan_aggregator {
	struct fan_sim *sim;
	uint32_t actor;
	uint32_t parent; /* the actor whose child it is; FAN_SIM_NONE: none */
	bool own;	 /* a host: what it sends waits in its sockets, it is not dropped */
	struct fan_switch_config cfg;
	void *mem;
	struct fan_switch *core;
	struct fan_out out;
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* datagrams */
	uint64_t unheard; /* sent to an address that nobody has; always 0 */
	struct fan_series series;
	uint64_t slots_used_max;
	uint64_t down_until_ns;	      /* hears nothing until then */
	struct fan_switch_stats past; /* of its lives before this one */
	uint32_t restarts;
	/* Trees of multicast groups, by number of the group's address. */
	uint32_t *tree;
};

/* An aggregator on `node`.  False: out of memory, or the configuration is not sane. */
bool fan_aggregator_init(struct fan_aggregator *a, struct fan_sim *s, uint32_t node,
			 const struct fan_switch_config *cfg, bool own, uint64_t sample_ns);
void fan_aggregator_free(struct fan_aggregator *a);

/* The process ends and, after `down_ns`, begins again, knowing nothing. */
void fan_aggregator_restart(struct fan_aggregator *a, uint64_t down_ns);

/* Its counters, over all its lives. */
struct fan_switch_stats fan_aggregator_stats(const struct fan_aggregator *a);

/* Contributions that arrived, added or not. */
uint64_t fan_aggregator_offered(const struct fan_switch_stats *st);

#endif
