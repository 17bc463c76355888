/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

#include <stdbool.h>
#include <string.h>

/* ---- eight bits an element ---- */

#define N	  FAN_BLOCK8_ELEMENTS
#define EXP_LEAST 8u /* so that steps, and what divides by them, are normal numbers */
#define EXP_NAN	  255u
#define HALF_STEP 0x10000u  /* of the largest magnitude's code, in bits of a float */
#define ROUNDER	  0x1.8p23f /* adding it rounds to an integer, which stands in the low bits */
#define INLINE	  static inline __attribute__((always_inline))

static float float_of(uint32_t u)
{
	float v;
	memcpy(&v, &u, sizeof v);
	return v;
}

/* Return the value of a code of 1: 0 and NaN where the block is. */
INLINE float step_of(unsigned e)
{
	if (e < EXP_LEAST)
		return 0;
	return float_of(e == EXP_NAN ? 0x7fc00000 : (e - 6) << 23);
}

/* A float as its bits, and the reverse. */
static uint32_t bits_of(float v)
{
	uint32_t u;
	memcpy(&u, &v, sizeof u);
	return u;
}

INLINE void put_block(uint8_t *restrict to, const fan_f32 *restrict x, unsigned n)
{
	uint32_t most = 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t m = bits_of(x[i]) & 0x7fffffff;
		most = m > most ? m : most;
	}
	uint32_t e = (most + HALF_STEP) >> 23;
	if (e < EXP_LEAST || e >= EXP_NAN) {
		memset(to, 0, n + 1);
		to[0] = e < EXP_LEAST ? 0 : EXP_NAN;
		return;
	}
	const float scale = float_of((260 - e) << 23); /* 2^(133 - e) */
	to[0] = (uint8_t)e;
	for (unsigned i = 0; i < n; i++)
		to[1 + i] = (uint8_t)bits_of(x[i] * scale + ROUNDER);
}

INLINE void get_block(fan_f32 *restrict to, const uint8_t *restrict from, unsigned n)
{
	const float step = step_of(from[0]);
	for (unsigned i = 0; i < n; i++)
		to[i] = (float)(int8_t)from[1 + i] * step;
}

INLINE void add_block(fan_f32 *restrict acc, const uint8_t *restrict from, unsigned n)
{
	const float step = step_of(from[0]);
	for (unsigned i = 0; i < n; i++)
		acc[i] += (float)(int8_t)from[1 + i] * step;
}

INLINE void error_block(fan_f32 *restrict lost, const fan_f32 *restrict x,
			const uint8_t *restrict from, unsigned n)
{
	const float step = step_of(from[0]);
	for (unsigned i = 0; i < n; i++)
		lost[i] = from[0] == EXP_NAN ? 0 : x[i] - (float)(int8_t)from[1 + i] * step;
}

/* Whole blocks, whose loops have a constant bound, then the one that is shorter. */

FAN_CLONES static void put_blocks(uint8_t *to, const fan_f32 *x, unsigned count)
{
	for (; count >= N; count -= N, x += N, to += N + 1)
		put_block(to, x, N);
	if (count)
		put_block(to, x, count);
}

FAN_CLONES static void get_blocks(fan_f32 *to, const uint8_t *from, unsigned count)
{
	for (; count >= N; count -= N, to += N, from += N + 1)
		get_block(to, from, N);
	if (count)
		get_block(to, from, count);
}

FAN_CLONES static void add_blocks(fan_f32 *acc, const uint8_t *from, unsigned count)
{
	for (; count >= N; count -= N, acc += N, from += N + 1)
		add_block(acc, from, N);
	if (count)
		add_block(acc, from, count);
}

FAN_CLONES static void find_block_errors(fan_f32 *lost, const fan_f32 *x, const uint8_t *from,
					 unsigned count)
{
	for (; count >= N; count -= N, lost += N, x += N, from += N + 1)
		error_block(lost, x, from, N);
	if (count)
		error_block(lost, x, from, count);
}

void fan_block8_put(uint8_t *to, const void *x, unsigned count)
{
	put_blocks(to, x, count);
}

void fan_block8_get(void *to, const uint8_t *from, unsigned count)
{
	get_blocks(to, from, count);
}

void fan_block8_error(void *error, const void *x, const uint8_t *from, unsigned count)
{
	find_block_errors(error, x, from, count);
}

/* ---- slots ---- */

#define HALF_CHUNK 64 /* elements converted at a time where source and result overlap */

#define UNROLL _Pragma("GCC unroll 4") /* vectors a turn of the loop */

