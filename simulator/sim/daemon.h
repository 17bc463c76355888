/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - a process that sums: a switch daemon, or a server.
 *
 * It does what src/net does around a fan_node, which is an aggregator, slots that jobs share, or
 * both, and it samples their slots.  It sends a datagram's answers before it takes the next one. */
#ifndef FAN_SIM_DAEMON_H
#define FAN_SIM_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/node/node.h"
#include "world.h"

/* Figures over time, in bounded memory: samples are taken at a fixed interval; when there are
 * FAN_SERIES_MAX of them, each pair becomes one and the interval doubles. */
#define FAN_SERIES_MAX 512

/* The first two are present values, the others counts since the start. */
enum fan_series_figure {
	FAN_SERIES_USED,    /* slots that hold a sum */
	FAN_SERIES_LENT,    /* slots that jobs hold */
	FAN_SERIES_OFFERED, /* contributions that arrived */
	FAN_SERIES_ADDED,   /* contributions that were added */
	FAN_SERIES_RESULTS, /* fragments finished */
	FAN_SERIES_COLLISIONS,
	FAN_SERIES_PREEMPTIONS,
	FAN_SERIES_EVICTIONS,
	FAN_SERIES_FLUSHES,
	FAN_SERIES_RX_BYTES,
	FAN_SERIES_FIGURES
};

struct fan_series {
	uint64_t start_ns, interval_ns, next_ns;
	uint32_t count;
	/* Sums over the `weight` samples that an entry stands for, and the last of these. */
	uint64_t sum[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint64_t last[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint32_t weight[FAN_SERIES_MAX];
};

struct fan_sim_daemon {
	struct fan_sim *sim;
	uint32_t actor;
	bool own; /* a host: its packets wait in its sockets and are not dropped */
	struct fan_node_config cfg;
	struct fan_node *node;		   /* NULL: it has not begun */
	struct fan_aggregator *aggregator; /* part of the node; NULL: the node has none */
	struct fan_switch *slots;
	struct fan_out out;
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes; /* datagrams */
	/* datagrams to an address that no actor has; always 0 */
	uint64_t unheard;
	/* samples of the aggregator's slots, and of shared ones; NULL: it has none */
	struct fan_series *sums, *shares;
	uint64_t down_until_ns;		/* drops what arrives before then */
	struct fan_route_config *route; /* what a controller installs at the start of each life */
	uint32_t routes;
	struct fan_sim_counters {
		struct fan_aggregator_stats aggregator;
		struct fan_switch_stats slots;
		struct fan_node_stats node; /* traffic between these */
		/* Contributions that arrived at the aggregator, whether they were added or not;
		 * those that arrived for shared slots, and those that were added there. */
		uint64_t offered, slots_offered, slots_added;
	} past; /* of all lives before this one */
	uint32_t restarts;
	/* trees of multicast groups, by group number; NULL: no aggregator */
	uint32_t *tree;
};

/* Make a daemon on `node`, which takes no memory until it begins.  False: out of memory. */
bool fan_sim_daemon_init(struct fan_sim_daemon *d, struct fan_sim *s, uint32_t node);

/* Begin; slots.spares is filled in.  False: out of memory, or an invalid configuration. */
bool fan_sim_daemon_begin(struct fan_sim_daemon *d, const struct fan_node_config *cfg, bool own,
			  uint64_t sample_ns);
void fan_sim_daemon_free(struct fan_sim_daemon *d);

/* Install these routes, which the daemon frees in the end.  False: it refuses one. */
bool fan_sim_daemon_route(struct fan_sim_daemon *d, struct fan_route_config *route,
			  uint32_t routes);

/* End the process and begin again after `down_ns`, with nothing but its routes. */
void fan_sim_daemon_restart(struct fan_sim_daemon *d, uint64_t down_ns);

/* Counters over all lives. */
struct fan_sim_counters fan_sim_daemon_counters(const struct fan_sim_daemon *d);

#endif
