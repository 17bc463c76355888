/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - a worker's fragments in flight: which one is sent next, and which are late.
 *
 * There are W window slots, as many as the switch grants; slot i handles fragments i, i + W, i + 2W
 * and so on, one at a time.  Slots are independent: one that waits for a lost fragment delays no
 * other.  Every transmission (contribution or probe) takes the next sequence number.  When the
 * result of a transmission arrives that is FAN_GAP_RESULTS or more later than another one, the
 * other is late and is probed for, which gives it a new sequence number.  So a fragment is probed
 * for about once per round trip while results arrive, and by the timer otherwise.
 *
 * The congestion window bounds the fragments in flight; with run-ahead, those in flight: sent after
 * the last one that has arrived, by its result or PROGRESS.  The lowest unfinished fragment
 * may always be sent: otherwise ranks that lost different packets could hold different fragments in
 * flight and wait for each other for ever.  So all ranks send the lowest fragment that is
 * unfinished anywhere. */
#ifndef FAN_RECOVERY_WINDOW_H
#define FAN_RECOVERY_WINDOW_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"

#define FAN_WSLOT_NONE UINT32_MAX

enum fan_wslot_state {
	FAN_WSLOT_IDLE,	   /* its next fragment belongs to no operation yet */
	FAN_WSLOT_BLOCKED, /* its fragment waits for block exponents */
	FAN_WSLOT_READY,   /* queued: will be sent when the congestion window allows */
	FAN_WSLOT_SENT,	   /* waits for its result */
};

enum fan_wslot_flag {
	FAN_WSLOT_AGAIN = 1 << 0,  /* contributed more than once: no RTT sample */
	FAN_WSLOT_PROBE = 1 << 1,  /* a probe is due */
	FAN_WSLOT_RESEND = 1 << 2, /* the contribution was requested again */
	FAN_WSLOT_URGENT = 1 << 3, /* in the urgent queue */
	FAN_WSLOT_QUEUED = 1 << 4, /* in the ready queue, maybe sent out of turn since */
	FAN_WSLOT_DIRECT = 1 << 5, /* requested by the aggregator: to pass all slots */
};

struct fan_wslot {
	uint64_t frag;	   /* its current fragment */
	uint64_t seq;	   /* of the last transmission, contribution or probe */
	uint64_t data_seq; /* of the last contribution */
	uint64_t data_ns;  /* time of the last contribution */
	uint64_t sent_ns;  /* time of the last transmission */
	uint64_t op;	   /* number of the operation that `frag` belongs to, or a lower one */
	uint64_t turn;	   /* of its first transmission, among all first ones */
	uint8_t state;	   /* enum fan_wslot_state */
	uint8_t flags;	   /* enum fan_wslot_flag */
	uint8_t place;	   /* of its fragment: one of FAN_PLACES shared slots */
	uint8_t probes;	   /* sent since the last contribution; UINT8_MAX: the timer ran out */
	uint8_t asked;	   /* resends of its fragment after MISS */
	uint8_t refusals;  /* of its fragment: contributions that were dropped for want of a slot */
};

struct fan_window {
	struct fan_wslot *slot;
	uint32_t size;	 /* W */
	uint32_t low_at; /* the slot of fragment `low` */
	/* A bounded queue of slot indices. */
	struct fan_wqueue {
		uint16_t *at;
		uint32_t size, head, count;
	} ready, urgent;
	/* slots of transmissions, oldest first, in the order of their numbers and without a gap, up
	 * to seq - 1; some are over */
	uint16_t *log;
	uint32_t log_size, log_head, log_count;
	uint64_t seq;	    /* of the next transmission */
	uint64_t acked;	    /* highest seq whose result is there */
	uint64_t low;	    /* lowest fragment whose result is not there */
	uint64_t search;    /* no slot with a lower fragment is READY; not of use with run-ahead */
	uint32_t in_flight; /* slots in state SENT */
	/* With run-ahead, where results do not show what has arrived: */
	bool ahead;
	uint32_t gap;	  /* later transmissions answered before one is late */
	uint64_t next;	  /* lowest fragment not sent yet: they are sent in order */
	uint64_t turns;	  /* first transmissions so far */
	uint64_t reached; /* highest first transmission known to have arrived */
	uint64_t asked;	  /* last first transmission that requested PROGRESS */
	uint64_t limit;	  /* fragments from this one on are not sent yet */
	/* first transmissions before this one go in step: the congestion window bounds the ones
	 * that wait for results, whatever has arrived; 0: none */
	uint64_t step_turn;
};

