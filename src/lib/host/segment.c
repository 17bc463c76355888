/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/copy.h"
#include "core/sum/reduce.h"
#include "lib/base/fault_text.h"

#define SHARE_ELEMS 16
#define CHUNK_ELEMS 1024 /* chunks are multiples of so many */
#define STRIP_ELEMS 2048 /* are summed at a time, and stay in the nearest cache meanwhile */

/* ---- memory ---- */

static size_t place_bytes(unsigned ranks)
{
	return (size_t)FAN_HOST_CHUNK_BYTES * (ranks + 1);
}

size_t fan_host_bytes(unsigned ranks)
{
	assert(ranks >= 1 && ranks <= FAN_HOST_RANKS_MAX);
	return sizeof(struct fan_host_segment) + FAN_HOST_DEPTH * place_bytes(ranks);
}

struct fan_host_segment *fan_host_init(void *mem, unsigned ranks, unsigned columns)
{
	struct fan_host_segment *s = mem;
	assert(columns >= 1 && columns <= ranks);
	s->columns = columns;
	s->bytes = fan_host_bytes(ranks);
	s->ranks = ranks;
	return s;
}

bool fan_host_is_sane(const struct fan_host_segment *s, size_t bytes, unsigned ranks)
{
	return bytes == fan_host_bytes(ranks) && s->bytes == bytes && s->ranks == ranks &&
	       s->columns >= 1 && s->columns <= ranks;
}

/* The sum of the chunk, and the elements of number `i`. */
static uint8_t *sum_of(const struct fan_host_board *l, uint64_t chunk)
{
	return l->s->data + chunk % FAN_HOST_DEPTH * place_bytes(l->ranks);
}

static uint8_t *elements_of(const struct fan_host_board *l, uint64_t chunk, unsigned i)
{
	return sum_of(l, chunk) + (size_t)FAN_HOST_CHUNK_BYTES * (i + 1);
}

static struct fan_host_place *place_of(const struct fan_host_board *l, uint64_t chunk)
{
	return &l->s->place[chunk % FAN_HOST_DEPTH];
}

/* Return the value of a counter of the chunk's place when `each` have counted for this chunk. */
static uint64_t count_of(uint64_t each, uint64_t chunk)
{
	return each * (chunk / FAN_HOST_DEPTH + 1);
}

static uint64_t all_of(const struct fan_host_board *l, uint64_t chunk)
{
	return count_of(l->ranks, chunk);
}

static bool is_summed(const struct fan_host_board *l, uint64_t chunk)
{
	return atomic_load(&place_of(l, chunk)->summed) >= count_of(l->columns, chunk);
}

static bool has_others(const struct fan_host_board *l)
{
	return l->with.hosts > 1;
}

void fan_host_open(struct fan_host_board *l, struct fan_host_segment *s, unsigned me, uint16_t rank,
		   unsigned job_ranks)
{
	memset(l, 0, sizeof *l);
	l->s = s;
	l->ranks = fan_host_ranks(s);
	l->columns = s->columns;
	assert(me < FAN_HOST_RANKS_MAX);
	l->me = me;
	l->job_ranks = job_ranks;
	s->rank[me].rank = rank;
	atomic_fetch_add(&s->joined, 1);
}

/* ---- chunks ---- */

/* Bytes of accumulators in a chunk of a long operation. */
static uint64_t long_bytes(const struct fan_host_board *l)
{
	uint64_t share = (uint64_t)FAN_HOST_PART_BYTES * l->with.parts;
	share = share < FAN_COPY_LARGE / 2 ? share : FAN_COPY_LARGE / 2; /* is read soon */
	const uint64_t bytes = share * l->columns;
	return bytes < FAN_HOST_ALONE_BYTES   ? FAN_HOST_ALONE_BYTES
	       : bytes < FAN_HOST_CHUNK_BYTES ? bytes
					      : FAN_HOST_CHUNK_BYTES;
}

/* Follows from what all ranks ask for, so that those of all hosts cut alike.  Longer chunks bring
 * longer parts, whose packets go in longer batches; and what is done with the first and the last
 * one alone takes longer. */
static uint64_t chunk_elems(const struct fan_host_board *l, const struct fan_op *op)
{
	const unsigned bytes = fan_dtype_acc_bytes(op->dtype);
	const unsigned chunks = l->with.parts ? FAN_HOST_CHUNKS : 2 * FAN_HOST_CHUNKS;
	assert(bytes >= 1 && bytes <= sizeof(uint64_t));
	const uint64_t most = long_bytes(l) / bytes, least = FAN_HOST_SHORT_BYTES / bytes;
	const uint64_t each = op->count / chunks / CHUNK_ELEMS * CHUNK_ELEMS;
	return each < least ? least : each < most ? each : most;
}

