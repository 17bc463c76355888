/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - the ranks of one host reduce in memory that they share.
 *
 * Operations are cut into chunks, at most FAN_HOST_DEPTH in progress.  Each rank copies its
 * elements of a chunk into the segment, except the ones that only it reads; when all have arrived,
 * rank i sums share i of the chunk, and adds what the same share is on the other hosts; when all
 * shares are summed, each rank copies the sum out, and when all have left, the place is free for
 * the chunk FAN_HOST_DEPTH later.  A small chunk is summed by each rank for itself, in the same
 * order, which saves a wait.  Ranks start the same operations in the same order, so they number
 * chunks alike; what each asks for stands beside its elements and is compared.
 *
 * The segment has no name: it is gone when the last process that maps it ends.  A place has
 * counters that only grow, so a rank that dies leaves no lock behind; the others find out from the
 * kernel (attach.h), or by its beats.  Used by one thread of each rank at a time; bells may be rung
 * by any. */
#ifndef FAN_LIB_HOST_SEGMENT_H
#define FAN_LIB_HOST_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/worker/worker.h"
#include "lib/base/fault_text.h"

#define FAN_HOST_DEPTH	     4		 /* chunks in progress */
#define FAN_HOST_CHUNK_BYTES (1 << 20)	 /* of accumulators, room for a chunk */
#define FAN_HOST_SHORT_BYTES (128 << 10) /* the shortest one that is not the last */
#define FAN_HOST_ALONE_BYTES (256 << 10) /* the longest one where hosts do not sum */
#define FAN_HOST_PART_BYTES  (64 << 10)	 /* else of each part of each column: a batch */
#define FAN_HOST_CHUNKS	     16	  /* or more of an operation, so that the last one is hidden */
#define FAN_HOST_SMALL_BYTES 4096 /* of accumulators: each rank sums for itself */
#define FAN_HOST_OPS_MAX     64	  /* started and not ended, of one rank */
#define FAN_HOST_OPS_KEPT    (FAN_HOST_OPS_MAX + 1) /* and the last one that has ended */
#define FAN_HOST_WHY_BYTES   256

/* A rank's request for a chunk. */
struct fan_host_desc {
	uint64_t left; /* elements of its operation from this chunk on */
	uint16_t root, mark;
	uint8_t op, dtype, reduce;
};

struct fan_host_place {
	_Alignas(64) _Atomic uint64_t arrived; /* ranks, over all chunks that have used the place */
	_Alignas(64) _Atomic uint64_t summed;
	_Alignas(64) _Atomic uint64_t left;
	_Atomic uint32_t wanted; /* a rank waits until all have left */
	_Alignas(64) struct fan_host_desc desc[FAN_HOST_RANKS_MAX];
};

/* A thread sleeps until it is rung. */
struct fan_host_bell {
	_Atomic uint32_t rings; /* futex */
	_Atomic uint32_t asleep;
};

enum fan_host_bell_name {
	FAN_HOST_WORK, /* for the thread that does the rank's work: something may have changed */
	FAN_HOST_CALL, /* for the one that waits for work, or for a question whether it lives */
	FAN_HOST_BELLS
};

struct fan_host_rank {
	_Alignas(64) struct fan_host_bell bell[FAN_HOST_BELLS];
	/* That it has beaten; 0: it has not come yet; UINT64_MAX: it has left.  A count, for
	 * processes may have different clocks (time namespaces). */
	_Atomic uint64_t beats;
	_Atomic uint32_t asked;		  /* somebody wants a beat */
	_Atomic uint64_t in, summed, out; /* chunks that it has copied in, summed, copied out */
	_Atomic uint64_t process;	  /* 0: not known yet (attach.h) */
	_Atomic uint32_t holds;		  /* its lock */
	_Atomic uint32_t joining;	  /* it has come, but may not have joined its column */
	_Atomic uint64_t gone;		  /* parts that its column has lost (lib/rank/regroup.c) */
	uint16_t rank;			  /* of the job */
};

struct fan_host_segment {
	uint64_t bytes;
	_Atomic uint32_t ranks, columns;
	_Atomic uint32_t joined;
	_Atomic uint32_t present; /* ranks that wait for all to have it (attach.c) */
	_Atomic uint32_t agreed;  /* what they have agreed on (attach.c); 0: nothing yet */
	_Atomic uint32_t given;	  /* to all */
	_Atomic int32_t error;	  /* 0; FAN_E_PENDING while `why` is written; or what ended all */
	char why[FAN_HOST_WHY_BYTES];
	int32_t cause;			 /* what other hosts get; 0: nothing */
	uint64_t blamed[FAN_RANK_WORDS]; /* with it: hosts */
	uint64_t lost[FAN_RANK_WORDS];	 /* with the error: ranks of the job that are to blame */
	struct fan_host_rank rank[FAN_HOST_RANKS_MAX];
	struct fan_host_place place[FAN_HOST_DEPTH];
	_Alignas(64) uint8_t data[]; /* of each place: the sum, then each rank's elements */
};

/* How shares travel to the other hosts and back.  Share i of each host is one rank of a job whose
 * ranks are the hosts. */
struct fan_host_net {
	unsigned hosts;
	unsigned host;	/* this one */
	unsigned parts; /* hosts that sum; 0: switches do, or there is no other host */

	/* Start `op` with the other hosts; fan_host_returned follows, in the order of starts. */
	bool (*start)(void *ctx, const struct fan_op *op);
	void *ctx;
};

