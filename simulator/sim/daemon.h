/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - a process that sums: a switch daemon, or a server that stands in for one.
 *
 * It does what src/net does around a fan_node, whether that is an aggregator, slots that jobs
 * share, or both, and watches their slots.  It sends what each datagram leads to before it
 * takes the next one. */
#ifndef FAN_SIM_DAEMON_H
#define FAN_SIM_DAEMON_H

#include "core/node/node.h"
#include "series.h"
#include "world.h"

struct fan_sim_daemon {
	struct fan_sim *sim;
	uint32_t actor;
	bool own; /* a host: what it sends waits in its sockets, it is not dropped */
	struct fan_node_config cfg;
	struct fan_node *node;		   /* NULL: not begun */
	struct fan_aggregator *aggregator; /* part of the node; NULL: it has none */
	struct fan_switch *slots;
	struct fan_out out;
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* datagrams */
	/* sent to an address that nobody has; always 0 */
	uint64_t unheard;
	/* the aggregator's slots over time; those that are shared.  NULL: not here */
	struct fan_series *sums, *shares;
	uint64_t down_until_ns;		/* hears nothing until then */
	struct fan_route_config *route; /* what a controller installs in each life */
	uint32_t routes;
	struct { /* what its lives before this one counted */
		struct fan_aggregator_stats aggregator;
		struct fan_switch_stats slots;
		struct fan_node_stats node;
	} past;
	uint32_t restarts;
	/* of multicast groups, by number of the group's address; NULL: no aggregator */
	uint32_t *tree;
};

/* A daemon on `node`, without memory until it is begun.  False: out of memory. */
bool fan_sim_daemon_init(struct fan_sim_daemon *d, struct fan_sim *s, uint32_t node);

/* It begins; slots.spares is filled in.  False: out of memory, or the configuration is not
 * sane. */
bool fan_sim_daemon_begin(struct fan_sim_daemon *d, const struct fan_node_config *cfg, bool own,
			  uint64_t sample_ns);
void fan_sim_daemon_free(struct fan_sim_daemon *d);

/* It has these routes from now on, which it frees in the end.  False: it refuses one. */
bool fan_sim_daemon_route(struct fan_sim_daemon *d, struct fan_route_config *route,
			  uint32_t routes);

/* The process ends and, after `down_ns`, begins again, knowing nothing but its routes. */
void fan_sim_daemon_restart(struct fan_sim_daemon *d, uint64_t down_ns);

/* What a packet needs of the daemon `self`: capacity if a route of it has it summed here, and order
 * if it has a number of such a route.  (A fan_sim_chooser.) */
enum fan_sim_need fan_sim_daemon_needs(const void *self, const struct fan_sim_packet *p);

/* Counters over all its lives: of a part that it has, and of what passes between both. */
struct fan_aggregator_stats fan_sim_daemon_aggregator(const struct fan_sim_daemon *d);
struct fan_switch_stats fan_sim_daemon_slots(const struct fan_sim_daemon *d);
struct fan_node_stats fan_sim_daemon_between(const struct fan_sim_daemon *d);

/* Contributions that arrived at an aggregator, added or not. */
uint64_t fan_sim_offered(const struct fan_aggregator_stats *st);

/* Parts that arrived to be summed in shared slots, and those that were. */
uint64_t fan_sim_slots_offered(const struct fan_switch_stats *st);
uint64_t fan_sim_slots_added(const struct fan_switch_stats *st);

#endif
