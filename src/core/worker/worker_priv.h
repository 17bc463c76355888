/* SPDX-License-Identifier: Apache-2.0 */
/* worker_priv.h - the state of a worker, for worker.c (membership, timers), transfer.c (fragments)
 * and their neighbours. */
#ifndef FAN_WORKER_WORKER_PRIV_H
#define FAN_WORKER_WORKER_PRIV_H

#include "core/recovery/congestion.h"
#include "core/recovery/rtt.h"
#include "core/recovery/seq_gap.h"
#include "core/recovery/window.h"
#include "core/sum/slot.h"
#include "core/wire/route_table.h"
#include "core/wire/wire.h"
#include "stream.h"
#include "worker.h"
/* Where a worker's fragments come from, and where their results go: a rank's operations
 * (op_source.c), or the rounds of an aggregator with a parent (tree_source.c). */

struct fan_out;
struct fan_worker;

enum fan_source_has {
	FAN_SOURCE_NONE,    /* there is no such fragment yet */
	FAN_SOURCE_BLOCKED, /* there is; but it waits for the result of another one */
	FAN_SOURCE_READY,
};

#define FAN_SOURCE_TAKEN (-1)

struct fan_source {
	enum fan_source_has (*has)(struct fan_worker *w, struct fan_wslot *s);

	/* Fill in the contribution of the slot, beyond its job and number.  False: `out` is full.
	 */
	bool (*fill)(struct fan_worker *w, struct fan_wslot *s, struct fan_frag *f,
		     struct fan_out *out);

	/* Take the result of what the slot has sent: FAN_SOURCE_TAKEN, or why `f` is not that one,
	 * enum fan_drop.  `*freed`: slots that were blocked may go now. */
	int (*take)(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
		    const struct fan_frag *f, bool *freed);
};

/* ---- op_source.c ---- */

extern const struct fan_source fan_op_source;

/* Is this rank the root of the operation that the slot is at? */
bool fan_op_source_is_root(struct fan_worker *w, struct fan_wslot *s);

/* Add the time since the last turn to `*spent`, busy or idle time, of which priorities are made. */
void fan_op_source_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent);

/* ---- tree_source.c: it has the rounds that are AWAITING; with its result a round is DONE ---- */

extern const struct fan_source fan_tree_source;

struct fan_worker {
	struct fan_worker_config cfg;
	const struct fan_source *source;
	enum fan_worker_phase phase;
	struct fan_welcome welcome;
	bool welcomed;
	bool heard_group;
	bool path_ends; /* a switch on the path is being stopped */
	bool unproved;	/* this address: until an answer to a BEAT from it */
	bool forgotten; /* by a switch on the path, which has sent WHO: until such an answer */
	uint8_t leave_tries;
	/* BEATs sent since one was answered or the WELCOME came; while it rejoins, JOINs */
	uint8_t unanswered;
	int8_t leave_err;
	uint64_t blamed[FAN_RANK_WORDS]; /* for LEAVE */
	uint32_t job, epoch;
	uint32_t workers;   /* of the job; set when it is ready */
	uint32_t run_ahead; /* allowed now, fragments */
	uint64_t start_ns;
	uint64_t heard_ns;		  /* time of the last packet received */
	uint64_t control_ns;		  /* time of the next JOIN, BEAT or LEAVE */
	uint64_t progress_ns;		  /* last result, or first operation after an idle time */
	uint64_t missing[FAN_RANK_WORDS]; /* in the last STATE */
	uint64_t missing_frag;		  /* fragment of the last STATE */
	uint64_t expired_ns;		  /* time of the last time-out */
	uint64_t slowest;		  /* where the slowest rank is, at least */
	uint64_t shrink_turn; /* first transmission from which on run_ahead may shrink */
	uint64_t grow_turn;   /* first transmission from which on run_ahead may grow */
	uint64_t who_ns;      /* time of the last BEAT in answer to WHO */
	uint64_t anew_ns;     /* earliest time to ask anew after another WHO */
	bool missing_known;
	bool rejoins; /* FORMING, READY: on another path, until its WELCOME */
	uint8_t path; /* number of its path */
	bool numbers; /* what is sent; the next hop asks by number, and so does this worker: */
	uint16_t ask_first, asked; /* first of the ring, and results requested that have not come */
	uint16_t asks;		   /* results to be requested, behind them in the ring */
	/* A missing result, by its sequence number. */
	struct fan_lost_result {
		uint64_t seq; /* of the next transmission when it was requested */
		uint16_t number;
		uint8_t tries;
		bool arrived;
	} ask[FAN_ASKS_MAX]; /* a ring */
	uint64_t blind_seq;  /* numbers may miss losses of transmissions before this one; 0: none */
	struct fan_fault fault;
	struct fan_worker_stats stats;
	enum fan_drop last_drop;
	bool predicts;		      /* the result that likely comes next: */
	struct fan_expected expected; /* while that is so */

