/* SPDX-License-Identifier: Apache-2.0 */
/* block8.h - eight bits an element: blocks of 32 with a common exponent.
 *
 * A block is a byte e and one signed byte q for each element, which means q x 2^(e - 133).  The
 * last block may be shorter.  e is the largest magnitude's biased exponent as binary32, one more
 * where q would round to 128.  A block whose e is below 8 is zeros, and one that holds a NaN, an
 * infinity or what rounds beyond the largest exponent is NaN throughout (e = 255).  Rounding is to
 * the nearest, ties to even: the same bits wherever it is done.  doc/protocol/base.md, 6.7. */
#ifndef FAN_SUM_BLOCK8_H
#define FAN_SUM_BLOCK8_H

#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

/* Bytes of whole blocks, `count` elements together: where the block that begins there is. */
static inline size_t fan_block8_at(size_t count)
{
	return count / FAN_BLOCK8_ELEMENTS * (FAN_BLOCK8_ELEMENTS + 1u);
}

/* Write `count` floats at `x` as fan_wire_bytes(FAN_BLOCK8, count) bytes.  No buffer need be
 * aligned, here and below, and none overlap. */
void fan_block8_put(uint8_t *to, const void *x, unsigned count);

/* Read `count` elements as floats, or add them to those at `acc`. */
void fan_block8_get(void *to, const uint8_t *from, unsigned count);
void fan_block8_add(void *acc, const uint8_t *from, unsigned count);

/* Return what fan_block8_put has lost of `x`: the float minus what is written at `from`; 0 in NaN
 * blocks. */
void fan_block8_error(void *error, const void *x, const uint8_t *from, unsigned count);

#endif