static struct fan_host_op *op_at(struct fan_host_board *l, uint64_t number)
{
	return &l->op[number % FAN_HOST_OPS_KEPT];
}

bool fan_host_has_room(const struct fan_host_board *l)
{
	return l->next_op - l->first_op < FAN_HOST_OPS_MAX;
}

bool fan_host_start(struct fan_host_board *l, const struct fan_op *op, unsigned root_host)
{
	if (!fan_host_has_room(l))
		return false;
	uint64_t each = chunk_elems(l, op), chunks = op->count ? (op->count + each - 1) / each : 1;
	*op_at(l, l->next_op++) = (struct fan_host_op){*op, root_host, l->chunks, chunks};
	l->chunks += chunks;
	return true;
}

/* The elements of an operation that a chunk holds. */
struct slice {
	const struct fan_op *op;
	unsigned root_host;
	uint64_t from; /* first element */
	unsigned count;
};

/* The slice of chunk `chunk`; `*number` is its operation, or that of the chunk before it. */
static struct slice slice_of(struct fan_host_board *l, uint64_t chunk, uint64_t *number)
{
	const struct fan_host_op *o = op_at(l, *number);
	assert(*number < l->next_op);
	if (chunk == o->first + o->chunks)
		o = op_at(l, ++*number);
	assert(*number < l->next_op && chunk >= o->first && chunk < o->first + o->chunks);
	uint64_t each = chunk_elems(l, &o->op), from = (chunk - o->first) * each;
	uint64_t left = o->op.count - from;
	return (struct slice){&o->op, o->root_host, from, (unsigned)(left < each ? left : each)};
}

static bool root_is_here(const struct fan_host_board *l, const struct slice *p)
{
	return p->root_host == l->with.host;
}

static bool is_root(const struct fan_host_board *l, const struct slice *p)
{
	return p->op->root == l->me && root_is_here(l, p);
}

static bool is_data(const struct fan_host_board *l, const struct slice *p)
{
	return p->op->op == FAN_BCAST ? is_root(l, p) : p->op->op != FAN_BARRIER;
}

static bool is_small(const struct slice *p)
{
	return p->count * fan_dtype_acc_bytes(p->op->dtype) <= FAN_HOST_SMALL_BYTES;
}

/* Each rank sums the chunk for itself. */
static bool is_private(const struct fan_host_board *l, const struct slice *p)
{
	return is_small(p) && !has_others(l);
}

/* All have left the place of a chunk, or the last one that does will ring. */
static bool is_free(const struct fan_host_board *l, uint64_t chunk)
{
	struct fan_host_place *at = place_of(l, chunk);
	uint64_t before = all_of(l, chunk) - l->ranks;
	if (atomic_load(&at->left) == before)
		return true;
	atomic_store(&at->wanted, 1);
	return atomic_load(&at->left) == before;
}

/* Share `i` of a chunk begins at this element, and its result there in accumulators, which are
 * aligned since shares begin at multiples of SHARE_ELEMS.  A small chunk is one share. */
static unsigned share_begin(const struct fan_host_board *l, const struct slice *p, unsigned i)
{
	assert(i <= l->columns);
	if (i == l->columns || (i && is_small(p)))
		return p->count;
	return (unsigned)((uint64_t)p->count * i / l->columns) / SHARE_ELEMS * SHARE_ELEMS;
}

static const uint8_t *own_elements(const struct slice *p)
{
	return (const uint8_t *)p->op->in + p->from * fan_dtype_bytes(p->op->dtype);
}

/* Elements `from` .. `to` - 1 of this rank into the segment. */
static void put_elements(const struct fan_host_board *l, uint64_t chunk, const struct slice *p,
			 unsigned from, unsigned to)
{
	const size_t bytes = fan_dtype_bytes(p->op->dtype);
	if (from < to)
		memcpy(elements_of(l, chunk, l->me) + from * bytes, own_elements(p) + from * bytes,
		       (to - from) * bytes);
}

/* Put what others read: all, or all but the share that this rank sums. */
static void put_slice(const struct fan_host_board *l, uint64_t chunk, const struct slice *p)
{
	const bool all = l->me >= l->columns || p->op->op == FAN_BCAST || is_private(l, p);
	const unsigned from = all ? p->count : share_begin(l, p, l->me);
	const unsigned to = all ? p->count : share_begin(l, p, l->me + 1);
	put_elements(l, chunk, p, 0, from);
	put_elements(l, chunk, p, to, p->count);
}

