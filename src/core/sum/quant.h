/* SPDX-License-Identifier: Apache-2.0 */
/* quant.h - block fixed point: float32 sums with the same bits on every run.
 *
 * A block is one fragment's elements.  All ranks agree on the largest exponent e of
 * the block, 2^e >= |x| for every finite x of every rank, and send
 *
 *     q = round(x * f),   f = M / 2^e,   M = floor((2^31 - 2) / ranks)
 *
 * whose sum is an integer below 2^31 - 1 and so does not depend on the order.  The
 * result is sum(q) / f; its error is at most ranks / f an element.  NaN and infinities
 * travel as codes of their own that stick: NaN + x = NaN, inf + x = inf, inf - inf =
 * NaN.  After SwitchML (NSDI'21), with M instead of (2^31 - 1) / ranks so that rounding
 * can never overflow.  doc/protocol/fixed.md. */
#ifndef FAN_SUM_QUANT_H
#define FAN_SUM_QUANT_H

#include <stdint.h>

#define FAN_EXP_ZERO INT16_MIN /* exponent of a block without a finite value but 0 */
#define FAN_EXP_MIN  (-149)    /* of the smallest denormal, 2^-149 */
#define FAN_EXP_MAX  128       /* of the largest float, below 2^128 */

/* The smallest e with 2^e >= |x| for all finite x of the block, or FAN_EXP_ZERO. */
int16_t fan_quant_exponent(const void *x, unsigned count);

/* Clamp an exponent from the network to its range. */
int16_t fan_quant_clamp(int16_t e);

/* Encode `count` float32 at x as FIXED32 codes at q, with the agreed exponent `e` of the block.
 * Finite values beyond 2^e (the caller has changed its tensor) give unspecified finite codes. */
void fan_quant_encode(void *q, const void *x, unsigned count, int16_t e, unsigned ranks);

/* Decode the sum q over `ranks` to float32 at x, divided by `divisor` (1, or `ranks` for an
 * average). */
void fan_quant_decode(void *x, const void *q, unsigned count, int16_t e, unsigned ranks,
		      unsigned divisor);

#endif
