/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - a worker's fragments: out of the tensor, and back into it. */
#include <assert.h>

#include "core/base/copy.h"
#include "core/sum/quant.h"
#include "core/sum/reduce.h"
#include "core/wire/partial.h"
#include "core/wire/progress.h"
#include "run_ahead.h"
#include "seq.h"
#include "transfer.h"
#include "tree_source.h"
#include "worker_priv.h"

/* Probes for one contribution that leave it to the switch whether the result may still be
 * under way; further ones insist on it.  So do those of the timer. */
#define PROBES_SOFT 2

#define CHUNK 256 /* elements converted at a time on their way past the cache */

static struct fan_stream_op *op_at(struct fan_worker *w, uint64_t id)
{
	return &w->op[id % FAN_OPS_MAX];
}

/* The operation that the slot's fragment belongs to, or NULL: not started yet. */
static struct fan_stream_op *op_of(struct fan_worker *w, struct fan_wslot *s)
{
	if (s->frag >= w->next_frag)
		return NULL;
	if (s->op < w->first_op)
		s->op = w->first_op;
	while (s->frag >= op_at(w, s->op)->first + op_at(w, s->op)->frags)
		s->op++; /* ends: the fragment is below next_frag */
	assert(s->op < w->next_op && s->frag >= op_at(w, s->op)->first);
	return op_at(w, s->op);
}

/* The place of a group's exponents; NULL while the window of groups is below it. */
static struct fan_stream_group *group_at(struct fan_worker *w, const struct fan_stream_op *op,
					 uint64_t number)
{
	assert(number >= w->low_group && number < w->next_group);
	if (number >= w->low_group + FAN_STREAM_GROUPS)
		return NULL;
	struct fan_stream_group *g = &w->group[number % FAN_STREAM_GROUPS];
	if (!g->used || g->number != number) {
		g->used = true;
		g->known = false;
		g->number = number;
		g->left = fan_stream_group_blocks(op, number);
	}
	return g;
}

/* Are the exponents that the fragment needs, or the place for them, there? */
static bool may_go(struct fan_worker *w, const struct fan_stream_op *op,
		   const struct fan_stream_frag *p)
{
	if (!op->groups)
		return true;
	const struct fan_stream_group *g = group_at(w, op, p->group);
	return g && (p->exponents || g->known);
}

