/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - background traffic: packets that take room on links and are thrown away. */
#ifndef FAN_SIM_TRAFFIC_H
#define FAN_SIM_TRAFFIC_H

#include "world.h"

struct fan_traffic {
	struct fan_sim *sim;
	uint32_t source, sink; /* actors */
	uint64_t gap_ps, next_ps, stop_ns;
	uint32_t jitter; /* millionths of the gap */
	uint16_t packet_bytes;
	struct fan_rng rng;
	uint64_t sent, arrived; /* packets */
};

struct fan_traffic_config {
	uint32_t from, to; /* nodes */
	uint64_t bps, start_ns, stop_ns;
	uint16_t packet_bytes;
	uint32_t jitter;
};

/* False: out of memory. */
bool fan_traffic_init(struct fan_traffic *t, struct fan_sim *s, const struct fan_traffic_config *c,
		      struct fan_rng rng);

#endif
