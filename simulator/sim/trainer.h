/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - one worker process of a job: computes, and reduces through the real core.
 *
 * It does what libfanin and a training framework do around a fan_worker.  A bucket of
 * gradients becomes operations of at most `tile` elements, a whole number of fragments,
 * so that the fragments on the wire are those of one large operation while all inputs are
 * the same small table and memory does not grow with the model.  Element i of rank r is
 * a whole number, so sums are exact in any order and can be checked. */
#ifndef FAN_SIM_TRAINER_H
#define FAN_SIM_TRAINER_H

#include "job.h"
#include "ring.h"
#include "tensor.h"
#include "world.h"

#define FAN_TILE_SHIFTS 61 /* operations begin at one of so many places of the table */

/* What all trainers of a job share. */
struct fan_trainer_shared {
	struct fan_job_config *cfg;
	struct fan_sim *sim;
	uint32_t tile;	     /* elements of the largest operation */
	uint32_t frag_elems; /* elements of a fragment */
	uint64_t ahead;	     /* elements in flight that are enough: two windows */
	float *input;	     /* of all ranks, each with its own shift */
	size_t input_bytes;
	float *expect; /* sums of it over the ranks, or NULL: nothing is checked */
	float *sink;   /* where results go that nobody checks */
	struct fan_out_item *item;
	uint8_t *scratch;
	size_t scratch_bytes;
	bool by_ring;		   /* without the core: by ring.h */
	bool by_tree, by_levels;   /* of that, along a tree; by rings on two levels */
	uint8_t *room;		   /* for the workers of one life after the other, by rank */
	struct fan_trainer *first; /* the trainer of rank 0; the others follow it */
	uint64_t begin_ns;	   /* when this life of the job begins */
	uint32_t lives;		   /* before this one */
	uint32_t gone;		   /* ranks whose part in this life is over */
	struct fan_tensor *tensor; /* of which the job is part `number`; NULL: of none */
	uint32_t number;
};

/* An operation in flight. */
struct fan_trainer_op {
	uint32_t elems;
	uint32_t shift;
	bool last;  /* of its bucket */
	float *out; /* verify: its own */
};

struct fan_trainer_times {
	uint64_t ready_ns; /* all ranks were there */
	uint64_t done_ns;  /* last bucket reduced */
	uint64_t comm_ns;  /* some bucket was being reduced */
	uint64_t wait_ns;  /* of that, nothing could be computed meanwhile */
	uint64_t elems;	   /* reduced */
	uint64_t checked;  /* elements found right */
};

/* Where ranks run ahead of each other: what the observer has seen. */
struct fan_trainer_lag {
	uint64_t next;		    /* the fragment that it comes to */
	uint64_t sum, samples, max; /* fragments behind the furthest */
};

struct fan_trainer {
	struct fan_trainer_shared *shared;
	uint32_t actor;
	uint16_t rank;
	struct fan_worker *core;
	struct fan_ring ring; /* instead of the core, if the job says so */
	uint64_t deadline_ns; /* the core's */
	uint64_t paced_ns;    /* until then it sends nothing: its pace */
	/* Computing: step 0 .. 2 * layers - 1 of an iteration. */
	uint32_t iteration, step;
	bool working, begun;
	uint64_t until_ns;
	/* Reducing: buckets in the job's life. */
	uint64_t bucket_ready, bucket_done; /* how many */
	uint64_t bucket_at;		    /* the one that is being started */
	uint64_t bucket_elems;		    /* how much of that has been started */
	uint64_t op_first, op_next;
	uint64_t in_flight;  /* elements of theirs */
	uint64_t left_elems; /* to be reduced until the job is over */
	struct fan_trainer_op op[FAN_OPS_MAX];
	uint64_t comm_since_ns, wait_since_ns; /* FAN_SIM_NEVER: not now */
	uint64_t span_ns[FAN_JOB_SPANS_MAX];   /* ends of iterations */
	struct fan_trainer_times times;
	struct fan_worker_stats stats; /* of all its lives, as they were at their ends */
	struct fan_trainer_lag lag;
	struct fan_fault fault;
	bool left, wrong;
};

/* Make what trainers of `cfg` share; false: out of memory.  `cfg` and `sim` stay.  The
 * trainers of a job lie in one array, by rank. */
bool fan_trainer_share(struct fan_trainer_shared *sh, struct fan_job_config *cfg,
		       struct fan_sim *sim, bool by_ring);
void fan_trainer_unshare(struct fan_trainer_shared *sh);

/* A trainer that comes when its job arrives.  False: out of memory. */
bool fan_trainer_init(struct fan_trainer *t, struct fan_trainer_shared *sh, uint16_t rank);
void fan_trainer_free(struct fan_trainer *t);

#endif
