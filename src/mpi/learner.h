/* SPDX-License-Identifier: Apache-2.0 */
/* learner.h - which way the calls of one communicator go: by fanin or by the MPI.
 *
 * For each kind of call and each class of size both ways are tried a few times and timed, then the
 * faster one is taken, until it is time to look again.  The time that trials waste is bounded by a
 * share of the time of the calls between them.
 *
 * Short calls are restless: more ranks than cores keep to paces that differ by a factor of ten, and
 * a call that follows one of the other way is not as one among its like.  So they are tried in
 * blocks, without barriers within, and blocks are compared with their neighbours.  fanin has to win
 * nearly all pairs and in sum, and then once more soon; a trial ends when it no longer can.
 *
 * All ranks decide alike: what they decide by is the
 * number of calls so far, which MPI makes equal on all ranks of a communicator, and times on which
 * they have agreed. */
#ifndef FAN_MPI_LEARNER_H
#define FAN_MPI_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_LEARNER_CLASSES	 40 /* class n: up to 2^n bytes, the last one all more */
#define FAN_LEARNER_TIMES	 3  /* each way is timed in a trial... */
#define FAN_LEARNER_SHORT	 16 /* ...but up to this class, whose calls are short... */
#define FAN_LEARNER_PAIRS	 8  /* ...so many blocks of calls of each... */
#define FAN_LEARNER_BLOCK	 8  /* ...of so many calls... */
#define FAN_LEARNER_BLOCK_WARM	 2  /* ...the first of which do not count... */
#define FAN_LEARNER_LOSSES	 1  /* ...and in no more pairs of blocks may fanin not win */
#define FAN_LEARNER_TIMES_MAX	 (1 + FAN_LEARNER_PAIRS)
#define FAN_LEARNER_STEPS_MAX	 (4 + 2 * FAN_LEARNER_PAIRS * FAN_LEARNER_BLOCK) /* of a trial */
#define FAN_LEARNER_PROBATION	 64 /* calls until fanin has to win a short class again */
#define FAN_LEARNER_REST_MIN	 256
#define FAN_LEARNER_REST_MAX	 1000000 /* calls between trials */
#define FAN_LEARNER_SHARE	 0.01	 /* of the calls' time that trials may waste */
#define FAN_LEARNER_LOST_SHARE	 0.04	 /* of the calls that trials of a slower fanin may take */
#define FAN_LEARNER_MARGIN	 0.97	 /* of the MPI's time: fanin is taken below it... */
#define FAN_LEARNER_SHORT_MARGIN 0.90	 /* ...but this up to FAN_LEARNER_SHORT */
#define FAN_LEARNER_PRACTICE	 16 /* calls in which fanin learns shares before another trial... */
#define FAN_LEARNER_PRACTICES	 3  /* ...so often at most... */
#define FAN_LEARNER_HOPE	 1.5 /* ...and only while it takes at most so many times as long */
#define FAN_LEARNER_HOPELESS	 2.0 /* it takes so much longer: smaller sizes need no trial */

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
	/* Of single calls, the first of them by the look; of blocks from 1 on. */
	double mpi_s[FAN_LEARNER_TIMES_MAX], fanin_s[FAN_LEARNER_TIMES_MAX];
	double trial_s;	  /* of the whole trial, with what it takes beside the calls */
	double unsettled; /* 1: fanin still learns shares */
};
#define FAN_LEARNER_DOUBLES (sizeof(struct fan_learner_times) / sizeof(double))

struct fan_learner_class {
	bool known;	    /* a trial has ended, or larger sizes have told */
	bool fanin;	    /* the way of calls between trials */
	unsigned step;	    /* of the trial under way */
	unsigned practices; /* so far */
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
	double *time_s; /* its time is added there; NULL: it is not timed */
	bool trial;	/* it belongs to a trial */
	bool first;	/* of a block: ranks are to begin it together */
	bool agree;	/* afterwards agree on class->times, then fan_learner_decide */
};

/* The next call of `kind` with `bytes` bytes. */
void fan_learner_next(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
		      struct fan_learner_step *step);

/* The next calls of `kind` with `bytes` bytes go to the MPI and are not timed: their number, from
 * which whoever lets one pass takes 1, as fan_learner_next would.  NULL: they do not. */
uint64_t *fan_learner_rest(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* The way of a call that cannot be timed, because it does not wait: as the others of its class,
 * or of the next smaller class that is known.  True: by fanin. */
bool fan_learner_peek(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* Of FAN_LEARNER_CLASSES. */
unsigned fan_learner_class(size_t bytes);

/* fanin is taken where it takes less than this part of the MPI's time.  Ranks keep to one of a few
 * paces for many short calls, so that a trial may time another one than those after it have. */
double fan_learner_margin(unsigned class);

/* Something else has found out that `fanin` is the way of class `class`. */
void fan_learner_tell(struct fan_learner *l, enum fan_learner_kind kind, unsigned class,
		      bool fanin);

/* A trial of its class has ended, or larger sizes have told. */
bool fan_learner_knows(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes);

/* All ranks have the same `times`.  The trial ends here if it is over, if fanin is hopeless after
 * each way has been timed once, or if it has not won too many pairs. */
void fan_learner_decide(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
			const struct fan_learner_times *times);

#endif
