/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - nodes that drive the real core objects, and watch them.
 *
 * A host does what src/net and src/lib do around the core, and checks what any caller
 * may rely on: every item is a well-formed packet to somebody, every dropped packet is
 * counted, a tick leaves the deadline in the future, and finished operations are
 * right. */
#ifndef TEST_SIM_HOST_H
#define TEST_SIM_HOST_H

#include "core/node/node.h"
#include "core/worker/worker.h"
#include "seal/gate.h"
#include "seal/rank.h"
#include "sim.h"
#include "tensor.h"

#define HOST_OPS_MAX 80
#define HOST_LIVES   2

/* A switch daemon: an aggregator, or slots between workers or switches below and its node's
 * `up`. */
struct host_node {
	struct sim *sim;
	int node;
	struct fan_node_config cfg;
	struct fan_node *core;
	struct fan_aggregator *aggregator; /* of `core`; NULL: not here */
	struct fan_switch *slots;
	struct fan_gate *gate;	/* NULL: jobs are open */
	uint64_t refused;	/* packets that it dropped, in all lives */
	uint64_t packets;	/* received, in all its lives */
	uint64_t dropped;	/* packets with verdict DROP in this life */
	uint64_t down_until_ns; /* receives nothing until then */
	uint64_t restart_at;	/* results, of slots packets, after which it restarts; 0: never */
	bool (*may_restart)(void *arg); /* NULL: it may */
	void *may_restart_arg;
	unsigned restarts;
	struct host_route {
		struct fan_route_config config;
		struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	} * route; /* that it has, or gets after a while in a later life */
	unsigned routes;
	uint64_t routes_ns;	     /* when; 0: they are there */
	uint32_t mark;		     /* of slots: chance that a packet has met congestion */
	struct fan_switch_stats sum; /* over its lives, complete after host_node_free */
};

/* One life of a job: what its ranks do, and what they have found. */
struct host_job {
	struct fan_worker_config cfg; /* but rank and nonce */
	unsigned ops;
	struct tensor_op op[HOST_OPS_MAX];
	unsigned begun[HOST_OPS_MAX];  /* ranks that started it */
	uint8_t *result[HOST_OPS_MAX]; /* of the first rank that finished it */
	unsigned depth;		       /* operations in flight */
	uint64_t start_ns, spread_ns;  /* when ranks join */
	uint32_t pause, pause_ms;      /* chance and length of a pause before an operation */
	bool exact;		       /* no liar among the ranks */
	bool runs;		       /* all ranks ask for runs; otherwise half of them */
	unsigned priorities;	       /* operations have one of so many; 0: none */
	struct host_job *next;	       /* the next life, begun when this one has ended */
};

/* How a life of a rank ended. */
struct host_end {
	bool over;
	int err; /* FAN_OK: all operations finished */
	uint64_t at_ns;
	struct fan_fault fault;
};

struct host_worker {
	struct sim *sim;
	int node;
	struct host_job *job;
	uint16_t rank;
	void *mem;
	struct fan_worker *core;
	struct fan_seal_rank seal; /* sim->sealed */
	uint16_t route;		   /* by which it joins */
	uint16_t first,
		ranks; /* in a tree: ranks that join where it does; 0 ranks: all of the job */
	struct tensor tensor[HOST_OPS_MAX];
	uint64_t id[HOST_OPS_MAX];
	bool finished[HOST_OPS_MAX];
	unsigned begun, done;
	uint64_t next_ns;    /* when it begins its next operation, or leaves */
	uint64_t heard;	     /* packets */
	uint64_t dropped;    /* packets with verdict DROP in this life */
	unsigned room_items; /* of its fan_out */
	unsigned life;
	struct fan_helper_cache_stats cache; /* of its last life, after host_worker_free */
	bool leaving, gone, dead;
	struct host_end end[HOST_LIVES];
	/* What a story asks of it. */
	unsigned stop_before;	       /* begins no operation from this one on */
	unsigned leave_before;	       /* leaves instead of beginning this one */
	const struct tensor_op *other; /* begins this... */
	unsigned other_at;	       /* ...as operation number */
};

/* An aggregator on a new node, the first one: SIM_SWITCH. */
void host_aggregator_init(struct host_node *h, struct sim *s,
			  const struct fan_aggregator_config *cfg);
/* The same as a new node that has the node `up`, its parent or the way to it, above it. */
void host_aggregator_init_below(struct host_node *h, struct sim *s, const struct sim_link *link,
				const struct fan_aggregator_config *cfg, int up);

/* Slots on a new node below the node `up`. */
void host_switch_init(struct host_node *h, struct sim *s, const struct sim_link *link,
		      const struct fan_switch_config *cfg, int up);
void host_node_free(struct host_node *h);

/* It has this route from now on, at most cfg.routes of them; it has it no more. */
void host_switch_add_route(struct host_node *h, const struct fan_route_config *c);
void host_switch_drop_route(struct host_node *h, uint16_t number);

/* A new node that is `rank` of `job` and begins at job->start_ns. */
void host_worker_init(struct host_worker *h, struct sim *s, const struct sim_link *link,
		      struct host_job *job, uint16_t rank);
void host_worker_free(struct host_worker *h);

/* It goes by another route; its node's `up` has been changed. */
void host_worker_reroute(struct host_worker *h, uint16_t route);

/* It joins where `ranks` ranks do, the lowest of which is `first`. */
void host_worker_join_few(struct host_worker *h, uint16_t first, uint16_t ranks);

/* The process is gone: it neither sends nor hears. */
void host_worker_kill(struct host_worker *h);

void host_job_free(struct host_job *j);

#endif
