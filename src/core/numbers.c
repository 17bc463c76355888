/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - what a worker, or its switch, misses by number. */
#include "worker_priv.h"

static enum fan_verdict drop(struct fan_worker *w, enum fan_drop why)
{
	w->last_drop = why;
	w->stats.drops[why]++;
	return FAN_DROP;
}

/* Has it been long enough since the number FAN_GAP_AGAIN before the last came that a replay of it
 * would be here?  Where packets wait in queues of our own, so does a question. */
static bool is_late(const struct fan_worker *w, uint64_t now_ns)
{
	unsigned mark = (uint16_t)(w->gap.last - FAN_GAP_AGAIN) / FAN_GAP_STEP;
	return now_ns - w->heard_at_ns[mark % FAN_GAP_MARKS] >= w->rtt.least_ns;
}

/* Results are numbered as the switch finishes them, and a replay leaves behind all that
 * were finished before it: how far along we have heard. */
void fan_numbers_heard(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	uint16_t before = w->gap.last;
	int step = (int16_t)(uint16_t)(f->sender - before);
	uint64_t missing = fan_gap_note(&w->gap, step, f->flags & FAN_F_RESEND);
	if (!w->numbers)
		return;
	unsigned mark = w->gap.last / FAN_GAP_STEP;
	if (mark != before / FAN_GAP_STEP)
		w->heard_at_ns[mark % FAN_GAP_MARKS] = now_ns;
	if (missing >> FAN_GAP_AGAIN && !is_late(w, now_ns))
		missing &= (UINT64_C(1) << FAN_GAP_AGAIN) - 1;
	if (!missing)
		return;
	uint16_t since = (uint16_t)(w->gap.last - w->miss_at);
	w->miss = (since < FAN_GAP_BITS ? w->miss << since : 0) | missing;
	w->miss_at = w->gap.last;
}

/* Ask for results that have not come, as many as one MISS may. */
static void put_miss(struct fan_worker *w, struct fan_out *out)
{
	uint16_t since = (uint16_t)(w->gap.last - w->miss_at);
	w->miss &= since < FAN_GAP_BITS ? ~(w->gap.heard >> since) : 0; /* some came meanwhile */
	struct fan_frag f = {
		.job = w->job,
		.epoch = w->epoch,
		.sender = w->cfg.rank,
		.count = w->miss_at,
		.type = FAN_TYPE_MISS,
		.op = FAN_BARRIER,
	};
	for (unsigned n = 0; n < FAN_MISS_MAX && w->miss; n++) {
		uint64_t rest = w->miss & (w->miss - 1);
		f.frag |= w->miss ^ rest;
		w->miss = rest;
	}
	if (f.frag)
		fan_wire_put(fan_out_add(out, FAN_TO_PEER)->head, &f);
}

bool fan_numbers_ask(struct fan_worker *w, struct fan_out *out)
{
	while (w->miss) {
		if (!fan_out_fits(out, 1, 0))
			return true;
		put_miss(w, out);
	}
	return false;
}

enum fan_verdict fan_numbers_missed(struct fan_worker *w, const struct fan_frag *f)
{
	bool any = false;
	for (unsigned k = 0; k < FAN_GAP_BITS && w->numbers; k++) {
		uint32_t i = f->frag >> k & 1
				     ? fan_window_numbered(&w->window, (uint8_t)(f->count - k))
				     : FAN_WSLOT_NONE;
		if (i == FAN_WSLOT_NONE)
			continue;
		struct fan_wslot *s = &w->window.slot[i];
		bool is_data = s->seq == s->data_seq; /* probes have timers */
		if (!is_data || s->asked >= FAN_MISS_RESENDS || !fan_window_need(&w->window, i))
			continue;
		s->asked++;
		fan_congestion_lost(&w->congestion);
		any = true;
	}
	if (!any)
		return drop(w, FAN_DROP_STALE);
	fan_rtt_heard(&w->rtt);
	return FAN_ASK;
}
