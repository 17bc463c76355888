/* SPDX-License-Identifier: Apache-2.0 */
/* part.h - one contribution: the elements of one rank, or the sum of several ranks'.
 *
 * What a DATA or PARTIAL carries is read, checked and added here and nowhere else, so that
 * aggregator, switch and helper come to the same sums by the same rules:
 *
 *  - a part is fit, or it is dropped for the same reasons everywhere;
 *  - it is added where none of its ranks is in yet: what is in a sum twice cannot be taken
 *    out again;
 *  - of half types, a rank's own elements are as wide as they are declared, a sum's are as
 *    wide as they are summed: they are rounded once, where the last part is added. */
#ifndef FAN_SUM_PART_H
#define FAN_SUM_PART_H

#include "core/wire/partial.h"
#include "reduce.h"

struct fan_part {
	const struct fan_frag *f; /* as it came */
	const uint8_t *elements;
	size_t bytes;			/* of them */
	uint64_t ranks[FAN_RANK_WORDS]; /* whose they are; at least one */
	uint16_t first;			/* the lowest of them */
	uint16_t root; /* the one of them that says it is the root; or FAN_RANK_NONE */
	bool is_sum;   /* it came as a PARTIAL, maybe of one rank */
	/* Of a switch, which way the part goes: */
	bool sums;	      /* it is summed here, and not elsewhere */
	const fan_peer *next; /* on its way up */
};

/* As fan_part_get, of a PARTIAL. */
int fan_part_get_sum(struct fan_part *p, const struct fan_frag *f, unsigned ranks);

/* Read what ranks of a job of `ranks` bring by `f`, which fan_wire_get accepted and which stays.
 * -1, or why it is dropped: SENDER (a rank that the job has not), FORMAT (the same of a PARTIAL,
 * no rank at all, or a root that is none of them).  The switch's fields are not set. */
static inline int fan_part_get(struct fan_part *p, const struct fan_frag *f, unsigned ranks)
{
	if (f->type == FAN_TYPE_PARTIAL)
		return fan_part_get_sum(p, f, ranks);
	if (f->sender >= ranks)
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

/* May the part be added, where a job's datagrams carry `payload_bytes`, an accumulator has
 * `acc_bytes`, and with `summed` checksums cover what is carried?  -1, or why it is dropped: LONG,
 * FORMAT (a root where there is none, or elements missing or too many), CHECK. */
static inline int fan_part_unfit(const struct fan_part *p, size_t payload_bytes, size_t acc_bytes,
				 bool summed)
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

/* Is a rank of the part in `set`? */
static inline bool fan_part_meets(const struct fan_part *p, const uint64_t *set)
{
	return p->is_sum ? fan_ranks_meet(set, p->ranks) : fan_ranks_has(set, p->first);
}

/* The next of the part's ranks after `rank`, which is one of them; FAN_RANK_NONE: that was the
 * last. They begin with p->first. */
static inline unsigned fan_part_next(const struct fan_part *p, unsigned rank)
{
	return p->is_sum ? fan_ranks_next(p->ranks, rank + 1) : FAN_RANK_NONE;
}

/* Put the ranks of the part into `set`.  How many they are. */
static inline unsigned fan_part_join(const struct fan_part *p, uint64_t *set)
{
	if (p->is_sum) {
		fan_ranks_join(set, p->ranks);
		return fan_ranks_count(p->ranks);
	}
	fan_ranks_set(set, p->first);
	return 1;
}

/* Add the part, which is fit, to accumulator `acc`, as the first or not.  Of a broadcast, the
 * root's part alone has elements; of a barrier, none. */
static inline void fan_part_add(const struct fan_part *p, uint8_t *acc, bool first)
{
	const struct fan_frag *f = p->f;
	uint8_t dtype = p->is_sum ? fan_partial_dtype(f) : f->dtype;
	if (p->bytes == 0)
		return;
	if (f->op == FAN_BCAST)
		memcpy(acc, p->elements, p->bytes);
	else if (first)
		fan_reduce_load(dtype, acc, p->elements, f->count);
	else
		fan_reduce_add(dtype, f->op, acc, p->elements, f->count);
}

#endif