static bool copy_in(struct fan_host_board *l)
{
	uint64_t chunk = l->in;
	if (chunk == l->chunks)
		return false;
	struct fan_host_place *at = place_of(l, chunk);
	if (!is_free(l, chunk))
		return false;
	struct slice p = slice_of(l, chunk, &l->in_op);
	if (is_data(l, &p) && p.count)
		put_slice(l, chunk, &p);
	at->desc[l->me] = (struct fan_host_desc){.left = p.op->count - p.from,
						 .root = p.op->root,
						 .mark = p.op->mark,
						 .op = (uint8_t)p.op->op,
						 .dtype = (uint8_t)p.op->dtype,
						 .reduce = p.op->reduce};
	atomic_store(&l->s->rank[l->me].in, ++l->in);
	if (atomic_fetch_add(&at->arrived, 1) + 1 == all_of(l, chunk))
		fan_host_ring_others(l->s, l->me, FAN_HOST_WORK);
	return true;
}

static bool same_desc(const struct fan_host_desc *a, const struct fan_host_desc *b)
{
	return a->left == b->left && a->root == b->root && a->mark == b->mark && a->op == b->op &&
	       a->dtype == b->dtype && a->reduce == b->reduce;
}

static struct fan_fault_asked asked_by(const struct fan_host_board *l, uint64_t chunk, unsigned i)
{
	const struct fan_host_desc *d = &place_of(l, chunk)->desc[i];
	return (struct fan_fault_asked){
		.rank = l->s->rank[i].rank,
		.op = d->op,
		.dtype = d->dtype,
		.reduce = d->reduce,
		.count = d->left,
		.kind = d->mark & FAN_MARK_KIND,
		.root = FAN_MARK_ROOT_OF(d->mark),
	};
}

/* Number `i` asks for another operation than this rank, which ends the job.  That shows at the
 * first chunk, so all elements are left. */
static void disagree(struct fan_host_board *l, uint64_t chunk, unsigned i)
{
	const struct fan_fault_asked mine = asked_by(l, chunk, l->me),
				     other = asked_by(l, chunk, i);
	char why[FAN_HOST_WHY_BYTES];
	fan_fault_disagreement_text(why, sizeof why, &mine, &other);
	fan_host_fail(l->s, l->me, FAN_E_MISMATCH, why,
		      &(struct fan_host_blame){.cause = FAN_E_MISMATCH});
}

static bool all_agree(struct fan_host_board *l, uint64_t chunk)
{
	const struct fan_host_place *at = place_of(l, chunk);
	for (unsigned i = 0; i < l->ranks; i++) {
		if (same_desc(&at->desc[i], &at->desc[l->me]))
			continue;
		disagree(l, chunk, i);
		return false;
	}
	return true;
}

/* Sum elements `from` .. `to` - 1 of the chunk into `acc`, number 0's first. */
static void sum_strip(const struct fan_host_board *l, uint64_t chunk, const struct slice *p,
		      unsigned from, unsigned to, void *acc)
{
	const unsigned dtype = p->op->dtype;
	for (unsigned i = 0; i < l->ranks; i++) {
		const uint8_t *in = i == l->me ? own_elements(p) : elements_of(l, chunk, i);
		in += (size_t)from * fan_dtype_bytes(dtype);
		if (i)
			fan_reduce_add(dtype, p->op->op, acc, in, to - from);
		else
			fan_reduce_load(dtype, acc, in, to - from);
	}
}

/* The result of elements `from` .. `to` - 1 of the chunk into `acc`, where they begin. */
static void reduce(const struct fan_host_board *l, uint64_t chunk, const struct slice *p,
		   unsigned from, unsigned to, uint8_t *acc)
{
	const unsigned dtype = p->op->dtype, bytes = fan_dtype_bytes(dtype);
	if (p->op->op == FAN_BARRIER || from == to)
		return;
	if (p->op->op == FAN_BCAST) {
		memcpy(acc, elements_of(l, chunk, p->op->root) + (size_t)from * bytes,
		       (size_t)(to - from) * bytes);
		return;
	}
	for (unsigned at = from; at < to; at += STRIP_ELEMS) {
		const unsigned end = to - at < STRIP_ELEMS ? to : at + STRIP_ELEMS;
		sum_strip(l, chunk, p, at, end,
			  acc + (size_t)(at - from) * fan_dtype_acc_bytes(dtype));
	}
	if (!has_others(l))
		fan_reduce_finish(dtype, p->op->op, acc, to - from, l->job_ranks);
}

