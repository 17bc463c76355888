/* SPDX-License-Identifier: Apache-2.0 */
/* worker_priv.h - what worker.c (membership, timers) and transfer.c (fragments) share. */
#ifndef FAN_WORKER_WORKER_PRIV_H
#define FAN_WORKER_WORKER_PRIV_H

#include "core/recovery/congestion.h"
#include "core/recovery/rtt.h"
#include "core/recovery/seq_gap.h"
#include "core/recovery/window.h"
#include "core/sum/slot.h"
#include "core/wire/route_table.h"
#include "stream.h"
#include "worker.h"

/* What another rank asks, on its way to the aggregator. */
struct fan_question {
	uint64_t frag;
	uint16_t rank, last;
	uint8_t type; /* PROBE goes on, PROGRESS is answered */
	uint8_t place;
	bool full; /* there was no room */
};

/* A result that has not come, by its number. */
struct fan_lost_result {
	uint64_t seq; /* what was sent next when it was asked for */
	uint16_t number;
	uint8_t tries;
	bool come;
};

struct fan_worker {
	struct fan_worker_config cfg;
	enum fan_worker_phase phase;
	struct fan_welcome welcome;
	bool welcomed;
	bool heard_group;
	uint8_t leave_tries;
	int8_t leave_err;
	uint64_t blamed[FAN_RANK_WORDS]; /* for LEAVE */
	uint32_t job, epoch;
	uint32_t workers; /* of the job; set when it is ready */
	uint64_t start_ns;
	uint64_t heard_ns;		  /* last packet of the switch */
	uint64_t control_ns;		  /* when the next JOIN, BEAT or LEAVE is due */
	uint64_t progress_ns;		  /* last result, or first operation after an idle time */
	uint64_t missing[FAN_RANK_WORDS]; /* of the last STATE... */
	uint64_t missing_frag;		  /* ...about this fragment */
	uint64_t expired_ns;		  /* when the timer ran out last */
	uint64_t slowest;		  /* where the slowest rank is, at least */
	uint32_t lead;			  /* how far before it this rank may be, now... */
	uint64_t lead_turn; /* ...and the transmissions from which on it may shrink... */
	uint64_t grow_turn; /* ...and grow */
	uint64_t who_ns;    /* when a WHO last drew a BEAT */
	bool missing_known;
	bool rejoins; /* FORMING, READY: by another way, until the aggregator's WELCOME */
	uint8_t path; /* how many it has gone */
	bool numbers; /* what is sent; the next hop asks by number, and so does this worker: */
	uint16_t ask_first, asked; /* results that it has asked for, and not heard... */
	uint16_t asks;		   /* ...and, behind them, that are to be asked for */
	struct fan_lost_result ask[FAN_ASKS_MAX]; /* a ring */
	uint64_t blind_seq; /* what was lost before this was sent, numbers do not all tell; 0: they
			       do */
	struct fan_fault fault;
	struct fan_worker_stats stats;
	enum fan_drop last_drop;

	struct fan_seq_gap gap; /* of numbers of results heard */
	struct fan_rtt rtt;
	struct fan_congestion congestion;
	struct fan_window window;

	/* Operations first_op .. next_op - 1 are in flight, number i at op[i % MAX]. */
	struct fan_stream_op op[FAN_OPS_MAX];
	uint64_t first_op, next_op;
	uint64_t next_frag;  /* of the next operation */
	uint64_t turn_ns;    /* when operations last began or ceased to be in flight... */
	uint64_t busy_ns;    /* ...and how long they have been, of late... */
	uint64_t idle_ns;    /* ...and not */
	uint64_t next_group; /* of the next operation in fixed mode */
	uint64_t low_group;  /* lowest group that is not finished */
	struct fan_stream_group group[FAN_STREAM_GROUPS];

	/* As a helper. */
	struct fan_helper_cache cache;
	unsigned questions;
	struct fan_question question[FAN_LEAD_ASKS];
};

/* Is `job` that of the worker, by whichever route? */
static inline bool fan_worker_is_job(const struct fan_worker *w, uint32_t job)
{
	return !((job ^ w->job) & ((UINT32_C(1) << FAN_ROUTE_BITS) - 1));
}

/* What holds between calls. */
static inline void fan_worker_check(const struct fan_worker *w)
{
	assert(w->phase <= FAN_W_LEFT);
	assert(w->phase != FAN_W_READY || w->welcomed);
	assert(!w->welcomed || w->window.size == w->welcome.window);
	assert(w->window.size <= w->cfg.window_max);
	assert(w->next_op - w->first_op <= FAN_OPS_MAX);
	assert(w->asked + w->asks <= FAN_ASKS_MAX && w->ask_first < FAN_ASKS_MAX);
	assert(w->questions <= FAN_LEAD_ASKS);
	fan_window_check(&w->window);
	fan_congestion_check(&w->congestion);
	fan_rtt_check(&w->rtt);
	fan_helper_cache_check(&w->cache);
}

/* End the worker with `fault`; only the first one counts. */
void fan_worker_fail(struct fan_worker *w, const struct fan_fault *fault);

/* Time between control messages: a stall must be noticed, and asked about, in time. */
uint64_t fan_worker_interval_ns(const struct fan_worker *w);

static inline enum fan_verdict fan_worker_drop(struct fan_worker *w, unsigned why)
{
	w->last_drop = (enum fan_drop)why;
	w->stats.drops[why]++;
	return FAN_DROP;
}

#endif
