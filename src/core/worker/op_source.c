/* SPDX-License-Identifier: Apache-2.0 */
/* op_source.c - fragments out of callers' tensors, and results back into them. */
#include <assert.h>

#include "core/base/copy.h"
#include "core/sum/quant.h"
#include "core/sum/reduce.h"
#include "worker_priv.h"

#define CHUNK 256 /* elements converted at a time, past the cache */
#define LINE  64u /* bytes of the cache */

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
	if (s->op < w->near_op && w->near_op >= w->first_op &&
	    s->frag >= op_at(w, w->near_op)->first)
		s->op = w->near_op;
	while (s->frag >= op_at(w, s->op)->first + op_at(w, s->op)->frags)
		s->op++; /* ends: the fragment is below next_frag */
	w->near_op = s->op > w->near_op ? s->op : w->near_op;
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
	const struct fan_stream_group *g = group_at(w, op, p->group);
	return g && (p->exponents || g->known);
}

static enum fan_source_has has(struct fan_worker *w, struct fan_wslot *s)
{
	const struct fan_stream_op *op = op_of(w, s);
	struct fan_stream_frag p;
	if (!op)
		return FAN_SOURCE_NONE;
	if (!op->groups)
		return FAN_SOURCE_READY;
	fan_stream_frag(op, s->frag, w->cfg.rank, &p);
	return may_go(w, op, &p) ? FAN_SOURCE_READY : FAN_SOURCE_BLOCKED;
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

/* Bytes of whole blocks, `count` elements together: where the block that begins there is. */
static size_t block8_at(size_t count)
{
	return count / FAN_BLOCK8_ELEMENTS * (FAN_BLOCK8_ELEMENTS + 1u);
}

/* `count` elements of the caller's tensor from `at` on, as blocks; what that loses goes where the
 * caller wants it. */
static void put_blocks(const struct fan_op *op, uint64_t at, uint32_t count, uint8_t *to)
{
	const uint8_t *in = (const uint8_t *)op->in + at * fan_dtype_bytes(op->dtype);
	float chunk[CHUNK];
	_Static_assert(CHUNK % FAN_BLOCK8_ELEMENTS == 0, "a chunk is whole blocks");
	for (uint32_t from = 0; from < count; from += CHUNK) {
		uint32_t n = count - from < CHUNK ? count - from : CHUNK;
		const void *x = in + from * sizeof *chunk;
		if (op->dtype != FAN_FLOAT32) {
			fan_half_to_f32(op->dtype, chunk, in + from * sizeof(uint16_t), n);
			x = chunk;
		}
		fan_block8_put(to + block8_at(from), x, n);
		if (op->error)
			fan_block8_error(op->error + at + from, x, to + block8_at(from), n);
	}
}

static void prefetch(const uint8_t *p, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += LINE)
		__builtin_prefetch(p + at);
}

/* The payload of a contribution: where it lies, or converted into scratch. */
static bool put_payload(struct fan_worker *w, const struct fan_stream_op *op,
			const struct fan_stream_frag *p, struct fan_frag *f, struct fan_out *out)
{
	if (p->dtype == FAN_FIXED32) /* even where there are no elements: it is echoed */
		f->exponent = group_at(w, op, p->group)->exponents[p->block];
	f->payload_bytes = fan_wire_bytes(p->dtype, p->count);
	if (f->flags & FAN_F_EMPTY)
		f->payload_bytes = 0;
	if (f->payload_bytes == 0)
		return true;
	const uint8_t *in = op->op.in;
	if (p->dtype == op->op.dtype) {
		f->payload = in + p->at * fan_dtype_bytes(p->dtype);
		return true;
	}
	if (is_large(op)) /* the fragment after this one, which likely comes next */
		prefetch(in + (p->at + p->count) * fan_dtype_bytes(op->op.dtype),
			 p->count * fan_dtype_bytes(op->op.dtype));
	if (!fan_out_fits(out, 0, f->payload_bytes))
		return false;
	uint8_t *to = fan_out_scratch(out, f->payload_bytes);
	f->payload = to;
	if (p->exponents) {
		put_exponents(op, p, to);
	} else if (p->dtype == FAN_FIXED32) {
		fan_quant_encode(to, (const float *)op->op.in + p->at, p->count, f->exponent,
				 w->workers);
	} else if (p->dtype == FAN_BLOCK8) {
		put_blocks(&op->op, p->at, p->count, to);
	} else {
		fan_half_from_f32(p->dtype, to, (const float *)op->op.in + p->at, p->count);
	}
	return true;
}

#define MEMORY_NS (1000 * FAN_MS) /* beyond, what was busy and what was idle is halved */

void fan_op_source_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent)
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
static bool fill(struct fan_worker *w, struct fan_wslot *s, struct fan_frag *f, struct fan_out *out)
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
	const uint8_t *from = f->payload + fan_wire_bytes(f->dtype, at);
	if (f->dtype == FAN_BLOCK8)
		fan_block8_get(to, from, count);
	else if (f->dtype == FAN_FIXED32)
		fan_quant_decode(to, from, count, f->exponent, w->workers,
				 op->op.op == FAN_AVG ? w->workers : 1);
	else
		fan_half_to_f32(f->dtype, to, from, count);
}

