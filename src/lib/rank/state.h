/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - what a rank remembers for three of its tasks: its controller client (plan_client.h),
 * the measurements by which it learns shares (share_meter.h), and going on without a switch
 * (regroup.h).  Only the progress thread uses it. */
#ifndef FAN_LIB_RANK_STATE_H
#define FAN_LIB_RANK_STATE_H

#include <fanin.h>
#include <stdbool.h>
#include <stdint.h>

#include "hello.h"
#include "lib/base/fault_text.h"
#include "lib/base/plan_msg.h"
#include "lib/link/connection.h"
#include "net/dial.h"
#include "shares.h"

#define FAN_SHARE_METER_WORDS (FAN_PARTS_MAX + FAN_RANKS_MAX)

struct fanin_op;

/* State of plan_client.c. */
struct fan_plan_client {
	bool on;		    /* there is a controller */
	bool news;		    /* the socket has reported */
	bool has_parts;		    /* the job's parts are known */
	bool moving[FAN_PARTS_MAX]; /* by part: the controller waits for its `moved` */
	uint64_t behind_ns;	    /* time to move connections that are behind; UINT64_MAX: none */
	struct fan_dial dial;
	struct fan_plan_msg msg; /* the last one */
};

/* A part as callers see it. */
struct fan_part_shown {
	fan_peer at;
	int inside;	/* the rank in which it is; -1: none */
	bool lost;	/* the others go on without it (regroup.h) */
	uint64_t share; /* in 1 / FAN_CUT_WHOLE */
	uint32_t rtt_us;
};

/* State of share_meter.c. */
struct fan_share_meter {
	struct fan_split_history shares;
	struct fan_split_learner learner;
	bool news;	     /* shares or addresses have changed since callers were told */
	bool learns;	     /* several parts, and no plan fixes their shares */
	bool blocked;	     /* operations wait for the measurement in progress */
	bool measures;	     /* a measurement is in progress */
	bool arrived;	     /* its sum is there, and has not been taken yet */
	uint64_t ops;	     /* started, with measurements */
	bool drains;	     /* operations wait for the end of those that have been started */
	uint64_t bytes;	     /* of tensors that were started since the last measurement */
	uint64_t open_bytes; /* of those that are in progress */
	uint64_t done_bytes; /* of those that have ended in the period that is measured */
	uint64_t busy_ns;    /* with operations in progress, in that period */
	uint64_t looked_ns;
	bool busy;		       /* something was in progress then */
	double fill;		       /* results in FAN_SHARE_METER_FILL_MS, smoothed */
	uint64_t fill_ns;	       /* with operations in progress, since `fill` was set */
	uint64_t results;	       /* of all connections when `fill` was set */
	double rtt_ns[FAN_SHARDS_MAX]; /* round trip of each connection, times busy_ns */
	int32_t words[FAN_SHARE_METER_WORDS];
	uint32_t rtt_us[FAN_PARTS_MAX]; /* as measured last */
};

enum fan_regroup_phase {
	FAN_REGROUP_NONE,
	FAN_REGROUP_JOINS,  /* joining at the aggregators that are left */
	FAN_REGROUP_STANDS, /* agreeing on where all ranks stand */
	FAN_REGROUP_OWNERS, /* agreeing on who has which result */
	FAN_REGROUP_GIVES,  /* giving results to those who lack them */
};

/* A part as it was before any was lost. */
struct fan_regroup_part {
	struct fan_job_part part;
	int inside;
	uint32_t mbps;
	uint8_t rail;
};

/* State of regroup.c and regroup_agree.c. */
struct fan_regroup {
	enum fan_regroup_phase phase;
	bool waits;    /* a connection has failed: is it the rail, or the host? */
	uint64_t gone; /* bit i: part number i is lost */
	unsigned all;
	struct fan_regroup_part first[FAN_CAUSE_PARTS_MAX]; /* `all` of them */
	uint8_t number[FAN_PARTS_MAX];	/* of the communicator's parts, among `first` */
	char why[FAN_FAULT_TEXT_BYTES]; /* the loss, in a sentence */
	unsigned turns;			/* losses and returns so far */
	int back;			/* JOINS: the part that is taken in again; -1: none */
	uint64_t back_by_ns;		/* it has answered by then, or is lost again */
	uint64_t look_ns;   /* time of the next look at the latest; later: this rank has slept */
	uint64_t silent_ns; /* who has not answered a JOIN by then is lost */
	uint64_t until_ns;  /* all ranks have joined by then, or the job ends */
	bool arrived;	    /* the all-reduce of this phase is done */

	/* As it was when the ranks stopped; connections without a worker have been closed. */
	struct fan_connection
		old[FAN_SHARDS_MAX]; /* by part and shard: in the same order on all ranks */
	uint8_t was[FAN_SHARDS_MAX]; /* their numbers before, which differ by rank */
	unsigned olds;
	struct fan_split_history shares;
	unsigned shards[FAN_PARTS_MAX];
	uint64_t ops;			      /* started */
	struct fanin_op *op[FAN_OPS_MAX + 1]; /* in progress, oldest first */
	unsigned op_count;

	/* For the agreement, in memory of its own. */
	unsigned slots;	  /* of all old connections */
	int64_t *stands;  /* operations started, negative; then what each slot awaits */
	int32_t *owners;  /* of each slot: who has its last result; whether a rank lacks it */
	uint8_t *results; /* FAN_REGROUP_RESULTS of them, result_bytes each */
	size_t result_bytes;
	/* the slots whose results are in progress: from next on, how many are behind them */
	unsigned next, given;
	struct fan_hello hello;
	/* Counters of connections that were closed. */
	struct fanin_stats before;
	struct fan_rtt_histogram trips_before;
};

#endif