static uint8_t *share_at(const struct fan_host_board *l, uint64_t chunk, const struct slice *p,
			 unsigned i)
{
	return sum_of(l, chunk) + (size_t)share_begin(l, p, i) * fan_dtype_acc_bytes(p->op->dtype);
}

/* This rank's share of the chunk, if it has one, is in the segment. */
static void count_summed(struct fan_host_board *l, uint64_t chunk, bool silent)
{
	struct fan_host_place *at = place_of(l, chunk);
	atomic_store(&l->s->rank[l->me].summed, chunk + 1);
	if (l->me >= l->columns)
		return;
	if (atomic_fetch_add(&at->summed, 1) + 1 == count_of(l->columns, chunk) && !silent)
		fan_host_ring_others(l->s, l->me, FAN_HOST_WORK);
}

/* Have this rank's share of the chunk, which begins at `acc`, summed with those of the other hosts.
 * Half types travel as the float32 that they are summed in, so that they are rounded once; averages
 * travel as sums.  Marks show that. */
static bool start_share(struct fan_host_board *l, const struct slice *p, void *acc, unsigned count)
{
	bool bcast = p->op->op == FAN_BCAST, here = root_is_here(l, p);
	struct fan_op op = *p->op;
	op.count = count;
	if (op.error)
		op.error += p->from + share_begin(l, p, l->me);
	op.root = (uint16_t)p->root_host;
	op.in = bcast && !here ? NULL : acc;
	op.out = (bcast && here) || (op.reduce && !here) ? NULL : acc;
	if (!bcast && fan_dtype_acc_bytes(op.dtype) != fan_dtype_bytes(op.dtype)) {
		op.mark |= (uint16_t)(op.dtype << FAN_MARK_HALF_SHIFT);
		op.dtype = FAN_FLOAT32;
		op.wire = op.wire == FAN_BLOCK8 ? FAN_BLOCK8 : FAN_FLOAT32;
	}
	if (op.op == FAN_AVG) {
		op.mark |= FAN_MARK_AVG;
		op.op = FAN_SUM;
	}
	return l->with.start(l->with.ctx, &op);
}

/* A share has come back from the other hosts: make it the result. */
static void finish_sum(const struct fan_host_board *l, const struct slice *p, void *acc,
		       unsigned count)
{
	if (p->op->op != FAN_BCAST && p->op->op != FAN_BARRIER)
		fan_reduce_finish(p->op->dtype, p->op->op, acc, count, l->job_ranks);
}

/* The elements of this rank's share; does it go to the other hosts? */
static unsigned share_count(const struct fan_host_board *l, const struct slice *p, bool *goes_out)
{
	bool column = l->me < l->columns;
	unsigned count = column ? share_begin(l, p, l->me + 1) - share_begin(l, p, l->me) : 0;
	*goes_out = has_others(l) && (count || (l->me == 0 && !p->count));
	return count;
}

static bool sum_share(struct fan_host_board *l)
{
	uint64_t chunk = l->sum;
	bool goes_out;
	if (chunk == l->in || atomic_load(&place_of(l, chunk)->arrived) < all_of(l, chunk))
		return false;
	struct slice p = slice_of(l, chunk, &l->sum_op);
	if (!all_agree(l, chunk))
		return false;
	unsigned count = share_count(l, &p, &goes_out),
		 from = count ? share_begin(l, &p, l->me) : 0;
	uint8_t *acc = share_at(l, chunk, &p, count ? l->me : 0);
	if (!is_private(l, &p) && (p.op->op != FAN_BCAST || root_is_here(l, &p)))
		reduce(l, chunk, &p, from, from + count, acc);
	if (goes_out && !start_share(l, &p, acc, count))
		return false;
	l->sum++;
	if (!has_others(l))
		count_summed(l, chunk, is_private(l, &p));
	return true;
}

bool fan_host_needs_net(struct fan_host_board *l)
{
	bool goes_out;
	uint64_t op = l->sum_op;
	if (l->sum == l->chunks)
		return false;
	struct slice p = slice_of(l, l->sum, &op);
	share_count(l, &p, &goes_out);
	return goes_out;
}

void fan_host_returned(struct fan_host_board *l, int result)
{
	l->broken |= result != FAN_OK;
	l->returned += !l->broken;
}

