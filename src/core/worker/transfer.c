/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - a worker's fragments in flight: sending, and learning from results. */
#include <assert.h>

#include "core/sum/contribution.h"
#include "worker_priv.h"

/* Probes for one contribution that leave it to the switch whether the result may still be in
 * flight; further ones insist on it.  So do those of the timer. */
#define PROBES_SOFT 2

/* Queue the slot's fragment if it exists and nothing holds it up. */
static void schedule(struct fan_worker *w, uint32_t i)
{
	struct fan_wslot *s = &w->window.slot[i];
	s->state = FAN_WSLOT_IDLE;
	switch (w->source->has(w, s)) {
	case FAN_SOURCE_READY: fan_window_ready(&w->window, i); break;
	case FAN_SOURCE_BLOCKED: s->state = FAN_WSLOT_BLOCKED; break;
	case FAN_SOURCE_NONE: break;
	}
}

/* Look again at the slots whose fragments waited for exponents, or for their place: in
 * the order of their fragments, so that all ranks send in the same order. */
static void unblock(struct fan_worker *w)
{
	uint32_t size = w->window.size;
	uint64_t lowest = UINT64_MAX;
	for (uint32_t i = 0; i < size; i++) {
		const struct fan_wslot *s = &w->window.slot[i];
		if (s->state == FAN_WSLOT_BLOCKED && s->frag < lowest)
			lowest = s->frag;
	}
	if (lowest == UINT64_MAX)
		return;
	for (uint32_t n = 0; n < size; n++) {
		uint32_t i = (uint32_t)((lowest + n) % size);
		if (w->window.slot[i].state == FAN_WSLOT_BLOCKED)
			schedule(w, i);
	}
}

void fan_transfer_opened(struct fan_worker *w)
{
	assert(w->next_op > w->first_op);
	const struct fan_stream_op *op = &w->op[(w->next_op - 1) % FAN_OPS_MAX];
	uint32_t size = w->window.size;
	if (size == w->window.in_flight)
		return; /* no slot is idle; or not welcomed yet: fan_transfer_begin will come */
	uint64_t end = op->first + (op->frags < size ? op->frags : size);
	uint32_t i = (uint32_t)(op->first % size);
	for (uint64_t n = op->first; n < end; n++, i = i + 1 == size ? 0 : i + 1) {
		struct fan_wslot *s = &w->window.slot[i];
		if (s->state == FAN_WSLOT_IDLE && s->frag < w->next_frag)
			schedule(w, i);
	}
}

void fan_transfer_offered(struct fan_worker *w, uint64_t frag)
{
	assert(w->cfg.relayed && w->window.size > 0);
	uint32_t i = (uint32_t)(frag % w->window.size);
	const struct fan_wslot *s = &w->window.slot[i];
	if (s->frag == frag && s->state == FAN_WSLOT_IDLE) /* else the slot comes to it */
		schedule(w, i);
}

void fan_transfer_begin(struct fan_worker *w)
{
	for (uint32_t i = 0; i < w->window.size; i++)
		schedule(w, i);
}

static struct fan_frag head_of(const struct fan_worker *w, enum fan_type type, uint64_t frag)
{
	return (struct fan_frag){
		.frag = frag,
		.job = w->job,
		.epoch = w->epoch,
		.sender = w->cfg.rank,
		.type = (uint8_t)type,
		.seq = w->numbers ? (uint16_t)w->window.seq : 0,
	};
}

static bool put_contribution(struct fan_worker *w, uint32_t i, bool again, struct fan_out *out)
{
	struct fan_wslot *s = &w->window.slot[i];
	struct fan_frag f = head_of(w, FAN_TYPE_DATA, s->frag);
	if (!w->source->fill(w, s, &f, out))
		return false;
	if (!again && fan_window_asks(&w->window, fan_worker_cwnd(w)))
		f.flags |= FAN_F_ASK;
	f.place = s->place;
	f.flags |= (uint16_t)((s->flags & FAN_WSLOT_DIRECT ? FAN_F_DIRECT : 0) |
			      (w->cfg.options & FAN_JOIN_SUMMED ? FAN_F_SUMMED : 0));
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->payload = f.payload;
	it->payload_bytes = f.payload_bytes;
	fan_wire_put(it->head, &f);
	w->stats.sent++;
	w->stats.resent += again || s->refusals;
	return true;
}

static void put_probe(struct fan_worker *w, uint32_t i, struct fan_out *out)
{
	const struct fan_wslot *s = &w->window.slot[i];
	struct fan_frag f = head_of(w, FAN_TYPE_PROBE, s->frag);
	f.last = w->gap.last;
	f.flags = s->probes >= PROBES_SOFT ? FAN_F_INSIST : 0;
	f.place = s->place;
	fan_wire_put(fan_out_add(out, FAN_TO_PEER)->head, &f);
	w->stats.probes++;
}

/* All that is in flight comes after the fragment in slot `i`, since under congestion this rank
 * sends others than some ranks do: their contributions have passed the switches, no slot will fill,
 * and every rank waits for this one.  A switch refuses a fragment to all ranks or none. */