/* Assert the invariants that hold between calls; fan_window_audit checks the slots as well. */
static inline void fan_window_check(const struct fan_window *w)
{
	assert(w->in_flight <= w->size);
	assert(w->ready.count <= w->size && w->urgent.count <= w->size);
	assert(w->log_count <= w->log_size);
	assert(w->acked < w->seq || !w->size);
	assert(w->reached <= w->turns);
}
void fan_window_audit(const struct fan_window *w);

/* Bytes for a window of at most `max` slots; then lay it out in `mem`, aligned to 8. */
size_t fan_window_bytes(uint32_t max);
void fan_window_init(struct fan_window *w, void *mem, uint32_t max);

/* Open `size` <= max slots, as granted: slot i starts at fragment i. */
void fan_window_open(struct fan_window *w, uint32_t size);

/* After open: run-ahead, with at most `burst` fragments in flight.  Contributions then take
 * different paths, and a result is late when `burst` others have overtaken it. */
void fan_window_run_ahead(struct fan_window *w, uint32_t burst);

/* The contribution of slot `i` has arrived. */
void fan_window_arrived(struct fan_window *w, uint32_t i);

/* Shall the next first transmission request PROGRESS?  Once a window, and more often while
 * results wait for slow ranks. */
bool fan_window_asks(struct fan_window *w, uint32_t cwnd);

/* Queue slot `i` for its first transmission. */
void fan_window_ready(struct fan_window *w, uint32_t i);

/* The contribution of slot `i` is requested again.  False if it is about to be sent anyway. */
bool fan_window_need(struct fan_window *w, uint32_t i);

/* The contribution of slot `i` was dropped for want of a shared slot: it goes again as if it had
 * not been sent.  Not with run-ahead.  False if it is not out, or about to be sent again anyway. */
bool fan_window_refused(struct fan_window *w, uint32_t i);

/* After open: do sequence numbers show losses, so that results need not? */
void fan_window_by_number(struct fan_window *w, bool shows);

/* The slot whose last transmission's sequence number has these low bits, or FAN_WSLOT_NONE. */
uint32_t fan_window_numbered(const struct fan_window *w, uint16_t low);

/* Take the next slot with something to send off its queue.  `*what` is FAN_WSLOT_PROBE,
 * FAN_WSLOT_RESEND or 0: a first transmission, of which at most `cwnd` are in flight
 * beside the lowest.  FAN_WSLOT_NONE if there is nothing to send. */
uint32_t fan_window_next(struct fan_window *w, uint32_t cwnd, unsigned *what);

/* Would fan_window_next return a slot?  May be true once too often. */
bool fan_window_may_send(const struct fan_window *w, uint32_t cwnd);

/* Put back the slot that fan_window_next returned: there was no room to send it. */
void fan_window_unget(struct fan_window *w, uint32_t i, unsigned what);

/* Slot `i` was transmitted. */
void fan_window_sent(struct fan_window *w, uint32_t i, uint64_t now_ns, unsigned what);

/* The result of slot `i` has come: go on to its next fragment, and mark late slots for probes.
 * A result answers the contribution, not probes that were sent since. */
void fan_window_done(struct fan_window *w, uint32_t i);

/* The slot with the oldest last transmission, or FAN_WSLOT_NONE. */
uint32_t fan_window_oldest(struct fan_window *w);

/* The timer ran out: probe for the `most` oldest transmissions.  Insist on the lowest
 * fragment, for which all ranks wait in the end, and on the newest: the number of its
 * result shows which of the others were lost. */
void fan_window_expire(struct fan_window *w, unsigned most);

#endif
