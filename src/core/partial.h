/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h - a sum of some ranks, and the bitmap that says of which.
 *
 * A DATA with the flag PARTIAL carries the parts of several ranks, added up:
 *
 *      header, bitmap of 1 to 4 words, elements
 *
 * The header's `sender` is no rank: its low byte is the number of words, its high byte
 * the rank of the root where ROOT is set.  Elements are as wide as they are while they
 * are summed, so that half types are rounded once, at the home; those of a broadcast are
 * as they came.  A NEED with PARTIAL has `count` words and no elements.
 * protocol.md, section 10. */
#ifndef FAN_PARTIAL_H
#define FAN_PARTIAL_H

#include "ctlmsg.h"

struct fan_partial {
	uint64_t ranks[FAN_RANK_WORDS]; /* whose parts are in; at least one */
	uint16_t first;			/* the lowest of them */
	uint16_t root;			/* or FAN_RANK_NONE */
	const uint8_t *elements;
	size_t bytes; /* of them */
};

/* Words of the bitmap that a job of `ranks` needs. */
static inline unsigned fan_partial_words(unsigned ranks)
{
	return (ranks + 63) / 64;
}

/* The element type of what is summed in a slot. */
static inline uint8_t fan_partial_dtype(const struct fan_frag *f)
{
	bool half = f->dtype == FAN_FLOAT16 || f->dtype == FAN_BFLOAT16;
	return half && f->op != FAN_BCAST ? FAN_FLOAT32 : f->dtype;
}

/* Bytes of `f`'s elements while they are summed. */
static inline size_t fan_partial_acc_bytes(const struct fan_frag *f)
{
	return (size_t)f->count * fan_dtype_bytes(fan_partial_dtype(f));
}

/* Read what `f`, which fan_wire_get accepted and which has the flag PARTIAL, carries.
 * False: a rank that a job of `ranks` has not, no rank at all, or a root that is none of
 * them. */
bool fan_partial_get(struct fan_partial *p, const struct fan_frag *f, unsigned ranks);

/* Write the bitmap `set` of a job of `ranks` before the elements at `elements`, where
 * FAN_BITMAP_MAX bytes must be free, and make `f` the PARTIAL with it: flag, sender,
 * payload.  `elements_bytes` follow.  `root`: or FAN_RANK_NONE. */
void fan_partial_put(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root,
		     uint8_t *elements, size_t elements_bytes);

/* How many ranks are in a bitmap, and the lowest of them (FAN_RANK_NONE: there is none). */
unsigned fan_ranks_count(const uint64_t *set);
uint16_t fan_ranks_first(const uint64_t *set);

#endif