static bool is_left_behind(const struct fan_worker *w, uint32_t i)
{
	const struct fan_window *v = &w->window;
	const struct fan_wslot *s = &v->slot[i];
	return !v->ahead && v->in_flight && s->frag == v->low && !s->refusals &&
	       fan_worker_cwnd(w) < v->size;
}

bool fan_transfer_send(struct fan_worker *w, uint64_t now_ns, struct fan_out *out)
{
	if (w->asks && fan_seq_ask(w, out))
		return true;
	for (unsigned what;;) {
		uint32_t i = fan_window_next(&w->window, fan_worker_cwnd(w), &what);
		if (i == FAN_WSLOT_NONE)
			return false;
		if (!what && (!fan_congestion_takes_slot(&w->congestion) || is_left_behind(w, i)))
			w->window.slot[i].flags |= FAN_WSLOT_DIRECT;
		bool fits = fan_out_fits(out, 1, 0);
		if (fits && what == FAN_WSLOT_PROBE)
			put_probe(w, i, out);
		else if (fits)
			fits = put_contribution(w, i, what == FAN_WSLOT_RESEND, out);
		if (!fits) {
			fan_window_unget(&w->window, i, what);
			return true;
		}
		fan_window_sent(&w->window, i, now_ns, what);
	}
}

/* The fragment of slot `s` has found its shared slot taken, or a mark.  The slot's next fragment
 * then looks for a shared slot elsewhere: all ranks have the same result, so they all look there.
 */
static void note_signs(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
		       const struct fan_frag *f)
{
	if (f->flags & FAN_F_COLLISION) {
		w->stats.collisions++;
		s->place = (uint8_t)((f->place + 1) % FAN_PLACES);
		fan_congestion_taken(&w->congestion, now_ns);
	}
	if (f->flags & FAN_F_ECN) {
		w->stats.marks++;
		fan_congestion_marked(&w->congestion, now_ns);
	}
}

/* Learn from the arrival of the result of slot `s`: the round trip, the network's load, and where
 * the other ranks are. */
static void note_arrival(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
			 const struct fan_frag *f)
{
	uint64_t trip_ns = 0;
	/* Replays are marked, so a probe does not make a sample ambiguous. */
	if (!(s->flags & FAN_WSLOT_AGAIN) && !(f->flags & FAN_F_REPLAY)) {
		trip_ns = now_ns - s->data_ns;
		fan_rtt_sample(&w->rtt, trip_ns);
	}
	fan_rtt_heard(&w->rtt);
	w->progress_ns = now_ns;
	w->stats.results++;
	if (f->flags & FAN_F_REPLAY) {
		w->stats.replays++;
		fan_congestion_lost(&w->congestion, now_ns);
	} else {
		fan_congestion_done(&w->congestion, now_ns, trip_ns);
	}
	s->place = f->place;
	if (f->flags & (FAN_F_COLLISION | FAN_F_ECN))
		note_signs(w, now_ns, s, f);
	if (w->window.ahead)
		fan_run_ahead_heard(w, s, f);
}

/* The slot of fragment `frag`. */
static uint32_t slot_of(const struct fan_window *w, uint64_t frag)
{
	const uint64_t at = w->low_at + (frag - w->low);
	if (frag - w->low >= w->size) /* seldom: it takes a division */
		return (uint32_t)(frag % w->size);
	return (uint32_t)(at < w->size ? at : at - w->size);
}

static enum fan_verdict take_result(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	uint32_t i = slot_of(&w->window, f->frag);
	struct fan_wslot *s = &w->window.slot[i];
	bool freed = false;
	__builtin_prefetch(s + 2); /* results come in order, mostly */
	if (f->frag != s->frag || s->state != FAN_WSLOT_SENT)
		return fan_worker_drop(w, f->frag < s->frag ? FAN_DROP_STALE : FAN_DROP_AHEAD);
	if (w->cfg.options & FAN_JOIN_SUMMED && !(f->flags & FAN_F_SUMMED))
		return fan_worker_drop(w, FAN_DROP_CHECK);
	int why = w->source->take(w, now_ns, s, f, &freed);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	note_arrival(w, now_ns, s, f);
	if (w->helper)
		fan_worker_helper.forget(w->helper, s->frag);
	fan_window_done(&w->window, i);
	schedule(w, i);
	if (freed)
		unblock(w);
	return FAN_DONE;
}

/* Note the number of a RESULT. */
static void note_number(struct fan_worker *w, const struct fan_frag *f)
{
	bool next = (uint16_t)(f->seq - w->gap.last) == 1;
	if (next && w->gap.heard == UINT64_MAX && !w->asked && !w->blind_seq)
		w->gap.last++; /* as it is nearly always */
	else
		fan_seq_jump(w, f);
}

enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f)
{
	if (w->window.size == 0)
		return fan_worker_drop(w, FAN_DROP_STATE);
	enum fan_verdict v = take_result(w, now_ns, f);
	if (v != FAN_DROP || w->last_drop != FAN_DROP_DUPLICATE)
		note_number(w, f); /* else ours is still to come */
	return v;
}

