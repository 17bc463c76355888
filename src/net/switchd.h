/* SPDX-License-Identifier: Apache-2.0 */
/* switchd.h - a running switch: shards of the core on threads, one UDP port each.
 *
 * Shard i listens on port + i and is a node of its own, node.h; nothing is shared.
 * Used by `fanin switch`, by `fanin bench --local` and by the library when rank 0
 * starts one itself.  Never prints: what happens is told to a callback. */
#ifndef FAN_SWITCHD_H
#define FAN_SWITCHD_H

#include "core/node/node.h"

/* Multicast results go to this port unless another is asked for.  It is one for all
 * shards and switches, since their groups differ, and never one that a switch listens on:
 * a worker on the switch's own host could not bind it beside a wildcard address. */
#define FAN_SWITCHD_GROUP_PORT 23846

#define FAN_SWITCHD_AGGREGATOR_SLOTS                                                               \
	16384 /* of an aggregator that completes what others could not */
#define FAN_SWITCHD_AHEAD_SHARE                                                                    \
	8 /* of an aggregator's slots: by so much ranks may run ahead, else */
#define FAN_SWITCHD_MARK_PERCENT 50 /* of its receive buffer: congestion, unless told otherwise */

struct fan_switchd;

struct fan_switchd_options {
	fan_peer listen;		   /* port 0: any (then threads = 1) */
	struct fan_aggregator_config core; /* for each shard: the aggregator; shards, epoch,
					    * rx_bytes, nonce, group_family and group_base are
					    * filled in, group_port if it  is 0 */
	fan_peer parent;		   /* of aggregators with siblings; of shard 0 */
	bool shared;			   /* slots that jobs share, in front of the aggregator */
	struct fan_switch_config slots;	   /* for each shard, if `shared`; payload_bytes, shards,
					    * children_max and shares are the aggregator's */
	fan_peer server;       /* if `shared`: who is next on the way to the aggregator, shard 0 of
				* it; none: the aggregator is in here */
	bool routed;	       /* if `shared`: jobs have routes, slots.routes of them at most, and
				* the aggregator is never in here; without `server` there are no others */
	unsigned mark_percent; /* of a shard's receive buffer: what comes is marked when it
				* is fuller; 0: never */
	unsigned threads;      /* shards */
	bool no_multicast;
	bool plain;	  /* no UDP_SEGMENT, no UDP_GRO */
	int buffer_bytes; /* socket buffers */

	/* One structured line without a newline: "event=job_ready job=\"x\" ...".
	 * Called from the shards' threads, one at a time.  NULL: nobody listens. */
	void (*log)(void *ctx, const char *line);
	void *ctx;
};

/* How the start turned out. */
struct fan_switchd_facts {
	fan_peer address;   /* of shard 0 */
	fan_peer group;	    /* the first multicast group; none: results go by unicast */
	size_t memory;	    /* bytes for slots and jobs, all shards together */
	int sndbuf, rcvbuf; /* granted to each shard, bytes */
	bool segment, gro;  /* UDP_SEGMENT and UDP_GRO work */
};

/* Sensible values for every field: 4096 slots for MTU 1500 on 127.0.0.1, any port. */
void fan_switchd_defaults(struct fan_switchd_options *o);

/* Slots of an aggregator, over all its threads, that gives the ranks of a job `ahead` fragments on
 * each of them by which to run ahead: two for each, since fragments of half types may take
 * two, beside FAN_SWITCHD_AGGREGATOR_SLOTS; FAN_SLOTS_MAX at most. */
unsigned fan_switchd_aggregator_slots(unsigned ahead, unsigned threads);

/* Start the threads.  0 and `*d`; or a negative enum fan_err with a text in `why`. */
int fan_switchd_start(struct fan_switchd **d, const struct fan_switchd_options *o, char *why,
		      size_t bytes);

/* Where it listens: shard 0. */
fan_peer fan_switchd_address(const struct fan_switchd *d);

void fan_switchd_facts(const struct fan_switchd *d, struct fan_switchd_facts *facts);

/* Log what every job waits for, and the counters: what SIGUSR1 does.  Any thread; the
 * lines come soon, from the shards' threads. */
void fan_switchd_dump(struct fan_switchd *d);

/* Install a route in all shards, or in none; entries are those of shard 0, and shard i has
 * the same with ports that are i more.  Take one away.  By one thread at a time.
 *
 * FAN_E_INVALID, FAN_E_BUSY, FAN_E_SLOTS_FULL  as fan_switch_route has it */
int fan_switchd_route(struct fan_switchd *d, const struct fan_route_config *c);
void fan_switchd_unroute(struct fan_switchd *d, uint16_t number);

/* What a shard has done so far.  By the same thread as routes. */
struct fan_shard_health;
void fan_switchd_health(struct fan_switchd *d, unsigned shard, struct fan_shard_health *h);

/* Wait until no job is left, `ms` at most.  True: there was a moment without. */
bool fan_switchd_drain(struct fan_switchd *d, int ms);

/* In a child that fork() made: free all, and leave the parent's threads alone. */
void fan_switchd_abandon(struct fan_switchd *d);

/* Stop the threads, each of which logs its counters, and free all. */
void fan_switchd_stop(struct fan_switchd *d);

#endif
