/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - one thread of a switch: a socket, a node and the loop between them.
 *
 * Whatever a receive brings in is processed whole, and what it releases leaves in as few
 * calls as possible.  The thread blocks when there is nothing to do; it never spins. */
#ifndef FAN_SHARD_H
#define FAN_SHARD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/node/node.h"
#include "logline.h"
#include "udp.h"

#define FAN_SHARD_BATCHES 8 /* receives, 64 KiB each at most, before results leave */
#define FAN_SHARD_ITEMS	  256
#define FAN_SHARD_SCRATCH (32 * 1024) /* bodies of control messages in one flush */

/* Where lines go: shared by all shards. */
struct fan_shard_log {
	pthread_mutex_t lock; /* holds while `line` runs */
	void (*line)(void *ctx, const char *line);
	void *ctx;
};

/* What another thread wants of a shard's node.  The shard does it between two rounds. */
enum fan_shard_wish { FAN_SHARD_ROUTE, FAN_SHARD_UNROUTE, FAN_SHARD_HEALTH };

struct fan_shard_health {
	uint64_t packets, hits, passed, collisions, drops; /* hits..: of the slots */
	uint64_t results;				   /* of the aggregator */
	unsigned jobs;
	struct fan_slot_stats slot_stats[FAN_JOBS_MAX]; /* slots alone: by job */
	struct fan_report report[FAN_JOBS_MAX];		/* an aggregator: by job */
};

struct fan_shard_request {
	enum fan_shard_wish wish;
	const struct fan_route_config *route; /* ROUTE */
	uint16_t number;		      /* UNROUTE */
	struct fan_shard_health *health;      /* HEALTH: where to */
	int err;			      /* ROUTE: enum fan_err */
};

struct fan_shard {
	struct fan_node *node;		   /* the thread's alone once it runs... */
	struct fan_aggregator *aggregator; /* ...with its parts, NULL: not here */
	struct fan_switch *slots;
	struct fan_node_config cfg;
	unsigned mark_percent; /* of the receive buffer: fuller, and what comes is marked; 0: never
				*/
	uint64_t marked;       /* datagrams that were, here or on their way */
	bool told_too_long;
	struct fan_udp udp;
	unsigned index;
	struct fan_shard_log *log;
	int epoll_fd, wake_fd;
	atomic_bool stop, dump, drain; /* set by others, then wake_fd is written */
	sem_t empty;		       /* posted when drain is set and there is no job */
	_Atomic(struct fan_shard_request *) asked; /* then wake_fd is written; NULL: none */
	sem_t answered;				   /* posted when it is done */
	pthread_t thread;
	bool running;
	struct fan_out out;
	struct fan_out_item item[FAN_SHARD_ITEMS];
	uint8_t scratch[FAN_SHARD_SCRATCH];
	/* What is received before all is sent.  Slots send parts on as they lie in here, so each
	 * receive has a place of its own; an aggregator copies, and uses the first, which is in
	 * cache. */
	uint8_t in[FAN_SHARD_BATCHES][FAN_UDP_RECV_BYTES];
};

/* Make shard `index`: a socket on `o->bind`, memory for `cfg`, whose aggregator.rx_bytes follows
 * from what the socket was granted.  0 and `*shard`; or -errno. */
int fan_shard_new(struct fan_shard **shard, unsigned index, const struct fan_udp_options *o,
		  const struct fan_node_config *cfg, unsigned mark_percent,
		  struct fan_shard_log *log);

/* Start its thread, with all signals blocked.  0, or -errno. */
int fan_shard_start(struct fan_shard *s);

/* Let the thread log its jobs and counters. */
void fan_shard_dump(struct fan_shard *s);

/* Let the thread look out for the moment when it has no job; then wait for that moment,
 * until `by_ns` at most.  True: it came. */
void fan_shard_drain(struct fan_shard *s);
bool fan_shard_drained(struct fan_shard *s, uint64_t by_ns);

/* Have the thread, which runs, do what is asked, and wait for it.  One caller at a time. */
void fan_shard_ask(struct fan_shard *s, struct fan_shard_request *r);

/* Stop the thread if it runs, and free all.  NULL is allowed. */
void fan_shard_free(struct fan_shard *s);

#endif
