/* SPDX-License-Identifier: Apache-2.0 */
/* contribution.h - one contribution: the elements of one rank, or the sum of several ranks'.
 *
 * Every DATA and PARTIAL is read, checked and added here, so that aggregator, switch and helper
 * apply the same rules:
 *
 *  - a contribution is fit, or is dropped for the same reasons everywhere;
 *  - it is added only to a sum without any of its ranks, since nothing can be subtracted;
 *  - half types travel as declared in a DATA, and in the width of the sum in a PARTIAL: they
 *    are rounded once, where the last contribution is added. */
#ifndef FAN_SUM_CONTRIBUTION_H
#define FAN_SUM_CONTRIBUTION_H

#include "core/wire/ctlmsg.h"
#include "reduce.h"
/* Partial sums on the wire: PARTIAL, with the bitmap of its ranks.
 *
 * A PARTIAL carries the sum of several ranks' contributions:
 *
 *      header, bitmap of 1 to 4 words, elements
 *
 * Elements have the width in which they are summed, so that half types and BLOCK8 are rounded once,
 * at the aggregator; those of a broadcast keep their type.  A NEED to several ranks has a bitmap
 * and no elements.  doc/protocol/shared.md. */

/* Words of the bitmap of a job of `ranks`. */
static inline unsigned fan_partial_words(unsigned ranks)
{
	return (ranks + 63) / 64;
}

/* Bytes of the elements of `f` while they are summed. */
static inline size_t fan_partial_acc_bytes(const struct fan_frag *f)
{
	/* a broadcast keeps its type; sums may be wider */
	uint64_t digits = f->op == FAN_BCAST ? FAN_DTYPE_DIGITS : FAN_DTYPE_ACC_DIGITS;
	return (size_t)f->count * fan_dtype_digit(digits, f->dtype);
}

/* Read the bitmap of `f`, which fan_wire_get has accepted.  False: a rank beyond `ranks`, no rank,
 * or a wrong number of words: a PARTIAL's follows from its length, which no checksum covers, and
 * with another one its elements would be misread. */
bool fan_partial_ranks(uint64_t *set, const struct fan_frag *f, unsigned ranks);

/* Write the bitmap `set` of a job of `ranks` in front of the `elements_bytes` bytes at `elements`,
 * where FAN_BITMAP_MAX bytes must be free, and set root, words and payload of the PARTIAL or NEED
 * `f`.  `root` may be FAN_RANK_NONE. */
void fan_partial_put(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root,
		     uint8_t *elements, size_t elements_bytes);

struct fan_contribution {
	const struct fan_frag *f; /* the datagram */
	const uint8_t *elements;
	size_t bytes;			/* of the elements */
	uint64_t ranks[FAN_RANK_WORDS]; /* at least one */
	uint16_t first;			/* the lowest rank */
	uint16_t root; /* the rank that declares itself the root, or FAN_RANK_NONE */
	bool is_sum;   /* a PARTIAL, maybe of one rank */
	/* Set by switches alone: */
	bool sums;	      /* it is to be summed here */
	const fan_peer *next; /* its next hop */
};

/* As fan_contribution_get, for a PARTIAL. */
int fan_contribution_get_sum(struct fan_contribution *p, const struct fan_frag *f, unsigned ranks);

/* Read the contribution in `f`, which fan_wire_get has accepted and which must outlive `p`, to a
 * job of `ranks`.  Does not set the switch's fields.  -1, or the reason to drop it: SENDER (a rank
 * outside the job), FORMAT (the same in a PARTIAL, no rank, or a root outside its ranks). */
static inline int fan_contribution_get(struct fan_contribution *p, const struct fan_frag *f,
				       unsigned ranks)
{
	if (__builtin_expect(f->type == FAN_TYPE_PARTIAL, 0))
		return fan_contribution_get_sum(p, f, ranks);
	if (__builtin_expect(f->sender >= ranks, 0))
		return FAN_DROP_SENDER;
	p->f = f;
	p->elements = f->payload;
	p->bytes = f->payload_bytes;
	fan_ranks_none(p->ranks);
	fan_ranks_set(p->ranks, f->sender);
	p->first = f->sender;
	p->root = f->flags & FAN_F_ROOT ? f->sender : FAN_RANK_NONE;
	p->is_sum = false;
	return -1;
}

/* May the contribution be added to an accumulator of `acc_bytes`, in a job whose datagrams carry
 * `payload_bytes`, and with `summed` have checksums over the payload?  -1, or the reason to drop
 * it: LONG, FORMAT (an unexpected root, or missing or unexpected elements), CHECK. */
static inline int fan_contribution_unfit(const struct fan_contribution *p, size_t payload_bytes,
					 size_t acc_bytes, bool summed)
{
	const struct fan_frag *f = p->f;
	bool empty = f->flags & FAN_F_EMPTY, has_root = p->root != FAN_RANK_NONE;
	if (p->bytes > payload_bytes || fan_partial_acc_bytes(f) > acc_bytes)
		return FAN_DROP_LONG;
	if (f->flags & FAN_F_REDUCE ? f->op >= FAN_BCAST : has_root && f->op != FAN_BCAST)
		return FAN_DROP_FORMAT;
	if (f->op == FAN_BCAST ? empty == has_root : empty)
		return FAN_DROP_FORMAT;
	return summed && !(f->flags & FAN_F_SUMMED) ? FAN_DROP_CHECK : -1;
}

/* Is a rank of the contribution in `set`? */
static inline bool fan_contribution_meets(const struct fan_contribution *p, const uint64_t *set)
{
	return p->is_sum ? fan_ranks_meet(set, p->ranks) : fan_ranks_has(set, p->first);
}

/* Iterate over the contribution's ranks, beginning with p->first: the one after `rank`, or
 * FAN_RANK_NONE. */
static inline unsigned fan_contribution_next(const struct fan_contribution *p, unsigned rank)
{
	return p->is_sum ? fan_ranks_next(p->ranks, rank + 1) : FAN_RANK_NONE;
}

/* Add the ranks of the contribution to `set`.  Returns their number. */
static inline unsigned fan_contribution_join(const struct fan_contribution *p, uint64_t *set)
{
	if (p->is_sum) {
		fan_ranks_join(set, p->ranks);
		return fan_ranks_count(p->ranks);
	}
	fan_ranks_set(set, p->first);
	return 1;
}

/* Add the fit contribution to accumulator `acc`; `first`: overwrite it.  In a broadcast only the
 * root's contribution has elements; in a barrier none has. */
static inline void fan_contribution_add(const struct fan_contribution *p, uint8_t *acc, bool first)
{
	const struct fan_frag *f = p->f;
	uint8_t dtype = f->dtype;
	if (p->is_sum && (dtype == FAN_FLOAT16 || dtype == FAN_BFLOAT16 || dtype == FAN_BLOCK8))
		dtype = FAN_FLOAT32; /* as sums are in a slot */
	if (p->bytes == 0 || !p->elements)
		return;
	if (f->op == FAN_BCAST)
		memcpy(acc, p->elements, p->bytes);
	else if (first)
		fan_reduce_load(dtype, acc, p->elements, f->count);
	else
		fan_reduce_add(dtype, f->op, acc, p->elements, f->count);
}

#endif
