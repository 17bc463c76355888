/* SPDX-License-Identifier: Apache-2.0 */
/* run_ahead.c - how far ahead of the slowest rank a worker may be. */
#include <assert.h>

#include "core/wire/progress.h"
#include "worker_priv.h"

#define LEAST_BURSTS 4
#define LEAST_FRAGS  256u

/* Windows' worth of first transmissions that go in step: after the first mark, until it is known
 * whether slots suffice; and after each contribution that found none. */
#define FIRST_STEPS  4u
#define SCARCE_STEPS 64u

/* How far ahead of the slowest a worker may be in any case: a few times its
 * window, or as far as slots in a usual number allow; but as far as without running ahead, and no
 * further where queues are marked, since all of it may have to cross them unsummed. */
static uint32_t least_run_ahead(const struct fan_worker *w)
{
	uint32_t burst = w->congestion.max, least = LEAST_BURSTS * burst;
	least = least < LEAST_FRAGS ? least : LEAST_FRAGS;
	least = least > burst && !w->congestion.marks ? least : burst;
	return least < w->window.size ? least : w->window.size;
}

void fan_run_ahead_begin(struct fan_worker *w)
{
	w->run_ahead = least_run_ahead(w);
	w->window.limit = w->run_ahead;
}

/* The slowest rank has come to `frag`, at least. */
static void note_slowest(struct fan_worker *w, uint64_t frag)
{
	if (frag > w->slowest)
		w->slowest = frag;
	assert(w->run_ahead <= w->window.size);
	w->window.limit = w->slowest + w->run_ahead;
}

/* Run less far ahead: half of `now`, or of the limit.  Once for all that was sent in that time. */
static void shrink(struct fan_worker *w, const struct fan_wslot *s, uint64_t now)
{
	uint32_t least = least_run_ahead(w);
	if (s->turn < w->shrink_turn)
		return;
	now = (now < w->run_ahead ? now : w->run_ahead) / 2;
	w->run_ahead = (uint32_t)(now < least ? least : now);
	w->shrink_turn = w->window.turns + 1;
	w->grow_turn = w->window.turns + UINT64_C(2) * w->run_ahead;
}

/* If queues mark, unaggregated contributions cost more than waiting for slow ranks: go in step with
 * them for `windows` windows. */
static void go_in_step(struct fan_worker *w, uint32_t windows)
{
	assert(w->congestion.marks);
	w->window.step_turn = w->window.turns + (uint64_t)windows * w->congestion.max;
}

void fan_run_ahead_heard(struct fan_worker *w, const struct fan_wslot *s,
			 const struct fan_frag *result)
{
	if (result->flags & FAN_F_ECN) {
		shrink(w, s, w->run_ahead);
		if (!w->window.step_turn)
			go_in_step(w, FIRST_STEPS);
	}
	note_slowest(w, s->frag + 1); /* all have sent it */
}

/* How far to run ahead: less where contributions cross the network unsummed and wait in its queues,
 * which is then what they all wait for, or not at all; more where nothing but this bound holds them
 * back. */
static void adapt(struct fan_worker *w, uint64_t now_ns, const struct fan_wslot *s,
		  const struct fan_frag *f)
{
	uint64_t now = s->frag < w->slowest ? 0 : s->frag + 1 - w->slowest;
	uint32_t most = w->window.size;
	if (s->flags & FAN_WSLOT_AGAIN)
		return;
	if (f->flags & FAN_F_AWAY && w->congestion.marks)
		go_in_step(w, SCARCE_STEPS);
	fan_rtt_answer(&w->rtt, now_ns - s->data_ns);
	if (f->flags & (FAN_F_ECN | FAN_F_FULL)) {
		shrink(w, s, now);
	} else if (now + w->congestion.max >= w->run_ahead && s->turn >= w->grow_turn) {
		bool never = w->shrink_turn == 0; /* it had to: there is no need to be careful */
		uint32_t more = w->run_ahead / 8 + 1;
		w->run_ahead = most - w->run_ahead < more ? most : w->run_ahead + more;
		w->grow_turn = never ? 0 : w->window.turns + w->run_ahead / 4;
	}
}

enum fan_verdict fan_run_ahead_progress(struct fan_worker *w, uint64_t now_ns,
					const struct fan_frag *f)
{
	if (!w->window.ahead)
		return fan_worker_drop(w, FAN_DROP_STATE);
	uint32_t i = (uint32_t)(f->frag % w->window.size);
	const struct fan_wslot *s = &w->window.slot[i];
	if (f->frag > s->frag || (f->frag == s->frag && s->state != FAN_WSLOT_SENT))
		return fan_worker_drop(w, FAN_DROP_AHEAD);
	if (f->frag == s->frag) {
		adapt(w, now_ns, s, f);
		fan_window_arrived(&w->window, i);
	}
	note_slowest(w, f->frag + 1 < f->behind ? 0 : f->frag + 1 - f->behind);
	return FAN_CTL;
}
