/* SPDX-License-Identifier: Apache-2.0 */
/* partial.h - partial sums on the wire: PARTIAL, with the bitmap of its ranks.
 *
 * A PARTIAL carries the sum of several ranks' contributions:
 *
 *      header, bitmap of 1 to 4 words, elements
 *
 * Elements have the width in which they are summed, so that half types and BLOCK8 are rounded once,
 * at the aggregator; those of a broadcast keep their type.  A NEED to several ranks has a bitmap
 * and no elements.  doc/protocol/shared.md. */
#ifndef FAN_WIRE_PARTIAL_H
#define FAN_WIRE_PARTIAL_H

#include "ctlmsg.h"

/* Words of the bitmap of a job of `ranks`. */
static inline unsigned fan_partial_words(unsigned ranks)
{
	return (ranks + 63) / 64;
}

/* The element type of the sum in a slot. */
static inline uint8_t fan_partial_dtype(const struct fan_frag *f)
{
	bool narrow = f->dtype == FAN_FLOAT16 || f->dtype == FAN_BFLOAT16 || f->dtype == FAN_BLOCK8;
	return narrow && f->op != FAN_BCAST ? FAN_FLOAT32 : f->dtype;
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

#endif
