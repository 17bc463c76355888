/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - one worker process of a job: it computes, and reduces through the real core.
 *
 * It does what libfanin and a training framework do around a fan_worker.  A bucket of gradients
 * becomes operations of at most `tile` elements, a whole number of fragments.  So the fragments on
 * the wire are those of one large operation, while all inputs are the same small table and memory
 * does not grow with the model.  Sums of these inputs are exact in every type and any order, and so
 * can be checked. */
#ifndef FAN_SIM_TRAINER_H
#define FAN_SIM_TRAINER_H

#include "job.h"
#include "ring.h"
#include "tensor.h"
#include "world.h"

#define FAN_TILE_SHIFTS 61 /* operations begin at one of this many places of the table */

/* What all trainers of a job share. */
struct fan_trainer_shared {
	struct fan_job_config *cfg;
	struct fan_sim *sim;
	uint32_t tile;	     /* elements of the largest operation */
	uint32_t frag_elems; /* elements of a fragment */
	uint64_t ahead;	     /* elements that suffice in flight: two windows */
	float *input;	     /* for all ranks, each with its own shift */
	size_t input_bytes;
	float *expect; /* its sums over the ranks; NULL: nothing is checked */
	float *sink;   /* takes results that are not checked */
	struct fan_out_item *item;
	uint8_t *scratch;
	size_t scratch_bytes;
	bool by_ring;		   /* by ring.h instead of the core */
	bool by_tree, by_levels;   /* if by_ring: along a tree; by rings on two levels */
	uint8_t *room;		   /* memory for the workers, by rank, reused by each life */
	struct fan_trainer *first; /* the trainer of rank 0; those of the others follow */
	uint64_t begin_ns;	   /* when this life of the job begins */
	uint32_t lives;		   /* lives of the job before this one */
	uint32_t gone;		   /* ranks that have ended in this life */
	struct fan_tensor *tensor; /* the job is its part `number`; NULL: of none */
	uint32_t number;
};

struct fan_trainer {
	struct fan_trainer_shared *shared;
	uint32_t actor;
	uint16_t rank;
	struct fan_worker *core;
	struct fan_ring ring; /* in place of the core, if the job says so */
	uint64_t deadline_ns; /* the core's */
	uint64_t paced_ns;    /* its pace allows it to send nothing before then */
	/* Computing: step 0 .. 2 * layers - 1 of an iteration. */
	uint32_t iteration, step;
	bool working, begun;
	uint64_t until_ns;
	/* Reducing: buckets since the job arrived. */
	uint64_t bucket_ready, bucket_done; /* how many are ready, and are reduced */
	uint64_t bucket_at;		    /* the one that is being started */
	uint64_t bucket_elems;		    /* how many of its elements have been started */
	uint64_t op_first, op_next;
	uint64_t in_flight;  /* elements of these operations */
	uint64_t left_elems; /* still to be reduced in the job */
	/* An operation in flight. */
	struct fan_trainer_op {
		uint32_t elems;
		uint32_t shift;
		bool last;  /* the last of its bucket */
		float *out; /* with `verify`: its own memory */
	} op[FAN_OPS_MAX];
	uint64_t comm_since_ns, wait_since_ns; /* since when; FAN_SIM_NEVER: it does not */
	uint64_t span_ns[FAN_JOB_SPANS_MAX];   /* ends of iterations */
	struct fan_trainer_times {
		uint64_t ready_ns; /* when all ranks had joined */
		uint64_t done_ns;  /* when the last bucket was reduced */
		uint64_t comm_ns;  /* how long buckets were being reduced */
		uint64_t wait_ns;  /* of that, how long nothing could be computed */
		uint64_t elems;	   /* reduced */
		uint64_t checked;  /* elements found correct */
	} times;
	struct fan_worker_stats stats; /* summed over its lives, at the end of each */
	/* Where ranks run ahead of each other: what the observer has seen. */
	struct fan_trainer_lag {
		uint64_t next;		    /* its next fragment */
		uint64_t sum, samples, max; /* its lag, in fragments */
	} lag;
	struct fan_fault fault;
	bool left, wrong;
};

/* Make what the trainers of `cfg` share; `cfg` and `sim` must stay.  The trainers of a job lie in
 * one array, by rank.  False: out of memory. */
bool fan_trainer_share(struct fan_trainer_shared *sh, struct fan_job_config *cfg,
		       struct fan_sim *sim, bool by_ring);
void fan_trainer_unshare(struct fan_trainer_shared *sh);

/* Make a trainer that begins when its job arrives.  False: out of memory. */
bool fan_trainer_init(struct fan_trainer *t, struct fan_trainer_shared *sh, uint16_t rank);
void fan_trainer_free(struct fan_trainer *t);

/* ---- trainer.c and trainer_compute.c ---- */
#define FAN_TRAINER_ITEMS      64u /* datagrams that a core returns at a time */
#define FAN_TRAINER_RANK_SHIFT 17u /* elements between the inputs of two places */
#define FAN_TRAINER_OP_SHIFT   16u /* elements; keeps operations aligned */

/* Compute as far as time and gradients allow.  True: a layer was finished. */
bool fan_trainer_compute(struct fan_trainer *t);

/* Note that from now on computing waits for gradients, or no longer does. */
void fan_trainer_note_wait(struct fan_trainer *t, bool waits);

#endif
