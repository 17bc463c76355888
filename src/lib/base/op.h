/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - an operation that a caller has started, and its result.
 *
 * Made and freed by callers, ended once by the communicator.  It has its own lock, so
 * that it outlives the communicator, and a waiter is woken for its own operation only. */
#ifndef FAN_LIB_BASE_OP_H
#define FAN_LIB_BASE_OP_H

#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "config.h"
#include "core/worker/worker.h"
#include "plan_msg.h"
#include "trace.h"

#define FAN_OP_NOWHERE	 UINT64_MAX
#define FAN_OP_EXACT_MAX 256 /* elements that never travel in eight bits */

/* Whose an operation is, and so what follows from its end. */
enum fan_op_kind {
	FAN_OP_CALLERS, /* a caller's: the statistics count it */
	FAN_OP_MEMBER,	/* a caller's, of a set with a root on each rank (api/fanin.c) */
	FAN_OP_OWN,	/* of the library, which waits for it as a caller does */

	/* From here on made by the rank's thread, which frees it. */
	FAN_OP_MEASUREMENT, /* share_meter.c */
	FAN_OP_AGREEMENT,   /* regroup_agree.c */
	FAN_OP_OFFER,	    /* regroup_agree.c */
	FAN_OP_REST,	    /* a run of elements of another operation, summed anew */
};

static inline bool fan_op_is_callers(enum fan_op_kind kind)
{
	return kind == FAN_OP_CALLERS || kind == FAN_OP_MEMBER;
}

struct fanin_op {
	struct fanin_op *next; /* in the communicator's queue */
	enum fan_op_kind kind;
	struct fan_op op;	     /* before it is cut into one part for each connection */
	uint64_t number;	     /* among all that were started, if is_counted */
	bool is_counted;	     /* it has a number, though it may be on no connection yet */
	bool is_whole;		     /* of a FAN_OP_MEMBER: part `home` has all of it */
	uint8_t home;		     /* if is_whole */
	struct fanin_op *whole;	     /* of a FAN_OP_REST: the operation whose rest it is */
	unsigned rests;		     /* its rests that have not ended */
	uint64_t id[FAN_SHARDS_MAX]; /* its number on each connection; FAN_OP_NOWHERE: not there */
	unsigned connections;	     /* on which it has been started */
	unsigned connections_done;   /* the first of them that are known to be done */
	atomic_int result;	     /* FAN_E_PENDING, FAN_OK or an error */
	void (*notify)(void *arg);   /* of its arguments */
	void *notify_arg;
	struct fan_trace *trace; /* NULL: nobody traces, and trace_id to traced are unused */
	uint64_t trace_id;
	const char *trace_name;
	uint64_t begun_ns, started_ns;	      /* by the caller; on all connections */
	uint64_t traced[FAN_SHARDS_MAX / 64]; /* connections whose part has been */
	void *set;			      /* of its members (api/fanin.c); NULL: none */
	void (*free_set)(void *set);
	pthread_mutex_t lock; /* for `ended` */
	pthread_cond_t ended; /* CLOCK_MONOTONIC */
};

/* First in, first out. */
struct fan_op_queue {
	struct fanin_op *head, *tail;
	unsigned count;
};

/* Arguments of the public functions; `in` is also the buffer of a broadcast. */
struct fan_op_args {
	enum fan_redop op;
	bool reduce;
	const void *in;
	void *out;
	size_t count;
	int dtype;
	int root;      /* broadcast and reduce */
	uint16_t mark; /* enum fan_mark; the communicator adds its own */
	enum fan_op_kind kind;
	/* Eight bits on the wire: 0: as the configuration has it; 1: yes, -1: no, since this is a
	 * share of an operation for which that has been chosen. */
	int8_t blocks;
	float *error;  /* of the core's operation; NULL: not wanted */
	bool attended; /* its caller does this rank's work until it has ended (host_comm.h) */

	/* Called by the thread that ends the operation, after its end; may be NULL. */
	void (*notify)(void *arg);
	void *notify_arg;
};

/* Check arguments and make an operation of the core.  FAN_OK or FAN_E_INVALID. */
int fan_op_check(struct fan_op *op, const struct fan_op_args *args, const struct fan_config *cfg);

/* The elements of a connection: share `shard` of `shards` of those from `first` to `end`. */
struct fan_cut {
	uint64_t first, end;
	unsigned shard, shards;
};

/* The part of `op` that `cut` gives.  Shard i of m elements begins at floor(m i / shards). */
struct fan_op fan_op_part(const struct fan_op *op, const struct fan_cut *cut);

/* A pending operation; NULL: out of memory. */
struct fanin_op *fan_op_new(const struct fan_op *what, enum fan_op_kind kind);

/* An all-reduce of the rank's thread: `count` words of type `dtype`, in place; NULL: out of memory.
 */
struct fanin_op *fan_op_new_own(enum fan_op_kind kind, enum fan_redop redop, enum fan_dtype dtype,
				size_t count, void *words);

/* From here on the operation is traced; `is_column`: it is one between hosts, for an operation of
 * the caller. */
void fan_op_trace(struct fanin_op *op, struct fan_trace *t, bool is_column);

/* Return its name: "allreduce"; for one that the library has started, its purpose. */
const char *fan_op_name(const struct fanin_op *op);

/* End the operation and wake its waiters.  The caller may have freed it when this returns. */
void fan_op_end(struct fanin_op *op, int result);

void fan_op_queue_add(struct fan_op_queue *q, struct fanin_op *op);
struct fanin_op *fan_op_queue_take(struct fan_op_queue *q);

void fan_op_queue_put_first(struct fan_op_queue *q, struct fanin_op *op);

/* Move all of `from` behind `to`. */
void fan_op_queue_move(struct fan_op_queue *to, struct fan_op_queue *from);

#endif