/* Convert all elements to the type of the tensor, past the cache if it is large. */
static void convert_all(const struct fan_worker *w, const struct fan_stream_op *op,
			const struct fan_frag *f, uint8_t *to)
{
	const unsigned bytes = fan_dtype_bytes(op->op.dtype);
	const bool large = is_large(op);
	float chunk[CHUNK];
	uint16_t half[CHUNK];
	for (uint32_t at = 0; at < f->count; at += CHUNK) {
		uint32_t n = f->count - at < CHUNK ? f->count - at : CHUNK;
		const void *from = chunk;
		convert(w, op, f, at, n, chunk);
		if (op->op.dtype != FAN_FLOAT32) {
			fan_half_from_f32(op->op.dtype, half, chunk, n);
			from = half;
		}
		if (large)
			fan_copy_past(to + at * bytes, from, n * bytes);
		else
			memcpy(to + at * bytes, from, n * bytes);
	}
}

/* Put the elements of a result into the caller's tensor. */
static void take_elements(struct fan_worker *w, const struct fan_stream_op *op,
			  const struct fan_stream_frag *p, const struct fan_frag *f)
{
	unsigned bytes = fan_dtype_bytes(op->op.dtype);
	bool own = op->op.op == FAN_BCAST && w->cfg.rank == op->op.root;
	if (f->payload_bytes == 0 || !f->payload || own)
		return;
	uint8_t *to = (uint8_t *)op->op.out + p->at * bytes;
	bool large = is_large(op);
	if (p->dtype == op->op.dtype && large)
		fan_copy_past(to, f->payload, f->payload_bytes);
	else if (p->dtype == op->op.dtype)
		memcpy(to, f->payload, f->payload_bytes);
	else if (!large && op->op.dtype == FAN_FLOAT32)
		convert(w, op, f, 0, p->count, to);
	else
		convert_all(w, op, f, to);
}

static void finish_fragment(struct fan_worker *w, struct fan_stream_op *op)
{
	if (--op->left == 0)
		fan_copy_fence();
	while (w->first_op < w->next_op && op_at(w, w->first_op)->left == 0)
		w->first_op++;
}

/* Take what the result carries.  True if slots that were blocked may go now. */
static bool take_payload(struct fan_worker *w, struct fan_stream_op *op,
			 const struct fan_stream_frag *p, const struct fan_frag *f)
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

static int take(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
		const struct fan_frag *f, bool *freed)
{
	struct fan_stream_op *op = op_of(w, s);
	struct fan_stream_frag p;
	fan_stream_frag(op, s->frag, w->cfg.rank, &p);
	bool is_root = w->cfg.rank == op->op.root;
	if (is_root && op->op.reduce && !p.exponents && f->flags & FAN_F_EMPTY)
		return FAN_DROP_DUPLICATE; /* for the others; ours has the payload */
	if (!matches(op, &p, f, is_root) || !exponent_matches(w, op, &p, f))
		return FAN_DROP_MISMATCH;
	*freed = take_payload(w, op, &p, f);
	finish_fragment(w, op);
	if (w->first_op == w->next_op)
		fan_op_source_turn(w, now_ns, &w->busy_ns);
	return FAN_SOURCE_TAKEN;
}

const struct fan_source fan_op_source = {.has = has, .fill = fill, .take = take};

bool fan_op_source_is_root(struct fan_worker *w, struct fan_wslot *s)
{
	return w->cfg.rank == op_of(w, s)->op.root;
}

/* ---- priorities ---- */

#define STEPS	  8   /* of a doubling */
#define MIDDLE	  224 /* one fragment left, of the first layer, as much to send as to compute */
#define RATIO_MAX 64  /* eight doublings: more shows that one of them is unknown */

/* log2 in steps, linear between powers of two; 0 of 0. */
static int steps_of(uint64_t v)
{
	if (v < 2)
		return 0;
	int whole = 63 - __builtin_clzll(v);
	uint64_t rest = whole >= 3 ? v >> (whole - 3) & 7 : v << (3 - whole) & 7;
	return whole * STEPS + (int)rest;
}

uint8_t fan_priority_default(const void *arg, const struct fan_priority_view *v)
{
	(void)arg;
	int ratio = 0;
	if (v->busy_ns && v->idle_ns)
		ratio = steps_of(v->busy_ns) - steps_of(v->idle_ns);
	if (ratio > RATIO_MAX || ratio < -RATIO_MAX)
		ratio = ratio < 0 ? -RATIO_MAX : RATIO_MAX;
	int p = MIDDLE + ratio - steps_of(v->left_frags) - steps_of(v->layer);
	return (uint8_t)(p < 1 ? 1 : p > 255 ? 255 : p);
}