	struct fan_seq_gap gap; /* of results */
	struct fan_rtt rtt;
	struct fan_congestion congestion;
	/* transmissions before it have been answered: a collision of one of them does not halve the
	 * window again */
	uint64_t collided_seq;
	uint32_t allowed; /* bound of fan_worker_allow: fragments in flight, beside the lowest */
	struct fan_window window;

	/* Operations first_op .. next_op - 1 are in flight, number i at op[i % MAX]. */
	struct fan_stream_op op[FAN_OPS_MAX];
	uint64_t first_op, next_op;
	uint64_t near_op;    /* the highest that has a slot's fragment: the next one's is near */
	uint64_t next_frag;  /* of the next operation */
	uint64_t turn_ns;    /* last change between busy, with operations in flight, and idle */
	uint64_t busy_ns;    /* recent busy time */
	uint64_t idle_ns;    /* recent idle time */
	uint64_t next_group; /* of the next operation in fixed mode */
	uint64_t low_group;  /* lowest group that is not finished */
	struct fan_stream_group group[FAN_STREAM_GROUPS];

	struct fan_worker_helper *helper; /* NULL: it keeps nothing for others */
};

/* Assert the invariants that hold between calls. */
static inline void fan_worker_check(const struct fan_worker *w)
{
	assert(w->phase <= FAN_W_LEFT);
	assert(w->phase != FAN_W_READY || w->welcomed);
	assert(!w->welcomed || w->window.size == w->welcome.window);
	assert(w->window.size <= w->cfg.window_max);
	assert(w->next_op - w->first_op <= FAN_OPS_MAX);
	assert(w->asked + w->asks <= FAN_ASKS_MAX && w->ask_first < FAN_ASKS_MAX);
	fan_window_check(&w->window);
	fan_congestion_check(&w->congestion);
	fan_rtt_check(&w->rtt);
}

/* Most fragments in flight now, beside the lowest. */
static inline uint32_t fan_worker_cwnd(const struct fan_worker *w)
{
	return w->allowed < w->congestion.cwnd ? w->allowed : w->congestion.cwnd;
}

/* End the worker with `fault`; only the first one counts. */
void fan_worker_fail(struct fan_worker *w, const struct fan_fault *fault);

/* FORMING: back to JOINING, with the same nonce. */
void fan_worker_join_again(struct fan_worker *w);

/* Time between control messages, short enough to notice a stall and query its cause. */
uint64_t fan_worker_interval_ns(const struct fan_worker *w);

static inline enum fan_verdict fan_worker_drop(struct fan_worker *w, unsigned why)
{
	w->last_drop = (enum fan_drop)why;
	w->stats.drops[why]++;
	return FAN_DROP;
}

/* ---- transfer.c ---- */

/* Handle a RESULT, or a NEED, for this worker's job. */
enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f);

enum fan_verdict fan_transfer_need(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Write all that the window allows.  True if `out` ran full. */
bool fan_transfer_send(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* The window has been opened: fragments of operations that were started before may be sent. */
void fan_transfer_begin(struct fan_worker *w);

/* The round of `frag` is ready to be sent. */
void fan_transfer_offered(struct fan_worker *w, uint64_t frag);

/* Operation number w->next_op - 1 has just been opened: its first fragments may be sent. */
void fan_transfer_opened(struct fan_worker *w);

/* ---- seq.c: losses by sequence number, of results and of contributions ---- */

/* The RESULT `f` has come, not as the next of a row without gaps: note its number. */
void fan_seq_jump(struct fan_worker *w, const struct fan_frag *f);

/* Handle a MISS for this worker's job: send again what the next hop has not received. */
enum fan_verdict fan_seq_missed(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Request missing results by MISS.  True if `out` ran full. */
bool fan_seq_ask(struct fan_worker *w, struct fan_out *out);

/* ---- run_ahead.c: the bound of a worker's distance to the slowest rank ---- */

/* The window of a job with run-ahead has been opened. */
void fan_run_ahead_begin(struct fan_worker *w);

/* The RESULT of slot `s` has come. */
void fan_run_ahead_heard(struct fan_worker *w, const struct fan_wslot *s,
			 const struct fan_frag *result);

/* A PROGRESS message for this worker's job has come. */
enum fan_verdict fan_run_ahead_progress(struct fan_worker *w, uint64_t now_ns,
					const struct fan_frag *f);

#endif
