/* SPDX-License-Identifier: Apache-2.0 */
/* learner.h - whether the calls of one communicator go to fanin or to the MPI.
 *
 * For each kind of call and each class of size it times a few calls with both, then takes the
 * faster one until the next trial.  The time that trials waste is bounded by a share of the time of
 * the calls between them.
 *
 * Times of short calls scatter: with more ranks than cores they settle at values that differ by a
 * factor of ten, and the first call after a change between the two is not typical.  So short calls
 * are tried in blocks, without barriers within, and each block is compared with its neighbour.
 * fanin has to win nearly all pairs and the total, and to confirm that soon after; a trial ends
 * when it can no longer win.
 *
 * All ranks decide alike: they decide by the number of calls so far, which MPI makes equal on all
 * ranks of a communicator, and by times on which they have agreed. */
#ifndef FAN_MPI_LEARNER_H
#define FAN_MPI_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_LEARNER_CLASSES	 40 /* class n: up to 2^n bytes; the last class has all larger calls */
#define FAN_LEARNER_TIMES	 3  /* timed calls of each of the two in a trial of a long class */
#define FAN_LEARNER_SHORT	 16 /* the last short class; short classes are tried in blocks */
#define FAN_LEARNER_PAIRS	 8  /* blocks of each of the two in a trial of a short class */
#define FAN_LEARNER_BLOCK	 8  /* calls of a block */
#define FAN_LEARNER_BLOCK_WARM	 2  /* first calls of a block, which do not count */
#define FAN_LEARNER_LOSSES	 1  /* pairs of blocks that fanin may lose at most */
#define FAN_LEARNER_TIMES_MAX	 (1 + FAN_LEARNER_PAIRS)
#define FAN_LEARNER_STEPS_MAX	 (4 + 2 * FAN_LEARNER_PAIRS * FAN_LEARNER_BLOCK) /* of a trial */
#define FAN_LEARNER_PROBATION	 64 /* calls until fanin has to win a short class again */
#define FAN_LEARNER_REST_MIN	 256
#define FAN_LEARNER_REST_MAX	 1000000 /* calls between trials */
#define FAN_LEARNER_SHARE	 0.01	 /* share of the calls' time that trials may waste */
#define FAN_LEARNER_LOST_SHARE	 0.04	 /* share of calls in trials of a slower fanin */
#define FAN_LEARNER_MARGIN	 0.97	 /* fanin is taken below this part of the MPI's time */
#define FAN_LEARNER_SHORT_MARGIN 0.90	 /* in short classes, below this part */
#define FAN_LEARNER_PRACTICE	 16	 /* calls to learn shares in, before a trial is repeated */
#define FAN_LEARNER_PRACTICES	 3	 /* such repetitions at most */
#define FAN_LEARNER_HOPE	 1.5 /* times the MPI's time: a slower fanin is not tried again */
#define FAN_LEARNER_HOPELESS	 2.0 /* times the MPI's time: beyond, smaller sizes get no trial */

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
	/* Seconds: of single calls, [0] deciding whether the trial goes on; of blocks, from [1]. */
	double mpi_s[FAN_LEARNER_TIMES_MAX], fanin_s[FAN_LEARNER_TIMES_MAX];
	double trial_s;	  /* of the whole trial, its own overhead included */
	double unsettled; /* 1: fanin still learns shares */
};
#define FAN_LEARNER_DOUBLES (sizeof(struct fan_learner_times) / sizeof(double))

struct fan_learner_class {
	bool known;	    /* a trial has ended, or larger sizes have decided */
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

/* What to do with one call. */
struct fan_learner_step {
	struct fan_learner_class *class;
	bool fanin;
	double *time_s; /* add the call's time here; NULL: do not time it */
	bool trial;	/* the call belongs to a trial */
	bool first;	/* first of a block: ranks begin it together */
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

/* Of FAN_LEARNER_CLASSES. */
unsigned fan_learner_class(size_t bytes);

/* fanin is taken where it takes less than this part of the MPI's time.  Short calls settle at one
 * of a few speeds for a while, so a trial may see another speed than the calls after it; their
 * margin is wider. */
double fan_learner_margin(unsigned class);

/* Another measurement has found that calls of class `class` go to fanin if `fanin`. */
void fan_learner_tell(struct fan_learner *l, enum fan_learner_kind kind, unsigned class,
		      bool fanin);

/* Has a trial of the class ended, or have larger sizes decided? */
bool fan_learner_knows(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* All ranks have the same `times`.  The trial ends here if it is complete, if fanin is hopeless
 * after one call of each, or if it has lost too many pairs. */
void fan_learner_decide(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
			const struct fan_learner_times *times);

#endif