/* One loop for each type and operation: acc[i] = EXPR of a = acc[i], b = p[i]. */
#define ADDER(name, type, expr)                                                                    \
	FAN_CLONES static void name(type *restrict acc, const type *restrict p, unsigned count)    \
	{                                                                                          \
		UNROLL                                                                             \
		for (unsigned i = 0; i < count; i++) {                                             \
			const type a = acc[i], b = p[i];                                           \
			acc[i] = (expr);                                                           \
		}                                                                                  \
	}

ADDER(sum_f32, fan_f32, a + b)
ADDER(min_f32, fan_f32, a < b || a != a ? a : b)
ADDER(max_f32, fan_f32, a > b || a != a ? a : b)
ADDER(sum_f64, fan_f64, a + b)
ADDER(min_f64, fan_f64, a < b || a != a ? a : b)
ADDER(max_f64, fan_f64, a > b || a != a ? a : b)
ADDER(sum_u32, fan_u32, a + b)
ADDER(min_i32, fan_i32, a < b ? a : b)
ADDER(max_i32, fan_i32, a > b ? a : b)
ADDER(sum_u64, fan_u64, a + b)
ADDER(min_i64, fan_i64, a < b ? a : b)
ADDER(max_i64, fan_i64, a > b ? a : b)
ADDER(max_i16, fan_i16, a > b ? a : b)

/* Is a FIXED32 code a number? */
static inline bool fixed_is_finite(int32_t v)
{
	return v < FAN_FIXED_INF && v > -FAN_FIXED_INF;
}

static inline int32_t fixed_add(int32_t a, int32_t b)
{
	int32_t sum = (int32_t)((uint32_t)a + (uint32_t)b);
	int32_t both = a == b ? a : FAN_FIXED_NAN;
	int32_t a_special = fixed_is_finite(b) ? a : both;
	return fixed_is_finite(a) ? (fixed_is_finite(b) ? sum : b) : a_special;
}

ADDER(sum_fixed, fan_i32, fixed_add(a, b))

