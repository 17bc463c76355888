/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - a worker's fragments in flight: which to send, which are late.
 *
 * W window slots, as many as the switch has for the job; slot i handles fragments i,
 * i + W, i + 2W, ... one at a time.  Slots are independent: one that waits for a lost
 * fragment holds up no other.  Every transmission (contribution or probe) takes the
 * next sequence number; when a result arrives for a transmission that is
 * FAN_GAP_RESULTS or more later than another's, the other is late and is probed for,
 * which gives it a new sequence number.  So a fragment is probed for about once per
 * round trip, by the progress of the results, and by the timer when nothing comes.
 *
 * The congestion window bounds how many are in flight; where ranks run ahead of each
 * other, how many are under way: sent after the last that is known to have arrived, be it
 * that its result is there or that PROGRESS says so.  But the lowest unfinished
 * fragment may always be sent: ranks that lost different packets would else hold
 * different fragments in flight and wait for each other for ever.  With it, the lowest
 * fragment that is unfinished anywhere is sent by all. */
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
	FAN_WSLOT_RESEND = 1 << 2, /* the switch asked for it again */
	FAN_WSLOT_URGENT = 1 << 3, /* is in the urgent queue */
	FAN_WSLOT_QUEUED = 1 << 4, /* is in the ready queue, maybe sent out of turn since */
	FAN_WSLOT_DIRECT = 1 << 5, /* the aggregator has asked for it: slots are to let it pass */
};

struct fan_wslot {
	uint64_t frag;	   /* the fragment it is at */
	uint64_t seq;	   /* of the last transmission, contribution or probe */
	uint64_t data_seq; /* of the last contribution */
	uint64_t data_ns;  /* when that was */
	uint64_t sent_ns;  /* when the last transmission was */
	uint64_t op;	   /* number of the operation that `frag` belongs to, or a lower one */
	uint64_t turn;	   /* of its first transmission, among all first ones */
	uint8_t state;	   /* enum fan_wslot_state */
	uint8_t flags;	   /* enum fan_wslot_flag */
	uint8_t place;	   /* of its fragment: which of FAN_PLACES shared slots */
	uint8_t probes;	   /* sent since the last contribution; UINT8_MAX: the timer ran out */
	uint8_t asked;	   /* times that its fragment was sent again since its number was missed */
};

/* A bounded queue of slot indices. */
struct fan_wqueue {
	uint16_t *at;
	uint32_t size, head, count;
};

struct fan_wlog_entry {
	uint64_t seq;
	uint32_t slot;
};

struct fan_window {
	struct fan_wslot *slot;
	uint32_t size; /* W */
	struct fan_wqueue ready, urgent;
	struct fan_wlog_entry *log; /* transmissions by seq, oldest first; some are over */
	uint32_t log_size, log_head, log_count;
	uint64_t seq;	    /* of the next transmission */
	uint64_t acked;	    /* highest seq whose result is there */
	uint64_t low;	    /* lowest fragment whose result is not there */
	uint32_t in_flight; /* slots in state SENT */
	/* Where ranks run ahead of each other, results do not tell what has arrived: */
	bool ahead;
	uint32_t gap;	  /* later ones answered that make a transmission late */
	uint64_t next;	  /* fragment to be sent first: they go in order */
	uint64_t turns;	  /* first transmissions so far... */
	uint64_t reached; /* ...the highest that is known to have arrived... */
	uint64_t asked;	  /* ...and the last that asked whether it has */
	uint64_t limit;	  /* no fragment from this one on is sent for the first time */
};

/* What holds between calls; fan_window_audit goes through the slots as well. */
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

/* The switch granted `size` <= max slots: slot i starts at fragment i. */
void fan_window_open(struct fan_window *w, uint32_t size);

/* After open: ranks run ahead of each other, with at most `burst` fragments under way.  Parts
 * take different ways then, and a result is late when that many others have overtaken it. */
void fan_window_run_ahead(struct fan_window *w, uint32_t burst);

/* The part of slot `i`'s fragment has arrived. */
void fan_window_arrived(struct fan_window *w, uint32_t i);

/* Shall the transmission that comes next, a first one, ask whether it has arrived?  Once in
 * a window, and more often while results wait for slow ranks. */
bool fan_window_asks(struct fan_window *w, uint32_t cwnd);

/* Queue slot `i` for its first transmission. */
void fan_window_ready(struct fan_window *w, uint32_t i);

/* The switch asks for slot `i`'s fragment again.  False if it is being sent anyway. */
bool fan_window_need(struct fan_window *w, uint32_t i);

/* After open: does what is lost show by its number,
 * so that results need not tell? */
void fan_window_by_number(struct fan_window *w, bool shows);

/* The slot whose last transmission has the sequence number that ends in `low`; or
 * FAN_WSLOT_NONE. */
uint32_t fan_window_numbered(const struct fan_window *w, uint16_t low);

/* The next slot with something to send, taken off its queue, and what: FAN_WSLOT_PROBE,
 * FAN_WSLOT_RESEND or 0 for a first transmission, of which at most `cwnd` are in
 * flight beside the lowest.  FAN_WSLOT_NONE if there is none. */
uint32_t fan_window_next(struct fan_window *w, uint32_t cwnd, unsigned *what);

/* Would fan_window_next give something?  May say so once too often. */
bool fan_window_may_send(const struct fan_window *w, uint32_t cwnd);

/* Put back what fan_window_next gave: there was no room to send it. */
void fan_window_unget(struct fan_window *w, uint32_t i, unsigned what);

/* Slot `i` was transmitted. */
void fan_window_sent(struct fan_window *w, uint32_t i, uint64_t now_ns, unsigned what);

/* The result of slot `i` is there: on to its next fragment.  Late slots get probes.  It
 * answers the contribution, and says nothing of probes that were sent meanwhile. */
void fan_window_done(struct fan_window *w, uint32_t i);

/* The slot whose last transmission is the longest ago, or FAN_WSLOT_NONE. */
uint32_t fan_window_oldest(struct fan_window *w);

/* The timer ran out: probe for the `most` oldest transmissions.  Insist on the
 * lowest fragment, which is what everybody waits for in the end, and on the newest: the
 * number of its result tells which of the others must have been lost. */
void fan_window_expire(struct fan_window *w, unsigned most);

#endif
