/* SPDX-License-Identifier: Apache-2.0 */
/* sharer.h - a process with slots that all jobs share: a switch daemon of policy atp or esa.
 *
 * It does what src/net does around a fan_shared, and watches its slots.  What completes its
 * sums is elsewhere: a server, another sharer, or an aggregator on the same node. */
#ifndef FAN_SIM_SHARER_H
#define FAN_SIM_SHARER_H

#include "core/shared.h"
#include "series.h"
#include "world.h"

struct fan_sharer {
	struct fan_sim *sim;
	uint32_t actor;
	struct fan_shared_config cfg;
	void *mem;
	struct fan_shared *core;
	struct fan_out out;
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* datagrams */
	uint64_t unheard; /* sent to an address that nobody has; always 0 */
	struct fan_series series;
	uint64_t down_until_ns;		/* hears nothing until then */
	struct fan_route_config *route; /* what a controller installs in each life */
	uint32_t routes;
	struct fan_shared_stats past; /* of its lives before this one */
	uint32_t restarts;
};

/* A sharer on `node`, without memory until it is begun.  False: out of memory. */
bool fan_sharer_init(struct fan_sharer *h, struct fan_sim *s, uint32_t node, uint64_t sample_ns);

/* It begins; cfg->home is the address of who is next on the way up.  False: out of memory, or
 * the configuration is not sane. */
bool fan_sharer_begin(struct fan_sharer *h, const struct fan_shared_config *cfg);
void fan_sharer_free(struct fan_sharer *h);

/* It has these routes from now on, which it frees in the end.  False: it refuses one. */
bool fan_sharer_route(struct fan_sharer *h, struct fan_route_config *route, uint32_t routes);

/* The process ends and, after `down_ns`, begins again, knowing nothing but its routes. */
void fan_sharer_restart(struct fan_sharer *h, uint64_t down_ns);

/* Is this a part that a route of the sharer `self` has summed here?  (A fan_sim_chooser.) */
bool fan_sharer_sums(const void *self, const struct fan_sim_packet *p);

/* Its counters, over all its lives. */
struct fan_shared_stats fan_sharer_stats(const struct fan_sharer *h);

/* Parts that arrived to be summed, and those that were. */
uint64_t fan_sharer_offered(const struct fan_shared_stats *st);
uint64_t fan_sharer_added(const struct fan_shared_stats *st);

#endif
