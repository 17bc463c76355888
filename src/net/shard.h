/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - one thread of a daemon: a socket, a node and the loop between them.
 *
 * All datagrams of a receive are handled before items are sent, in as few calls as possible.
 * The thread blocks when there is nothing to do; it never spins. */
#ifndef FAN_SHARD_H
#define FAN_SHARD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/node/node.h"
#include "logline.h"
#include "mtu_probe.h"
#include "seal/gate.h"
#include "udp.h"

#define FAN_SHARD_BATCHES 8 /* receives of at most 64 KiB between two sends */
#define FAN_SHARD_ITEMS	  256
#define FAN_SHARD_SOCKETS 64	      /* at most, where the kernel grants small receive buffers */
#define FAN_SHARD_SCRATCH (32 * 1024) /* bytes of control messages between two sends */

/* The log, shared by all shards. */
struct fan_shard_log {
	pthread_mutex_t lock; /* held while `line` runs */
	void (*line)(void *ctx, const char *line);
	void *ctx;
};

/* Requests of another thread to a shard's node, handled between two rounds. */
enum fan_shard_wish {
	FAN_SHARD_ROUTE,
	FAN_SHARD_UNROUTE,
	FAN_SHARD_HEALTH,
	FAN_SHARD_KEYS, /* jobs keep the keys that they have */
	FAN_SHARD_DUMP, /* log what every job waits for, and the counters, as on SIGUSR1 */
	FAN_SHARD_RINGS
};

struct fan_shard_health {
	bool has_slots, has_aggregator;
	/* Traffic of all sockets of a shard, and what it costs. */
	struct fan_shard_traffic {
		uint64_t datagrams_in, bytes_in, receives;
		uint64_t datagrams_out, bytes_out, sends;
		uint64_t send_drops; /* datagrams that could not be sent */
		uint64_t marked;     /* datagrams that came with a congestion mark, or got one */
		uint64_t lost; /* between switch and aggregator of the node, for lack of room */
		uint64_t overflows;	  /* of the sockets' receive queues */
		struct fan_inlets inlets; /* of all sockets, if they count it */
		uint64_t cpu_ns;	  /* processor time of the thread */
		bool sealed;		  /* jobs here are */
		uint64_t forged;	  /* sealed packets whose tag or MAC was wrong */
		uint64_t replayed;	  /* sealed packets that had come before */
		uint64_t clear;		  /* packets without a seal, with JOINs that were refused */
	} traffic;
	struct fan_switch_stats slots;		/* has_slots */
	struct fan_aggregator_stats aggregator; /* has_aggregator */
	unsigned jobs;				/* of the aggregator, or of a switch alone */
	uint64_t packets;			/* of the object that packets reach first */
	unsigned slot_jobs;
	struct fan_slot_stats slot_stats[FAN_JOBS_MAX]; /* slot_jobs of them */
	struct fan_report report[FAN_JOBS_MAX];		/* has_aggregator: jobs of them */
};

struct fan_shard_request {
	enum fan_shard_wish wish;
	const struct fan_route_config *route; /* ROUTE */
	uint16_t number;		      /* UNROUTE */
	struct fan_shard_health *health;      /* HEALTH: the answer */
	const struct fan_keys *keys;	      /* KEYS: for JOINs from now on; the shard is sealed */
	struct fan_ring_pair *pair;	      /* RING_PAIR: the shard's from now on, unless `err` */
	const fan_peer *local; /* RING_PAIR: the shard's address that the rank sends to */
	int err;	       /* ROUTE, RING_PAIR: enum fan_err */
};

struct fan_shard {
	struct fan_node *node;		   /* used by the thread alone once it runs */
	struct fan_aggregator *aggregator; /* of the node; NULL: none */
	struct fan_switch *slots;
	struct fan_node_config cfg;
	struct fan_gate *gate; /* NULL: jobs here are open */
	/* fill of the receive buffer above which datagrams are marked; 0: never */
	unsigned mark_percent;
	uint64_t marked;	    /* datagrams with a congestion mark */
	bool told_too_long;	    /* the log has a datagram beyond the path MTU */
	struct fan_mtu_probe above; /* of the path to cfg.above, while there are jobs */
	uint64_t above_look_ns;	    /* when to look for jobs again */
	bool above_loses;	    /* the path loses large datagrams, as ranks learn */
	bool above_passed;	    /* it has taken one since */
	/* All are on one address.  The first sends; rank r sends to number r modulo `sockets`, so
	 * that each of them has a receive buffer for a few ranks only. */
	struct fan_udp udp[FAN_SHARD_SOCKETS];
	unsigned sockets;
	unsigned index;
	struct fan_shard_log *log;
	int epoll_fd, wake_fd;
	atomic_bool stop, drain;   /* set by others, then wake_fd is written */
	bool draining;		   /* of the thread: the aggregator knows */
	struct fan_drain drain_of; /* written before drain */
	sem_t empty;		   /* posted when drain is set and none of these jobs is left */
	pthread_mutex_t asking;	   /* held from a request to its answer */
	_Atomic(struct fan_shard_request *) asked; /* then wake_fd is written; NULL: none */
	sem_t answered;				   /* posted when it is done */
	_Atomic uint64_t heard_ns;		   /* of the last packet of a socket; 0: none */
	pthread_t thread;
	bool running;
	struct fan_out out;
	struct fan_out_item item[FAN_SHARD_ITEMS];
	uint8_t scratch[FAN_SHARD_SCRATCH];
	/* Buffers of receives between two sends.  A switch sends contributions on from them, so
	 * each receive has its own; an aggregator copies, and uses only the first, which stays in
	 * the CPU's cache. */
	uint8_t in[FAN_SHARD_BATCHES][FAN_UDP_RECV_BYTES];
};

/* Whose jobs a shard seals, and with what. */
struct fan_seal_options {
	struct fan_keys keys; /* none: jobs are open */
	bool of_tenant;	      /* the keys are a tenant's, not the fabric's */
};

/* Make shard `index`: a socket on `o->bind`, or up to `sockets` if the kernel grants less than
 * o->buffer_bytes, and a node of `cfg`, whose aggregator.rx_bytes and rx_queues are set from what
 * is granted.  0 and `*shard`; or -errno. */
int fan_shard_new(struct fan_shard **shard, unsigned index, const struct fan_udp_options *o,
		  unsigned sockets, const struct fan_node_config *cfg,
		  const struct fan_seal_options *seal, unsigned mark_percent,
		  struct fan_shard_log *log);

/* Start its thread, with all signals blocked.  0, or -errno. */
int fan_shard_start(struct fan_shard *s);

/* Make the thread watch for a moment without jobs; then wait for that moment, at most until
 * `by_ns`.  True: it came. */
void fan_shard_drain(struct fan_shard *s, const struct fan_drain *of);

/* Send a request to the running thread and wait for its answer.  From any thread. */
void fan_shard_ask(struct fan_shard *s, struct fan_shard_request *r);

/* Stop the thread if it runs, and free all.  NULL is allowed. */
void fan_shard_free(struct fan_shard *s);

/* ---- shard_log.c: lines of the log, and its health ---- */

/* Log the aggregator's events; with `jobs`, what each job waits for, and the counters. */
void fan_shard_log_events(struct fan_shard *s);
void fan_shard_log_counters(struct fan_shard *s, bool jobs);

/* Log, once, that datagrams were too long for a path; that the path to the next hop loses large
 * ones. */
void fan_shard_log_too_long(struct fan_shard *s);
void fan_shard_log_above(struct fan_shard *s);

void fan_shard_fill_health(const struct fan_shard *s, struct fan_shard_health *h);

#endif
