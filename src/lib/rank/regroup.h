/* SPDX-License-Identifier: Apache-2.0 */
/* regroup.h - a communicator goes on without a named switch that has died, at those that are left.
 *
 * A part's aggregator is lost when it is silent, or has been restarted.  Whoever notices leaves the
 * jobs of all parts with a cause that names the part, so all ranks stop where they are: their old
 * connections get no results from then on.  They join again at the aggregators that are left, in
 * jobs whose names have the set of lost parts, so only ranks that agree about it meet.  There they
 * agree on three things by all-reduces, before any other operation:
 *
 *  1. For each slot of each old connection, the furthest fragment that a rank awaits; and the first
 *     operation that some rank has not started.
 *  2. Who has a result that another rank lacks.  Results are kept until all ranks have them: the
 *     last one of each slot, since the slot's next result shows that all had it.
 *  3. These results.
 *
 * Then all have the same results.  What else was under way has no result anywhere, so its input is
 * whole everywhere, also in place: it is summed anew.  Operations that some rank had not started
 * are started anew by all (ADR 27).
 *
 * A rank's own aggregator dies with the rank, so that ends the job.  So does another loss before
 * all have agreed. */
#ifndef FAN_LIB_RANK_REGROUP_H
#define FAN_LIB_RANK_REGROUP_H

#include "lib/base/cause.h"
#include "lib/base/fault_text.h"
#include "lib/link/connection.h"
#include "shares.h"

#define FAN_REGROUP_RESULTS   64   /* given to other ranks at a time */
#define FAN_REGROUP_MARGIN_MS 1000 /* beyond twice alive_ms, until all ranks have joined again */
#define FAN_REGROUP_AGAIN_MS  50   /* until another try to join where there was no room */

struct fan_rank;
struct fanin_op;

enum fan_regroup_phase {
	FAN_REGROUP_NONE,
	FAN_REGROUP_JOINS,  /* joining at the aggregators that are left */
	FAN_REGROUP_STANDS, /* agreeing on where all ranks stand... */
	FAN_REGROUP_OWNERS, /* ...on who has which result... */
	FAN_REGROUP_GIVES,  /* ...and giving results to who lacks them */
};

/* A part as it was before any was lost. */
struct fan_regroup_part {
	struct fan_job_part part;
	int inside;
	uint32_t mbps;
};

struct fan_regroup {
	enum fan_regroup_phase phase;
	uint64_t gone; /* bit i: part number i is lost */
	unsigned all;
	struct fan_regroup_part first[FAN_CAUSE_PARTS_MAX]; /* `all` of them */
	uint8_t number[FAN_PARTS_MAX];	/* of the communicator's parts, among `first` */
	char why[FAN_FAULT_TEXT_BYTES]; /* the loss, in a sentence */
	uint64_t look_ns;   /* time of the next look at the latest; later: this rank has slept */
	uint64_t silent_ns; /* who has not answered a JOIN by then is lost */
	uint64_t until_ns;  /* all ranks have joined by then, or the job ends */
	bool arrived;	    /* the all-reduce of this phase is done */

	/* As it was when the ranks stopped; connections without a worker have been closed. */
	struct fan_connection old[FAN_SHARDS_MAX]; /* by part and shard: the same on all ranks... */
	uint8_t was[FAN_SHARDS_MAX];		   /* ...and their numbers before, which are not */
	unsigned olds;
	struct fan_split_history shares;
	unsigned shards[FAN_PARTS_MAX];
	uint64_t ops;			      /* started */
	struct fanin_op *op[FAN_OPS_MAX + 1]; /* under way, oldest first */
	unsigned op_count;

	/* Of the agreement, in memory of its own. */
	unsigned slots;	  /* of all old connections */
	int64_t *stands;  /* operations started, negative; then what each slot awaits */
	int32_t *owners;  /* of each slot: who has its last result; whether a rank lacks it */
	uint8_t *results; /* FAN_REGROUP_RESULTS of them, result_bytes each */
	size_t result_bytes;
	unsigned next, given; /* the slots whose results are under way: from next on, how many are
			       * behind them */
	/* Counters of connections that were closed. */
	struct fanin_stats before;
	struct fan_rtt_histogram trips_before;
};

/* From now on the communicator goes on without named switches that die, if it can: it has others,
 * and no plan, server or run-ahead. */
void fan_regroup_enable(struct fan_rank *c);
void fan_regroup_free(struct fan_regroup *g);

/* Connection `cn` has failed.  True: that does not end the communicator, or this has done so. */
bool fan_regroup_forgives(struct fan_rank *c, struct fan_connection *cn, uint64_t now_ns);

/* Must operation `op` wait until all ranks have agreed? */
bool fan_regroup_is_on(const struct fan_rank *c);
bool fan_regroup_holds(const struct fan_rank *c, const struct fanin_op *op);

/* All ranks have joined. */
void fan_regroup_joined(struct fan_rank *c);

/* Do what is due, and when that is next. */
void fan_regroup_work(struct fan_rank *c, uint64_t now_ns);
uint64_t fan_regroup_deadline(const struct fan_rank *c);

#endif
