/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h - a sum of some ranks, and the bitmap that says of which.
 *
 * A PARTIAL carries the parts of several ranks, added up:
 *
 *      header, bitmap of 1 to 4 words, elements
 *
 * Elements are as wide as they are while they are summed, so that half types are rounded once, at
 * the aggregator; those of a broadcast are as they came.  A NEED of several ranks has a bitmap
 * and no elements.  doc/protocol/shared.md. */
#ifndef FAN_WIRE_PARTIAL_H
#define FAN_WIRE_PARTIAL_H

#include "ctlmsg.h"

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
	/* a broadcast is kept as it came, everything else grows as it is summed */
	uint32_t digits = f->op == FAN_BCAST ? FAN_DTYPE_DIGITS : FAN_DTYPE_ACC_DIGITS;
	return (size_t)f->count * fan_dtype_digit(digits, f->dtype);
}

/* Read the bitmap of `f`, which fan_wire_get accepted.  False: a rank that a job of `ranks` has
 * not, no rank at all, or not as many words as it needs: a PARTIAL's follow from its length, which
 * no check covers, and with another number the elements would be others. */
bool fan_partial_ranks(uint64_t *set, const struct fan_frag *f, unsigned ranks);

/* Write the bitmap `set` of a job of `ranks` before the elements at `elements`, where
 * FAN_BITMAP_MAX bytes must be free, and make `f` the PARTIAL or NEED with it: root, words,
 * payload.  `elements_bytes` follow.  `root`: or FAN_RANK_NONE. */
void fan_partial_put(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root,
		     uint8_t *elements, size_t elements_bytes);

#endif