/* Handle a RESULT that was sent to another rank. */
static enum fan_verdict supply(struct fan_worker *w, uint64_t now_ns, struct fan_frag *f)
{
	if (w->window.size == 0 || w->cfg.relayed || f->frag >= w->next_frag)
		return fan_worker_drop(w, FAN_DROP_STATE);
	struct fan_wslot *s = &w->window.slot[f->frag % w->window.size];
	if (f->frag == s->frag && f->flags & FAN_F_REDUCE && !fan_op_source_is_root(w, s)) {
		f->flags |= FAN_F_EMPTY; /* of which the root alone has the elements */
		f->payload_bytes = 0;
	}
	return take_result(w, now_ns, f);
}

/* Slot `i` has found no shared slot, and its contribution was dropped.  It goes again when the
 * window, now smaller, lets it: earlier results have freed slots.  After too many refusals it
 * bypasses all slots: the owner of its slot may wait for fragments behind it here. */
static enum fan_verdict refused(struct fan_worker *w, uint64_t now_ns, uint32_t i)
{
	struct fan_wslot *s = &w->window.slot[i];
	if (s->refusals >= FAN_REFUSALS_MAX) {
		s->flags |= FAN_WSLOT_DIRECT;
		return fan_window_need(&w->window, i) ? FAN_ASK
						      : fan_worker_drop(w, FAN_DROP_DUPLICATE);
	}
	uint64_t seq = s->data_seq;
	if (!fan_window_refused(&w->window, i))
		return fan_worker_drop(w, FAN_DROP_DUPLICATE);
	w->stats.collisions++;
	fan_rtt_heard(&w->rtt);
	if (seq < w->collided_seq)
		return FAN_ASK;
	fan_congestion_collided(&w->congestion, now_ns);
	w->collided_seq = w->window.seq;
	return FAN_ASK;
}

enum fan_verdict fan_transfer_need(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	if (w->window.size == 0)
		return fan_worker_drop(w, FAN_DROP_STATE);
	uint64_t asked[FAN_RANK_WORDS];
	if (f->words && !fan_partial_ranks(asked, f, w->cfg.ranks))
		return fan_worker_drop(w, FAN_DROP_FORMAT);
	if (f->words ? !fan_ranks_has(asked, w->cfg.rank) : f->to != FAN_TAG(w->cfg.rank))
		return fan_worker_drop(w, FAN_DROP_SENDER); /* others are asked */
	uint32_t i = (uint32_t)(f->frag % w->window.size);
	struct fan_wslot *s = &w->window.slot[i];
	if (f->frag != s->frag || s->state != FAN_WSLOT_SENT)
		return fan_worker_drop(w, f->frag < s->frag ? FAN_DROP_STALE : FAN_DROP_AHEAD);
	if (f->flags & FAN_F_COLLISION && !w->window.ahead)
		return refused(w, now_ns, i);
	s->flags |= FAN_WSLOT_DIRECT;
	if (!fan_window_need(&w->window, i))
		return fan_worker_drop(w, FAN_DROP_DUPLICATE);
	if (s->seq != s->data_seq) /* it answers a probe */
		fan_rtt_answer(&w->rtt, now_ns - s->sent_ns);
	if (!w->window.ahead) /* else slow links fill with questions faster than they empty */
		fan_rtt_heard(&w->rtt);
	fan_congestion_lost(&w->congestion, now_ns);
	return FAN_ASK;
}

/* ---- a worker whose aggregator is lost ---- */

uint64_t fan_worker_awaits(const struct fan_worker *w, uint32_t slot)
{
	assert(slot < w->window.size);
	return w->window.slot[slot].frag;
}

bool fan_worker_supply(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt, size_t len)
{
	struct fan_frag f;
	bool ours = fan_wire_get(&f, pkt, len) < 0 && f.type == FAN_TYPE_RESULT && w->welcomed &&
		    fan_job_id_is(f.job, w->job) && f.epoch == w->epoch;
	return ours && supply(w, now_ns, &f) == FAN_DONE;
}

/* The fragment that carries the elements of block `block`. */
static uint64_t frag_of_block(const struct fan_stream_op *s, uint64_t block)
{
	if (!s->groups)
		return s->first + block;
	return fan_stream_group_data(s, s->group_first + block / s->per_group) +
	       block % s->per_group;
}

bool fan_worker_next_missing(const struct fan_worker *w, uint64_t id, struct fan_missing *r)
{
	const struct fan_stream_op *s = &w->op[id % FAN_OPS_MAX];
	uint64_t first, end;
	if (id < w->first_op || id >= w->next_op || !s->left)
		return false;
	for (first = r->block; first < s->blocks; first++)
		if (w->window.slot[frag_of_block(s, first) % w->window.size].frag <=
		    frag_of_block(s, first))
			break;
	for (end = first; end < s->blocks; end++)
		if (w->window.slot[frag_of_block(s, end) % w->window.size].frag >
		    frag_of_block(s, end))
			break;
	r->block = end;
	r->first = first * s->per_frag;
	r->end = end * s->per_frag < s->op.count ? end * s->per_frag : s->op.count;
	return first < end;
}
