/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - a running switch or server: shards of the core on threads, one UDP port each.
 *
 * Shard i listens on port + i and is a node of its own, node.h; nothing is shared.  Used by
 * `fanin switch`, `fanin server` and `fanin bench --local`, and by the library for an
 * embedded switch.  Never prints: a callback gets the log. */
#ifndef FAN_DAEMON_H
#define FAN_DAEMON_H

#include "core/node/node.h"
#include "seal/key_file.h"

/* Default port of multicast results.  It is one for all shards and daemons, since their groups
 * differ, and never one on which a daemon listens: a worker on the daemon's own host could not
 * bind it beside a wildcard address. */
#define FAN_DAEMON_GROUP_PORT 23846

#define FAN_DAEMON_AGGREGATOR_SLOTS 16384 /* of an aggregator behind switches */
#define FAN_DAEMON_SOCKETS_MAX	    256	  /* of all shards, but one for each */
#define FAN_DAEMON_AHEAD_SHARE	    8	/* default run-ahead: this part of an aggregator's slots */
#define FAN_DAEMON_GOODBYE_MS	    900 /* for which it waits for members after announcing its end */
#define FAN_DAEMON_MARK_PERCENT                                                                    \
	50 /* default fill of the receive buffer above which datagrams are marked */

struct fan_daemon;
struct fan_ring_pair;

struct fan_daemon_options {
	fan_peer listen; /* port 0: any (then threads = 1) */
	/* for each shard: the aggregator; shards, epoch, rx_bytes, nonce, group_family and
	 * group_base are filled in, group_port if it is 0 */
	struct fan_aggregator_config core;
	fan_peer parent; /* of aggregators with siblings; of shard 0 */
	bool has_slots;	 /* there is a switch, in front of the aggregator */
	/* for each shard, if `has_slots`; payload_bytes, shards and children_max are the
	 * aggregator's */
	struct fan_switch_config slots;
	/* if `has_slots`: shard 0 of the next hop; none: the aggregator is in this daemon */
	fan_peer server;
	/* if `has_slots`: there are up to slots.routes routes, and no aggregator; without `server`,
	 * jobs must have a route */
	bool routed;
	/* fill of a shard's receive buffer above which datagrams are marked; 0: never */
	unsigned mark_percent;
	unsigned threads;     /* shards */
	struct fan_keys keys; /* none: jobs are open */
	bool of_tenant;	      /* the keys are those of one tenant, and good for all job names */
	bool no_multicast;
	bool inlets;	  /* count what comes by each interface */
	int buffer_bytes; /* socket buffers */

	/* One structured line without a newline: "event=job_ready job=\"x\" ...".
	 * Called from the shards' threads, one at a time.  May be NULL. */
	void (*log)(void *ctx, const char *line);
	void *ctx;
};

/* Properties of a running daemon. */
struct fan_daemon_facts {
	fan_peer address;   /* of shard 0 */
	fan_peer group;	    /* first multicast group; none: results go by unicast */
	size_t memory;	    /* bytes for slots and jobs, all shards together */
	int sndbuf, rcvbuf; /* granted to each socket, bytes */
	unsigned shards;
	unsigned sockets;  /* of each shard: rank r sends to number r modulo this */
	bool segment, gro; /* UDP_SEGMENT and UDP_GRO work */
};

/* Set every field to its default: 4096 slots for MTU 1500 on 127.0.0.1, any port. */
void fan_daemon_defaults(struct fan_daemon_options *o);

/* Slots of an aggregator, over all its threads, for a run-ahead of `ahead` fragments on each: two
 * for each fragment, since half types may take two, beside FAN_DAEMON_AGGREGATOR_SLOTS; at most
 * FAN_SLOTS_MAX. */
unsigned fan_daemon_aggregator_slots(unsigned ahead, unsigned threads);

/* Start the threads.  0 and `*d`; or a negative enum fan_err with a text in `why`. */
int fan_daemon_start(struct fan_daemon **d, const struct fan_daemon_options *o, char *why,
		     size_t bytes);

/* The address of shard 0. */
fan_peer fan_daemon_address(const struct fan_daemon *d);

void fan_daemon_facts(const struct fan_daemon *d, struct fan_daemon_facts *facts);

/* All shards do the request, a DUMP, KEYS or UNROUTE, one after another.  From any thread; UNROUTE
 * by the one that installs routes. */
struct fan_shard_request;
void fan_daemon_ask(struct fan_daemon *d, struct fan_shard_request *r);

/* Install a route in all shards, or in none; the entries are for shard 0, and shard i adds i to
 * their ports.  By one thread at a time.
 *
 * FAN_E_INVALID, FAN_E_BUSY, FAN_E_SLOTS_FULL  see fan_switch_route */
int fan_daemon_route(struct fan_daemon *d, const struct fan_route_config *c);

/* Fill in the counters of one shard.  From any thread. */
struct fan_shard_health;
void fan_daemon_health(struct fan_daemon *d, unsigned shard, struct fan_shard_health *h);

/* Admit no more ranks that are not in a job, and wait until none of the jobs `of` is READY or has
 * FAILED, for at most `ms`.  True: that has happened. */
bool fan_daemon_drain(struct fan_daemon *d, const struct fan_drain *of, int ms);

/* Before it stops for good: inform the members of all jobs, refuse others, and wait until they have
 * gone, for FAN_DAEMON_GOODBYE_MS at most. */
void fan_daemon_goodbye(struct fan_daemon *d);

/* Wait until no socket has had a packet for `quiet_ms`, at most until `by_ns`.  Takes no lock, so
 * the threads that run when the process ends cannot block it. */
void fan_daemon_linger(const struct fan_daemon *d, int quiet_ms, uint64_t by_ns);

/* A rank in this process sends by `h` to shard `shard` at the address `local`. FAN_OK:
 * the daemon has it as well, and closes it; FAN_E_BUSY, FAN_E_SYSTEM.  From any thread. */
int fan_daemon_rings(struct fan_daemon *d, unsigned shard, struct fan_ring_pair *h,
		     const fan_peer *local);

/* In a child of fork(): free all, without stopping the parent's threads. */
void fan_daemon_abandon(struct fan_daemon *d);

/* Stop the threads, each of which logs its counters, and free all. */
void fan_daemon_stop(struct fan_daemon *d);

#endif