/* The oldest share in flight has come back, or there is none. */
static bool finish_share(struct fan_host_board *l)
{
	uint64_t chunk = l->net;
	bool goes_out;
	if (!has_others(l) || chunk == l->sum)
		return false;
	struct slice p = slice_of(l, chunk, &l->net_op);
	unsigned count = share_count(l, &p, &goes_out);
	if (goes_out && !l->returned)
		return false;
	if (goes_out) {
		l->returned--;
		finish_sum(l, &p, share_at(l, chunk, &p, count ? l->me : 0), count);
	}
	l->net++;
	count_summed(l, chunk, false);
	return true;
}

static bool wants_result(const struct fan_host_board *l, const struct slice *p)
{
	if (p->op->op == FAN_BARRIER || !p->op->count)
		return false;
	return p->op->op == FAN_BCAST ? !is_root(l, p) : !p->op->reduce || is_root(l, p);
}

/* A large tensor is written past the cache, which chunks fill. */
static void copy_shares(const struct fan_host_board *l, uint64_t chunk, const struct slice *p)
{
	const unsigned bytes = fan_dtype_bytes(p->op->dtype);
	assert(bytes > 0);
	const bool large = p->op->count >= FAN_COPY_LARGE / bytes;
	uint8_t *to = (uint8_t *)p->op->out + p->from * bytes;
	for (unsigned i = 0; i < l->columns; i++) {
		const unsigned from = share_begin(l, p, i), count = share_begin(l, p, i + 1) - from;
		if (large)
			fan_copy_past(to + (size_t)from * bytes, share_at(l, chunk, p, i),
				      (size_t)count * bytes);
		else
			memcpy(to + (size_t)from * bytes, share_at(l, chunk, p, i),
			       (size_t)count * bytes);
	}
	if (large)
		fan_copy_fence();
}

static bool copy_out(struct fan_host_board *l)
{
	_Alignas(64) uint8_t acc[FAN_HOST_SMALL_BYTES];
	uint64_t chunk = l->out;
	if (chunk == l->sum)
		return false;
	struct fan_host_place *at = place_of(l, chunk);
	struct slice p = slice_of(l, chunk, &l->out_op);
	bool private = is_private(l, &p), wants = wants_result(l, &p);
	if (!private && !is_summed(l, chunk))
		return false;
	if (private && wants) {
		unsigned bytes = fan_dtype_bytes(p.op->dtype);
		reduce(l, chunk, &p, 0, p.count, acc);
		memcpy((uint8_t *)p.op->out + p.from * bytes, acc, (size_t)p.count * bytes);
	} else if (wants) {
		copy_shares(l, chunk, &p);
	}
	atomic_store(&l->s->rank[l->me].out, ++l->out);
	if (l->out == op_at(l, l->out_op)->first + op_at(l, l->out_op)->chunks)
		l->first_op = l->out_op + 1;
	if (atomic_fetch_add(&at->left, 1) + 1 == all_of(l, chunk) &&
	    atomic_exchange(&at->wanted, 0))
		fan_host_ring_others(l->s, l->me, FAN_HOST_WORK);
	return true;
}

bool fan_host_work(struct fan_host_board *l)
{
	bool any = false;
	if (fan_host_error(l))
		return false;
	while (copy_out(l) || finish_share(l) || sum_share(l) || copy_in(l))
		any = true;
	return any;
}

/* Nobody waits for what this rank does about its next chunk: it sums that for itself, or not at
 * all. */
static bool sums_alone(struct fan_host_board *l)
{
	if (l->sum == l->in)
		return false;
	struct slice p = slice_of(l, l->sum, &l->sum_op);
	return is_private(l, &p) || l->me >= l->columns;
}

void fan_host_finish(struct fan_host_board *l)
{
	while (copy_out(l) || finish_share(l) || (sums_alone(l) && sum_share(l)))
		;
}

unsigned fan_host_missing(const struct fan_host_board *l, bool missing[FAN_HOST_RANKS_MAX],
			  bool *shares)
{
	unsigned count = 0;
	bool full = l->in < l->chunks && l->in >= FAN_HOST_DEPTH && l->in == l->out;
	*shares = l->out < l->sum; /* otherwise it waits for elements, or for a place */
	for (unsigned i = 0; i < FAN_HOST_RANKS_MAX; i++) {
		const struct fan_host_rank *r = &l->s->rank[i];
		bool late = *shares ? atomic_load(&r->summed) <= l->out
			    : full  ? atomic_load(&r->out) <= l->in - FAN_HOST_DEPTH
				    : atomic_load(&r->in) <= l->sum;
		missing[i] = i < l->ranks && i != l->me && l->out < l->chunks && late;
		count += missing[i];
	}
	return count;
}
