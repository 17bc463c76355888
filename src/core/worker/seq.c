/* SPDX-License-Identifier: Apache-2.0 */
/* seq.c - what a worker, or its switch, misses by number. */
#include <assert.h>

#include "worker_priv.h"

static struct fan_lost_result *ask_at(struct fan_worker *w, unsigned n)
{
	return &w->ask[(w->ask_first + n) % FAN_ASKS_MAX];
}

/* Have losses made the congestion window shrink?  Then queues are full, and an immediate repeat
 * is lost again: results and timers set the progress, as without numbers. */
static bool is_congested(const struct fan_worker *w)
{
	return w->congestion.crowded;
}

/* More is lost than numbers show: until what is sent now has been answered, later results do. */
static void go_blind(struct fan_worker *w)
{
	w->blind_seq = w->window.seq;
	w->rtt.first_ns = 0;
	fan_window_by_number(&w->window, false);
}

/* Ask for result `number`, for the `tries`th time, unless too many are missing. */
static void push(struct fan_worker *w, uint16_t number, unsigned tries)
{
	if (w->asked + w->asks == FAN_ASKS_MAX) {
		go_blind(w);
		return;
	}
	assert(w->asked + w->asks < FAN_ASKS_MAX);
	*ask_at(w, w->asked + w->asks++) = (struct fan_lost_result){
		.number = number,
		.tries = (uint8_t)tries,
	};
}

/* One that later ones had overtaken has come. */
static void forget(struct fan_worker *w, uint16_t number)
{
	for (unsigned n = 0; n < w->asked + w->asks; n++)
		if (ask_at(w, n)->number == number)
			ask_at(w, n)->arrived = true;
}

/* The switch got the question before later datagrams.  If one of these has been answered and the
 * question has not, question or answer was lost: ask again. */
static void look_back(struct fan_worker *w)
{
	while (w->asked && w->window.acked >= ask_at(w, 0)->seq + FAN_GAP_RESULTS) {
		struct fan_lost_result a = *ask_at(w, 0);
		w->ask_first = (uint16_t)((w->ask_first + 1) % FAN_ASKS_MAX);
		w->asked--;
		if (!a.arrived && a.tries < FAN_ASK_TRIES)
			push(w, a.number, a.tries + 1u);
	}
}

/* Results are numbered as the switch finishes them, and a replay leaves behind all that
 * were finished before it: how far answers have come. */
void fan_seq_jump(struct fan_worker *w, const struct fan_frag *f)
{
	int step = (int16_t)(uint16_t)(f->seq - w->gap.last);
	uint64_t missing = fan_seq_gap_note(&w->gap, step, f->flags & FAN_F_REPLAY);
	if (!w->numbers)
		return;
	if (step <= 0)
		forget(w, f->seq);
	if (step >= FAN_SEQ_GAP_BITS || is_congested(w))
		go_blind(w);
	for (unsigned i = 0; missing && !is_congested(w); i++, missing >>= 1)
		if (missing & 1)
			push(w, (uint16_t)(w->gap.last - i), 1);
	look_back(w);
	uint32_t span = w->window.ahead ? w->congestion.max : w->window.size;
	if (w->blind_seq && w->window.acked >= w->blind_seq + span) {
		w->blind_seq = 0;
		w->rtt.first_ns = w->cfg.rto_min_ms ? 0 : FAN_RTO_FIRST_NS;
		fan_window_by_number(&w->window, true);
	}
}

/* Ask for the next results, as many as one MISS may. */
static void put_miss(struct fan_worker *w, struct fan_out *out)
{
	struct fan_frag f = {
		.job = w->job,
		.epoch = w->epoch,
		.sender = w->cfg.rank,
		.type = FAN_TYPE_MISS,
	};
	for (unsigned n = 0; n < FAN_MISS_MAX && w->asks; n++) {
		struct fan_lost_result *a = ask_at(w, w->asked);
		f.last = f.missing ? f.last : a->number;
		uint16_t below = (uint16_t)(f.last - a->number);
		if (below >= FAN_SEQ_GAP_BITS)
			break;
		f.missing |= a->arrived ? 0 : UINT64_C(1) << below;
		assert(a->tries >= 1 && a->tries <= FAN_ASK_TRIES);
		a->seq = w->window.seq;
		w->asked++;
		w->asks--;
	}
	if (f.missing)
		fan_wire_put(fan_out_add(out, FAN_TO_PEER)->head, &f);
}

bool fan_seq_ask(struct fan_worker *w, struct fan_out *out)
{
	while (w->asks) {
		if (!fan_out_fits(out, 1, 0))
			return true;
		put_miss(w, out);
	}
	return false;
}

enum fan_verdict fan_seq_missed(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	bool any = false;
	bool congested = is_congested(w);
	if (w->numbers && (congested || f->missing >> (FAN_SEQ_GAP_BITS - 1)))
		go_blind(w);
	for (unsigned k = 0; k < FAN_SEQ_GAP_BITS && w->numbers && !congested; k++) {
		uint32_t i = f->missing >> k & 1
				     ? fan_window_numbered(&w->window, (uint16_t)(f->last - k))
				     : FAN_WSLOT_NONE;
		if (i == FAN_WSLOT_NONE)
			continue;
		struct fan_wslot *s = &w->window.slot[i];
		bool is_data = s->seq == s->data_seq; /* probes have timers */
		if (!is_data || s->asked >= FAN_MISS_RESENDS || !fan_window_need(&w->window, i))
			continue;
		s->asked++;
		if (!w->window.ahead) /* else it is counted long before its window's results are */
			fan_congestion_lost(&w->congestion, now_ns);
		any = true;
	}
	if (!any)
		return fan_worker_drop(w, FAN_DROP_STALE);
	fan_rtt_heard(&w->rtt);
	return FAN_ASK;
}