/* Queue the slot's fragment if it exists and nothing holds it up. */
static void schedule(struct fan_worker *w, uint32_t i)
{
	struct fan_wslot *s = &w->window.slot[i];
	s->state = FAN_WSLOT_IDLE;
	if (w->cfg.relayed) {
		if (fan_tree_source_has(w, s->frag))
			fan_window_ready(&w->window, i);
		return;
	}
	struct fan_stream_op *op = op_of(w, s);
	if (!op)
		return;
	if (op->groups) {
		struct fan_stream_frag p;
		fan_stream_frag(op, s->frag, w->cfg.rank, &p);
		if (!may_go(w, op, &p)) {
			s->state = FAN_WSLOT_BLOCKED;
			return;
		}
	}
	fan_window_ready(&w->window, i);
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
	const struct fan_stream_op *op = op_at(w, w->next_op - 1);
	uint32_t size = w->window.size;
	if (size == 0)
		return; /* not welcomed yet: fan_transfer_begin will come */
	uint64_t end = op->first + (op->frags < size ? op->frags : size);
	for (uint64_t n = op->first; n < end; n++) {
		uint32_t i = (uint32_t)(n % size);
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

/* The exponents of `p->count` blocks, as this rank has them. */
static void put_exponents(const struct fan_stream_op *op, const struct fan_stream_frag *p,
			  uint8_t *to)
{
	const float *in = op->op.in;
	for (uint32_t b = 0; b < p->count; b++) {
		uint64_t at = (p->at + b) * op->per_frag;
		uint64_t rest = op->op.count - at;
		uint32_t n = (uint32_t)(rest < op->per_frag ? rest : op->per_frag);
		int16_t e = n ? fan_quant_exponent(in + at, n) : FAN_EXP_ZERO;
		fan_put16(to + (size_t)2 * b, (uint16_t)e);
	}
}

static bool is_large(const struct fan_stream_op *op)
{
	return op->op.count >= FAN_COPY_LARGE / sizeof(float);
}

/* The payload of a contribution: where it lies, or converted into scratch. */
static bool put_payload(struct fan_worker *w, const struct fan_stream_op *op,
			const struct fan_stream_frag *p, struct fan_frag *f, struct fan_out *out)
{
	if (p->dtype == FAN_FIXED32) /* even where there are no elements: it is echoed */
		f->exponent = group_at(w, op, p->group)->exponents[p->block];
	f->payload_bytes = (size_t)p->count * fan_dtype_bytes(p->dtype);
	if (f->flags & FAN_F_EMPTY)
		f->payload_bytes = 0;
	if (f->payload_bytes == 0)
		return true;
	const uint8_t *in = op->op.in;
	if (p->dtype == op->op.dtype) {
		f->payload = in + p->at * fan_dtype_bytes(p->dtype);
		if (is_large(op))
			fan_copy_prefetch(f->payload, f->payload_bytes);
		return true;
	}
	if (is_large(op)) /* the fragment after this one, which likely comes next */
		fan_copy_prefetch(in + (p->at + p->count) * sizeof(float),
				  p->count * sizeof(float));
	if (!fan_out_fits(out, 0, f->payload_bytes))
		return false;
	uint8_t *to = fan_out_scratch(out, f->payload_bytes);
	f->payload = to;
	if (p->exponents) {
		put_exponents(op, p, to);
	} else if (p->dtype == FAN_FIXED32) {
		fan_quant_encode(to, (const float *)op->op.in + p->at, p->count, f->exponent,
				 w->workers);
	} else {
		fan_half_from_f32(p->dtype, to, (const float *)op->op.in + p->at, p->count);
	}
	return true;
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

#define MEMORY_NS (1000 * FAN_MS) /* beyond, what was busy and what was idle is halved */

void fan_transfer_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent)
{
	*spent += now_ns - w->turn_ns;
	w->turn_ns = now_ns;
	while (w->busy_ns + w->idle_ns > MEMORY_NS) {
		w->busy_ns /= 2;
		w->idle_ns /= 2;
	}
}

static uint8_t priority_of(const struct fan_worker *w, const struct fan_stream_op *op)
{
	if (op->op.priority || !w->cfg.priority)
		return op->op.priority;
	const struct fan_priority_view v = {
		.left_frags = w->next_frag - w->stats.results,
		.sent_frags = w->stats.results,
		.busy_ns = w->busy_ns,
		.idle_ns = w->idle_ns,
		.layer = op->op.layer,
	};
	return w->cfg.priority(w->cfg.priority_arg, &v);
}

/* The fragment of an operation that the slot is at. */
static bool fill_frag(struct fan_worker *w, struct fan_wslot *s, struct fan_frag *f,
		      struct fan_out *out)
{
	const struct fan_stream_op *op = op_of(w, s);
	struct fan_stream_frag p;
	fan_stream_frag(op, s->frag, w->cfg.rank, &p);
	f->dtype = p.dtype;
	f->op = p.redop;
	f->count = p.count;
	f->flags = p.flags;
	f->exponent = (int16_t)op->op.mark;
	f->priority = priority_of(w, op);
	return put_payload(w, op, &p, f, out);
}

static bool put_contribution(struct fan_worker *w, uint32_t i, bool again, struct fan_out *out)
{
	struct fan_wslot *s = &w->window.slot[i];
	struct fan_frag f = head_of(w, FAN_TYPE_DATA, s->frag);
	if (w->cfg.relayed)
		fan_tree_source_fill(w, s->frag, &f);
	else if (!fill_frag(w, s, &f, out))
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
 * and every rank waits for this one.  What a switch has refused it refuses all ranks. */
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
		if (!what && is_left_behind(w, i))
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

/* Is `f` the result of the fragment that was sent? */
static bool matches(const struct fan_stream_op *op, const struct fan_stream_frag *p,
		    const struct fan_frag *f, bool is_root)
{
	const uint16_t same = FAN_F_FIRST | FAN_F_LAST | FAN_F_REDUCE;
	bool reduce = op->op.reduce && !p->exponents;
	bool empty = reduce && !is_root;
	return f->dtype == p->dtype && f->op == p->redop && f->count == p->count &&
	       (f->flags & same) == (p->flags & same) && !(f->flags & FAN_F_EMPTY) == !empty;
}

/* The exponents of a group are agreed: its blocks may go. */
static void take_exponents(struct fan_stream_group *g, const struct fan_frag *f)
{
	for (uint32_t b = 0; b < f->count; b++)
		g->exponents[b] = fan_quant_clamp((int16_t)fan_get16(f->payload + (size_t)2 * b));
	g->known = true;
}

/* A block of the group is finished; after the last one, groups further on get places. */
static bool finish_block(struct fan_worker *w, struct fan_stream_group *g)
{
	assert(g->used && g->known && g->left > 0);
	if (--g->left)
		return false;
	bool moved = false;
	for (;;) {
		struct fan_stream_group *low = &w->group[w->low_group % FAN_STREAM_GROUPS];
		if (!low->used || low->number != w->low_group || low->left)
			return moved;
		low->used = false;
		w->low_group++;
		moved = true;
	}
}

/* Elements [at, at + count) of a result that travels as another type, as float32. */
static void convert(const struct fan_worker *w, const struct fan_stream_op *op,
		    const struct fan_frag *f, uint32_t at, uint32_t count, void *to)
{
	const uint8_t *from = f->payload + (size_t)at * fan_dtype_bytes(f->dtype);
	if (f->dtype == FAN_FIXED32)
		fan_quant_decode(to, from, count, f->exponent, w->workers,
				 op->op.op == FAN_AVG ? w->workers : 1);
	else
		fan_half_to_f32(f->dtype, to, from, count);
}

/* The same for all elements, past the cache. */
static void convert_past(const struct fan_worker *w, const struct fan_stream_op *op,
			 const struct fan_frag *f, uint8_t *to)
{
	float chunk[CHUNK];
	for (uint32_t at = 0; at < f->count; at += CHUNK) {
		uint32_t n = f->count - at < CHUNK ? f->count - at : CHUNK;
		convert(w, op, f, at, n, chunk);
		fan_copy_past(to + at * sizeof *chunk, chunk, n * sizeof *chunk);
	}
}

/* Put the elements of a result into the caller's tensor. */
static void take_elements(struct fan_worker *w, const struct fan_stream_op *op,
			  const struct fan_stream_frag *p, const struct fan_frag *f)
{
	unsigned bytes = fan_dtype_bytes(op->op.dtype);
	bool own = op->op.op == FAN_BCAST && w->cfg.rank == op->op.root;
	if (f->payload_bytes == 0 || own)
		return;
	uint8_t *to = (uint8_t *)op->op.out + p->at * bytes;
	bool large = is_large(op);
	if (p->dtype == op->op.dtype && large)
		fan_copy_past(to, f->payload, f->payload_bytes);
	else if (p->dtype == op->op.dtype)
		memcpy(to, f->payload, f->payload_bytes);
	else if (!large)
		convert(w, op, f, 0, p->count, to);
	else
		convert_past(w, op, f, to);
}

static void finish_fragment(struct fan_worker *w, struct fan_stream_op *op)
{
	if (--op->left == 0)
		fan_copy_fence();
	while (w->first_op < w->next_op && op_at(w, w->first_op)->left == 0)
		w->first_op++;
}

/* Take what the result carries.  True if slots that were blocked may go now. */
static bool take(struct fan_worker *w, struct fan_stream_op *op, const struct fan_stream_frag *p,
		 const struct fan_frag *f)
{
	struct fan_stream_group *g = op->groups ? group_at(w, op, p->group) : NULL;
	if (p->exponents) {
		assert(g); /* it had a place when it was sent */
		take_exponents(g, f);
		return true;
	}
	take_elements(w, op, p, f);
	return g && finish_block(w, g);
}

/* The agreed exponent is echoed: a result scaled by another one is not ours. */
static bool exponent_matches(struct fan_worker *w, const struct fan_stream_op *op,
			     const struct fan_stream_frag *p, const struct fan_frag *f)
{
	if (p->dtype != FAN_FIXED32)
		return true;
	return group_at(w, op, p->group)->exponents[p->block] == f->exponent;
}

/* Where the slot's next fragment looks for a shared slot: elsewhere, if this one has found
 * it taken.  All ranks have the same result, so they all look there. */
static void note_met(struct fan_worker *w, struct fan_wslot *s, const struct fan_frag *f)
{
	unsigned place = f->place;
	if (f->flags & FAN_F_COLLISION) {
		place = (place + 1) % FAN_PLACES;
		w->stats.collisions++;
	}
	s->place = (uint8_t)place;
	if (f->flags & FAN_F_ECN) {
		w->stats.marks++;
		fan_congestion_marked(&w->congestion);
	}
	if (w->window.ahead)
		fan_run_ahead_heard(w, s, f);
}

static void note_timing(struct fan_worker *w, uint64_t now_ns, const struct fan_wslot *s,
			const struct fan_frag *f)
{
	/* Replays say that they are, so a probe does not make a sample ambiguous. */
	if (!(s->flags & FAN_WSLOT_AGAIN) && !(f->flags & FAN_F_REPLAY))
		fan_rtt_sample(&w->rtt, now_ns - s->data_ns);
	fan_rtt_heard(&w->rtt);
	w->progress_ns = now_ns;
	w->stats.results++;
	if (f->flags & FAN_F_REPLAY) {
		w->stats.replays++;
		fan_congestion_lost(&w->congestion);
	} else {
		fan_congestion_done(&w->congestion);
	}
}

static enum fan_verdict result_of_op(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f, uint32_t i)
{
	struct fan_wslot *s = &w->window.slot[i];
	struct fan_stream_op *op = op_of(w, s);
	struct fan_stream_frag p;
	fan_stream_frag(op, s->frag, w->cfg.rank, &p);
	bool is_root = w->cfg.rank == op->op.root;
	if (is_root && op->op.reduce && !p.exponents && f->flags & FAN_F_EMPTY)
		return fan_worker_drop(
			w, FAN_DROP_DUPLICATE); /* for the others; ours has the payload */
	if (!matches(op, &p, f, is_root) || !exponent_matches(w, op, &p, f))
		return fan_worker_drop(w, FAN_DROP_MISMATCH);
	note_timing(w, now_ns, s, f);
	note_met(w, s, f);
	bool freed = take(w, op, &p, f);
	fan_helper_cache_forget(&w->cache, s->frag);
	fan_window_done(&w->window, i);
	finish_fragment(w, op);
	if (w->first_op == w->next_op)
		fan_transfer_turn(w, now_ns, &w->busy_ns);
	schedule(w, i);
	if (freed)
		unblock(w);
	return FAN_DONE;
}

static enum fan_verdict result_of_round(struct fan_worker *w, uint64_t now_ns,
					const struct fan_frag *f, uint32_t i)
{
	int why = fan_tree_source_unfit(w, f);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	note_timing(w, now_ns, &w->window.slot[i], f);
	note_met(w, &w->window.slot[i], f);
	fan_tree_source_take(w, f);
	fan_window_done(&w->window, i);
	schedule(w, i);
	return FAN_DONE;
}

static enum fan_verdict take_result(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	uint32_t i = (uint32_t)(f->frag % w->window.size);
	const struct fan_wslot *s = &w->window.slot[i];
	if (f->frag != s->frag || s->state != FAN_WSLOT_SENT)
		return fan_worker_drop(w, f->frag < s->frag ? FAN_DROP_STALE : FAN_DROP_AHEAD);
	if (w->cfg.options & FAN_JOIN_SUMMED && !(f->flags & FAN_F_SUMMED))
		return fan_worker_drop(w, FAN_DROP_CHECK);
	return w->cfg.relayed ? result_of_round(w, now_ns, f, i) : result_of_op(w, now_ns, f, i);
}

enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f)
{
	if (w->window.size == 0)
		return fan_worker_drop(w, FAN_DROP_STATE);
	enum fan_verdict v = take_result(w, now_ns, f);
	if (v != FAN_DROP || w->last_drop != FAN_DROP_DUPLICATE)
		fan_seq_heard(w, f); /* else ours is still to come */
	return v;
}

enum fan_verdict fan_transfer_supply(struct fan_worker *w, uint64_t now_ns, struct fan_frag *f)
{
	if (w->window.size == 0 || w->cfg.relayed || f->frag >= w->next_frag)
		return fan_worker_drop(w, FAN_DROP_STATE);
	struct fan_wslot *s = &w->window.slot[f->frag % w->window.size];
	if (f->frag == s->frag && f->flags & FAN_F_REDUCE && w->cfg.rank != op_of(w, s)->op.root) {
		f->flags |= FAN_F_EMPTY; /* of which the root alone has the elements */
		f->payload_bytes = 0;
	}
	return take_result(w, now_ns, f);
}

/* Slot `i` has found no shared slot, and what it sent was dropped.  It goes again when the window,
 * now smaller, lets it: the results that come first have freed slots.  If that was so too often,
 * past all slots: whoever has its slot may wait for what comes behind it here. */
static enum fan_verdict refused(struct fan_worker *w, uint32_t i)
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
	fan_congestion_collided(&w->congestion);
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
		return refused(w, i);
	s->flags |= FAN_WSLOT_DIRECT;
	if (!fan_window_need(&w->window, i))
		return fan_worker_drop(w, FAN_DROP_DUPLICATE);
	if (s->seq != s->data_seq) /* it answers a probe */
		fan_rtt_answer(&w->rtt, now_ns - s->sent_ns);
	if (!w->window.ahead) /* else slow links fill with questions faster than they empty */
		fan_rtt_heard(&w->rtt);
	fan_congestion_lost(&w->congestion);
	return FAN_ASK;
}
