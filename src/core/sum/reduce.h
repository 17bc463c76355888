/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h - the arithmetic of a slot: load the first contribution, add the others,
 * finish the sum.
 *
 * A slot accumulates in fan_dtype_acc_bytes(dtype) bytes an element: half types and
 * BLOCK8 are summed in float32, all others in their own type.  Integer sums wrap.  Payloads
 * need no alignment; accumulators are aligned to 8.  The loops are plain C that
 * compilers vectorise, once for each width of vectors where possible. */
#ifndef FAN_SUM_REDUCE_H
#define FAN_SUM_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/wire/wire.h"

/* Compile a function for wider vectors as well, to be chosen when the program is loaded.  Not under
 * sanitizers, which are not set up by then.  clang's linker symbol NAME.resolver is global even
 * where the function is static: no two of one name in a program. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&      \
	!defined(FAN_NO_CLONES)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
	__has_feature(memory_sanitizer)
#define FAN_CLONES
#endif
#endif
#ifndef FAN_CLONES
#define FAN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define FAN_CLONES
#endif

/* Elements in place: any alignment, any declared type. */
#define FAN_IN_PLACE __attribute__((aligned(1), may_alias))
typedef float fan_f32 FAN_IN_PLACE;
typedef double fan_f64 FAN_IN_PLACE;
typedef int32_t fan_i32 FAN_IN_PLACE;
typedef uint32_t fan_u32 FAN_IN_PLACE;
typedef int64_t fan_i64 FAN_IN_PLACE;
typedef uint64_t fan_u64 FAN_IN_PLACE;
typedef int16_t fan_i16 FAN_IN_PLACE;
typedef uint16_t fan_u16 FAN_IN_PLACE;

/* acc[i] = p[i] */
void fan_reduce_load(unsigned dtype, void *acc, const void *p, unsigned count);

/* acc[i] = acc[i] op p[i].  FAN_AVG adds as FAN_SUM does.  fan_wire_get must accept `op` with
 * `dtype`; not for broadcasts and barriers. */
void fan_reduce_add(unsigned dtype, unsigned op, void *acc, const void *p, unsigned count);

/* Turn a full accumulator into the result as it goes on the wire, in place: divides
 * averages by `ranks` (integers truncate towards zero; FIXED32 is left to the
 * receivers, which divide exactly) and rounds half types and BLOCK8. */
void fan_reduce_finish(unsigned dtype, unsigned op, void *acc, unsigned count, unsigned ranks);

/* Conversions, round to nearest even; NaN stays NaN.  `dst` and `src` do not overlap. */
void fan_half_from_f32(unsigned dtype, void *dst, const void *src, unsigned count);
void fan_half_to_f32(unsigned dtype, void *dst, const void *src, unsigned count);

/* FIXED32 codes that are no numbers.  Finite codes lie strictly between the infinities. */
#define FAN_FIXED_NAN INT32_MIN
#define FAN_FIXED_INF INT32_MAX /* minus infinity: -INT32_MAX */

/* Eight bits an element: blocks of 32 with a common exponent.
 *
 * A block is a byte e and one signed byte q for each element, which means q x 2^(e - 133).  The
 * last block may be shorter.  e is the largest magnitude's biased exponent as binary32, one more
 * where q would round to 128.  A block whose e is below 8 is zeros, and one that holds a NaN, an
 * infinity or what rounds beyond the largest exponent is NaN throughout (e = 255).  Rounding is to
 * the nearest, ties to even: the same bits wherever it is done.  doc/protocol/base.md, 6.7. */

/* Write `count` floats at `x` as fan_wire_bytes(FAN_BLOCK8, count) bytes.  No buffer need be
 * aligned, here and below, and none overlap. */
void fan_block8_put(uint8_t *to, const void *x, unsigned count);

/* Read `count` elements as floats. */
void fan_block8_get(void *to, const uint8_t *from, unsigned count);

/* Return what fan_block8_put has lost of `x`: the float minus what is written at `from`; 0 in NaN
 * blocks. */
void fan_block8_error(void *error, const void *x, const uint8_t *from, unsigned count);

#endif