/* An operation of this rank. */
struct fan_host_op {
	struct fan_op op;
	unsigned root_host; /* where op.root is a rank; 0 without other hosts */
	uint64_t first;	    /* its first chunk */
	uint64_t chunks;
};

struct fan_host_board {
	struct fan_host_segment *s;
	unsigned me, ranks, columns; /* the segment's values may change: do not trust them */
	unsigned job_ranks;	     /* that an average divides by */
	struct fan_host_op op[FAN_HOST_OPS_KEPT]; /* a ring: number i at op[i % KEPT] */
	uint64_t first_op, next_op;		  /* those before first_op have ended */
	uint64_t chunks;			  /* of all operations started so far */
	/* chunks: the next to copy in, to sum, to get from the other hosts, to copy out */
	uint64_t in, sum, net, out;
	/* the operations that these belong to, or those before them: first_op - 1 or more */
	uint64_t in_op, sum_op, net_op, out_op;
	struct fan_host_net with; /* hosts 0 or 1: no other host */
	uint64_t returned;	  /* shares that have come back, and are not counted as summed */
	bool broken;		  /* one has failed */
};

/* Bytes of the segment of `ranks` ranks, 1 .. FAN_HOST_RANKS_MAX. */
size_t fan_host_bytes(unsigned ranks);

/* Make it in `mem`, all of whose bytes are zero; aligned to 64.  Numbers 0 .. columns - 1 sum
 * shares: as many as on the other hosts. */
struct fan_host_segment *fan_host_init(void *mem, unsigned ranks, unsigned columns);

/* The segment's number of ranks, as far as there is room for them. */
static inline unsigned fan_host_ranks(const struct fan_host_segment *s)
{
	const unsigned ranks = atomic_load_explicit(&s->ranks, memory_order_relaxed);
	return ranks < FAN_HOST_RANKS_MAX ? ranks : FAN_HOST_RANKS_MAX;
}

/* Take part in it as number `me` of its ranks, rank `rank` of a job of `job_ranks`. */
void fan_host_open(struct fan_host_board *l, struct fan_host_segment *s, unsigned me, uint16_t rank,
		   unsigned job_ranks);

/* Is a segment of another process valid? */
bool fan_host_is_sane(const struct fan_host_segment *s, size_t bytes, unsigned ranks);

/* Start an operation whose root is number op->root of host `root_host`.  False: FAN_HOST_OPS_MAX
 * are in progress. */
bool fan_host_start(struct fan_host_board *l, const struct fan_op *op, unsigned root_host);

/* Fewer are in progress. */
bool fan_host_has_room(const struct fan_host_board *l);

/* The next chunk that it sums goes to the other hosts. */
bool fan_host_needs_net(struct fan_host_board *l);

/* The oldest operation that `with.start` has started has ended.  One that has failed is the last
 * that counts: those behind it may end well, but would be taken for its result. */
void fan_host_returned(struct fan_host_board *l, int result);

/* Do what can be done now.  True: something was done.  With an error in the segment nothing is. */
bool fan_host_work(struct fan_host_board *l);

/* With an error in the segment: end the operations to whose results nothing is missing.  Ranks that
 * have them may have left since, and that may be the error. */
void fan_host_finish(struct fan_host_board *l);

/* The blame for an end: ranks of the job; and for other hosts a cause, 0: they get none,
 * and hosts.  NULL: none. */
struct fan_host_blame {
	const uint64_t *lost;
	int cause;
	const uint64_t *hosts;
};

/* Number `me` ends it for all its ranks.  Only the first error counts. */
void fan_host_fail(struct fan_host_segment *s, unsigned me, int error, const char *why,
		   const struct fan_host_blame *blame);

/* The segment's end: a copy, which no other process changes. */
struct fan_host_end {
	char why[FAN_HOST_WHY_BYTES];
	int cause;
	uint64_t blamed[FAN_RANK_WORDS], lost[FAN_RANK_WORDS];
};

void fan_host_read_end(const struct fan_host_segment *s, struct fan_host_end *e);

/* The error that has ended it, or 0. */
int fan_host_error(const struct fan_host_board *l);

/* This rank asks for no more. */
void fan_host_leave(struct fan_host_board *l);

/* The ranks, by their numbers within the segment, that this rank waits for.  `*shares`: for their
 * shares, which may wait for other hosts. */
unsigned fan_host_missing(const struct fan_host_board *l, bool missing[FAN_HOST_RANKS_MAX],
			  bool *shares);

/* The bells of a segment (wait.c), and how the thread that does a rank's work waits for its own: by
 * yields of its core where those help the ranks that it waits for, otherwise asleep. */

/* Ring a bell of number `i`, or of all but `me`, from any thread. */
void fan_host_ring(struct fan_host_segment *s, unsigned i, enum fan_host_bell_name bell);
void fan_host_ring_others(struct fan_host_segment *s, unsigned me, enum fan_host_bell_name bell);

/* The number of rings of this rank's bell; sleep until it exceeds `heard`, `ms` at most. */
uint32_t fan_host_received(const struct fan_host_board *l, enum fan_host_bell_name bell);
void fan_host_sleep(struct fan_host_board *l, enum fan_host_bell_name bell, uint32_t heard, int ms);

/* All zero at first. */
struct fan_host_wait {
	unsigned sleeps;      /* waits to come that do without yields */
	unsigned sleeps_next; /* after the last yields that did not help */
};

/* Until FAN_HOST_WORK of `l` has rung, which it had `heard` times, for `ms` at most. */
void fan_host_wait(struct fan_host_wait *w, struct fan_host_board *l, uint32_t heard, int ms);

#endif
