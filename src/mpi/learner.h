/* SPDX-License-Identifier: Apache-2.0 */
/* learner.h - whether the calls of one communicator go to fanin or to the MPI.
 *
 * Calls of up to 64 KiB are the MPI's.  For each kind of call and each class of size above it times
 * three calls of each, then takes the faster one until the next trial.  All ranks decide alike: by
 * the number of calls so far, which MPI makes equal on all ranks of a communicator, and by times on
 * which they have agreed. */
#ifndef FAN_MPI_LEARNER_H
#define FAN_MPI_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rules: what for, what sets the threshold, the threshold.  B is a row of bench/mpi, C the case
 * of test/unit/mpi/learner.c. */

/* Smaller calls are the MPI's.  B: with trials of them 0.99 to 1.14 of the MPI's speed, where the
 * MPI against itself has 0.91 to 1.14. */
#define FAN_LEARNER_LEAST_BYTES (64 * 1024 + 1)
/* Class n has calls of up to 2^n bytes, the last class all larger ones. */
#define FAN_LEARNER_CLASSES 40
/* Timed calls of each of the two in a trial, and all calls of a trial: the first of each is
 * untimed. C: a_slow_call_does_not_count. */
#define FAN_LEARNER_TIMES 3
#define FAN_LEARNER_STEPS (2 + 2 * FAN_LEARNER_TIMES)
/* The share of the calls' time that trials may waste, and so the calls between them; their bounds.
 * B: 0.97 of the MPI's speed is asked of each size; C: trials_cost_a_small_share. */
#define FAN_LEARNER_SHARE    0.01
#define FAN_LEARNER_REST_MIN 256
#define FAN_LEARNER_REST_MAX 1000000
/* fanin is taken below this part of the MPI's time.  B: from 1 MiB on it takes 0.39 to 0.85. */
#define FAN_LEARNER_MARGIN 0.97
/* End a trial after four calls of eight at this many times the MPI's time, and practise nothing.
 * C: gives_up_what_is_hopeless. */
#define FAN_LEARNER_HOPELESS 2.0
/* Calls to learn shares in before a trial is repeated, as a trial has too few for that, and such
 * repetitions at most.  C: practises_while_shares_are_learnt. */
#define FAN_LEARNER_PRACTICE  16
#define FAN_LEARNER_PRACTICES 3

enum fan_learner_kind {
	FAN_LEARNER_ALLREDUCE,
	FAN_LEARNER_REDUCE,
	FAN_LEARNER_BCAST,
	FAN_LEARNER_BARRIER,
	FAN_LEARNER_REDUCE_SCATTER,
	FAN_LEARNER_ALLGATHER,
	FAN_LEARNER_KINDS
};

/* A rank's own times of a trial, or the times on which all ranks agreed: the largest of each. */
struct fan_learner_times {
	double mpi_s[FAN_LEARNER_TIMES], fanin_s[FAN_LEARNER_TIMES]; /* of single calls */
	double trial_s;	  /* of the whole trial, its own overhead included */
	double unsettled; /* 1: fanin still learns shares */
};
#define FAN_LEARNER_DOUBLES (sizeof(struct fan_learner_times) / sizeof(double))

struct fan_learner_class {
	bool known;	    /* a trial has ended */
	bool fanin;	    /* calls between trials go to fanin */
	unsigned step;	    /* of the trial in progress */
	unsigned practices; /* repetitions so far */
	uint64_t rest;	    /* calls until the next trial */
	uint64_t pause;	    /* calls between the last two trials */
	struct fan_learner_times times;
};

struct fan_learner {
	struct fan_learner_class of[FAN_LEARNER_KINDS][FAN_LEARNER_CLASSES];
};

/* The decision for one call. */
struct fan_learner_step {
	struct fan_learner_class *class;
	bool fanin;
	double *time_s; /* add the call's time here; NULL: do not time it */
	bool trial;	/* the call belongs to a trial: ranks begin it together */
	bool agree;	/* after the call, agree on class->times, then call fan_learner_decide */
};

/* The next call of `kind` with `bytes` bytes. */
void fan_learner_next(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
		      struct fan_learner_step *step);

/* How many of the next calls of `kind` with `bytes` bytes go to the MPI untimed.  A caller that
 * passes one on subtracts 1, as fan_learner_next would.  NULL: the next call is not of these. */
uint64_t *fan_learner_rest(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* Does a call that cannot be timed, because it does not wait, go to fanin?  It follows the verdict
 * on its class, or on the next smaller class that has one. */
bool fan_learner_peek(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* All ranks have the same `times`.  The trial ends here if it is complete, or if fanin is hopeless
 * after one call of each. */
void fan_learner_decide(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
			const struct fan_learner_times *times);

#endif
