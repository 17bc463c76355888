/* SPDX-License-Identifier: Apache-2.0 */
/* worker_priv.h - what worker.c (membership, timers) and transfer.c (fragments) share. */
#ifndef FAN_WORKER_PRIV_H
#define FAN_WORKER_PRIV_H

#include "congestion.h"
#include "gap.h"
#include "route.h"
#include "rtt.h"
#include "slot.h"
#include "stream.h"
#include "window.h"
#include "worker.h"

/* What another rank asks, on its way to the home. */
struct fan_question {
	uint64_t frag;
	uint16_t rank, flags, number;
	uint8_t type; /* PROBE goes on, PACE is answered */
};

/* A result that has not come, by its number. */
struct fan_asked {
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
	uint64_t paced_ns;		  /* when PACE came last... */
	uint64_t slowest;		  /* ...and where the slowest rank is, at least */
	uint32_t lead;			  /* how far before it this rank may be, now... */
	uint64_t lead_turn; /* ...and the transmissions from which on it may shrink... */
	uint64_t grow_turn; /* ...and grow */
	uint64_t who_ns;    /* when a WHO last drew a BEAT */
	bool missing_known;
	bool rejoins; /* FORMING, READY: by another way, until the home's WELCOME */
	uint8_t way;  /* how many it has gone */
	bool numbers; /* what is sent; the switch asks by number, and so does this worker: */
	uint16_t ask_first, asked;	    /* results that it has asked for, and not heard... */
	uint16_t asks;			    /* ...and, behind them, that are to be asked for */
	struct fan_asked ask[FAN_ASKS_MAX]; /* a ring */
	uint64_t blind_seq; /* what was lost before this was sent, numbers do not all tell; 0: they
			       do */
	struct fan_fault fault;
	struct fan_worker_stats stats;
	enum fan_drop last_drop;

	struct fan_gap gap; /* of numbers of results heard */
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

	/* As a leading worker. */
	struct fan_cache cache;
	unsigned questions;
	struct fan_question question[FAN_LEAD_ASKS];
};

/* Is `job` that of the worker, by whichever route? */
static inline bool fan_worker_is_job(const struct fan_worker *w, uint32_t job)
{
	return !((job ^ w->job) & ((UINT32_C(1) << FAN_ROUTE_BITS) - 1));
}

/* End the worker with `fault`; only the first one counts. */
void fan_worker_fail(struct fan_worker *w, const struct fan_fault *fault);

/* Time between control messages: a stall must be noticed, and asked about, in time. */
uint64_t fan_worker_interval_ns(const struct fan_worker *w);

/* A RESULT, or a NEED, that is for this worker's job. */
enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f);
enum fan_verdict fan_transfer_need(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* numbers.c - the RESULT `f` has come; a MISS that is for this worker's job. */
void fan_numbers_jump(struct fan_worker *w, const struct fan_frag *f);
static inline void fan_numbers_heard(struct fan_worker *w, const struct fan_frag *f)
{
	bool next = (uint16_t)(f->sender - w->gap.last) == 1;
	if (next && w->gap.heard == UINT64_MAX && !w->asked && !w->blind_seq)
		w->gap.last++; /* as it is nearly always */
	else
		fan_numbers_jump(w, f);
}
enum fan_verdict fan_numbers_missed(struct fan_worker *w, const struct fan_frag *f);

/* Ask for results that have not come; true if `out` ran full. */
bool fan_numbers_ask(struct fan_worker *w, struct fan_out *out);

/* ahead.c, where ranks run ahead of each other - the window is open; a RESULT of slot `s` has
 * come; a PACE that is for this worker's job. */
void fan_ahead_begin(struct fan_worker *w);
void fan_ahead_heard(struct fan_worker *w, const struct fan_wslot *s,
		     const struct fan_frag *result);
enum fan_verdict fan_ahead_paced(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

static inline enum fan_verdict fan_worker_drop(struct fan_worker *w, unsigned why)
{
	w->last_drop = (enum fan_drop)why;
	w->stats.drops[why]++;
	return FAN_DROP;
}

/* leader.c - a DATA, PROBE or FLUSH: something to keep for others, or about that. */
enum fan_verdict fan_leader_recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Is there something of others to send?  Send it; true if `out` ran full. */
bool fan_leader_is_due(const struct fan_worker *w);
bool fan_leader_send(struct fan_worker *w, struct fan_out *out);

/* held.c - an uplink's fragments, which are the rounds of its switch.
 * Is there something to send for `frag`? */
bool fan_held_has(const struct fan_worker *w, uint64_t frag);

/* What the contribution says beyond its job and number. */
void fan_held_fill(const struct fan_worker *w, uint64_t frag, struct fan_frag *f);

/* Is `f` the result of what was sent?  -1, or why it is dropped. */
int fan_held_unfit(const struct fan_worker *w, const struct fan_frag *f);

/* The round gets the result and is DONE. */
void fan_held_take(const struct fan_worker *w, const struct fan_frag *f);

/* Write what the window allows; true if `out` ran full. */
bool fan_transfer_send(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* The time since the last turn was spent as `spent` says: busy or idle. */
void fan_transfer_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent);

/* The window is open: fragments of operations that were started before may go. */
void fan_transfer_begin(struct fan_worker *w);

/* The round of `frag` has something to send. */
void fan_transfer_offered(struct fan_worker *w, uint64_t frag);

/* Operation number w->next_op - 1 has just been opened: its first fragments may go. */
void fan_transfer_opened(struct fan_worker *w);

#endif