static inline float bf16_to_f32(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float v)
{
	uint32_t u = bits_of(v);
	uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	uint32_t nan = u >> 16 | 0x40;
	return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float f16_to_f32(uint16_t h)
{
	const uint32_t rebias = 112u << 23; /* 127 - 15 exponents up */
	uint32_t magnitude = h & 0x7fffu;
	uint32_t normal = (magnitude << 13) + rebias;
	uint32_t special = normal + rebias;
	uint32_t small = bits_of((float)(int32_t)magnitude * 0x1p-24f);
	uint32_t u = magnitude >= 0x7c00 ? special : normal;
	u = magnitude < 0x400 ? small : u;
	return float_of(u | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t f16_from_f32(float v)
{
	uint32_t u = bits_of(v);
	uint32_t magnitude = u & 0x7fffffff;
	uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
	/* 0.5's last place is a half's smallest step: the addition rounds */
	uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
	uint32_t h = magnitude < 0x38800000 ? small : normal;
	h = magnitude >= 0x477ff000 ? 0x7c00 : h;
	h = magnitude > 0x7f800000 ? 0x7e00 : h;
	return (uint16_t)(h | u >> 16 >> 15 << 15);
}

#define CONVERTER(name, to, from, expr)                                                            \
	FAN_CLONES static void name(to *restrict dst, const from *restrict src, unsigned count)    \
	{                                                                                          \
		for (unsigned i = 0; i < count; i++) {                                             \
			const from v = src[i];                                                     \
			dst[i] = (expr);                                                           \
		}                                                                                  \
	}

CONVERTER(load_bf16, fan_f32, fan_u16, bf16_to_f32(v))
CONVERTER(load_f16, fan_f32, fan_u16, f16_to_f32(v))
CONVERTER(store_bf16, fan_u16, fan_f32, bf16_from_f32(v))
CONVERTER(store_f16, fan_u16, fan_f32, f16_from_f32(v))

#define HALF_ADDER(name, type, convert, expr)                                                      \
	FAN_CLONES static void name(fan_f32 *restrict acc, const fan_u16 *restrict p,              \
				    unsigned count)                                                \
	{                                                                                          \
		UNROLL                                                                             \
		for (unsigned i = 0; i < count; i++) {                                             \
			const float a = acc[i], b = convert(p[i]);                                 \
			acc[i] = (expr);                                                           \
		}                                                                                  \
	}

HALF_ADDER(sum_bf16, fan_u16, bf16_to_f32, a + b)
HALF_ADDER(min_bf16, fan_u16, bf16_to_f32, a < b || a != a ? a : b)
HALF_ADDER(max_bf16, fan_u16, bf16_to_f32, a > b || a != a ? a : b)
HALF_ADDER(sum_f16, fan_u16, f16_to_f32, a + b)
HALF_ADDER(min_f16, fan_u16, f16_to_f32, a < b || a != a ? a : b)
HALF_ADDER(max_f16, fan_u16, f16_to_f32, a > b || a != a ? a : b)

void fan_half_from_f32(unsigned dtype, void *dst, const void *src, unsigned count)
{
	if (dtype == FAN_BFLOAT16)
		store_bf16(dst, src, count);
	else
		store_f16(dst, src, count);
}

void fan_half_to_f32(unsigned dtype, void *dst, const void *src, unsigned count)
{
	if (dtype == FAN_BFLOAT16)
		load_bf16(dst, src, count);
	else
		load_f16(dst, src, count);
}

void fan_reduce_load(unsigned dtype, void *acc, const void *p, unsigned count)
{
	if (dtype == FAN_FLOAT16 || dtype == FAN_BFLOAT16)
		fan_half_to_f32(dtype, acc, p, count);
	else if (dtype == FAN_BLOCK8)
		fan_block8_get(acc, p, count);
	else
		memcpy(acc, p, (size_t)count * fan_dtype_bytes(dtype));
}

#define PICK(sum, min, max)                                                                        \
	do {                                                                                       \
		if (op == FAN_MIN)                                                                 \
			min(acc, p, count);                                                        \
		else if (op == FAN_MAX)                                                            \
			max(acc, p, count);                                                        \
		else if (op == FAN_SUM || op == FAN_AVG)                                           \
			sum(acc, p, count);                                                        \
	} while (0)

void fan_reduce_add(unsigned dtype, unsigned op, void *acc, const void *p, unsigned count)
{
	switch (dtype) {
	case FAN_FLOAT32: PICK(sum_f32, min_f32, max_f32); break;
	case FAN_FLOAT16: PICK(sum_f16, min_f16, max_f16); break;
	case FAN_BFLOAT16: PICK(sum_bf16, min_bf16, max_bf16); break;
	case FAN_INT32: PICK(sum_u32, min_i32, max_i32); break;
	case FAN_INT64: PICK(sum_u64, min_i64, max_i64); break;
	case FAN_FLOAT64: PICK(sum_f64, min_f64, max_f64); break;
	case FAN_FIXED32: sum_fixed(acc, p, count); break;
	case FAN_EXP16: max_i16(acc, p, count); break;
	case FAN_BLOCK8: add_blocks(acc, p, count); break;
	default: break; /* bytes are never added */
	}
}

static void divide(unsigned dtype, void *acc, unsigned count, unsigned ranks)
{
	if (dtype == FAN_INT32) {
		fan_i32 *v = acc;
		for (unsigned i = 0; i < count; i++)
			v[i] /= (int32_t)ranks;
	} else if (dtype == FAN_INT64) {
		fan_i64 *v = acc;
		for (unsigned i = 0; i < count; i++)
			v[i] /= (int64_t)ranks;
	} else if (dtype == FAN_FLOAT64) {
		fan_f64 *v = acc;
		for (unsigned i = 0; i < count; i++)
			v[i] /= ranks;
	} else if (dtype != FAN_FIXED32) {
		fan_f32 *v = acc;
		for (unsigned i = 0; i < count; i++)
			v[i] /= (float)ranks;
	}
}

void fan_reduce_finish(unsigned dtype, unsigned op, void *acc, unsigned count, unsigned ranks)
{
	if (op == FAN_AVG)
		divide(dtype, acc, count, ranks);
	if (dtype != FAN_FLOAT16 && dtype != FAN_BFLOAT16 && dtype != FAN_BLOCK8)
		return;
	uint16_t narrow[HALF_CHUNK]; /* BLOCK8 takes less */
	for (unsigned at = 0; at < count; at += HALF_CHUNK) {
		unsigned n = count - at < HALF_CHUNK ? count - at : HALF_CHUNK;
		const fan_f32 *from = (const fan_f32 *)acc + at;
		if (dtype == FAN_BLOCK8)
			fan_block8_put((uint8_t *)narrow, from, n);
		else
			fan_half_from_f32(dtype, narrow, from, n);
		memcpy((uint8_t *)acc + fan_wire_bytes(dtype, at), narrow,
		       fan_wire_bytes(dtype, n));
	}
}
