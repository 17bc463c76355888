/* SPDX-License-Identifier: Apache-2.0 */
#include "block8.h"

#include <string.h>

#include "reduce.h"

#define N	  FAN_BLOCK8_ELEMENTS
#define EXP_LEAST 8u /* so that steps, and what divides by them, are normal numbers */
#define EXP_NAN	  255u
#define HALF_STEP 0x10000u  /* of the largest magnitude's code, in bits of a float */
#define ROUNDER	  0x1.8p23f /* adding it rounds to an integer, which stands in the low bits */
#define INLINE	  static inline __attribute__((always_inline))

/* Return the value of a code of 1: 0 and NaN where the block is. */
INLINE float step_of(unsigned e)
{
	if (e < EXP_LEAST)
		return 0;
	return fan_f32_of(e == EXP_NAN ? 0x7fc00000 : (e - 6) << 23);
}

INLINE void put_block(uint8_t *restrict to, const fan_f32 *restrict x, unsigned n)
{
	uint32_t most = 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t m = fan_f32_bits(x[i]) & 0x7fffffff;
		most = m > most ? m : most;
	}
	uint32_t e = (most + HALF_STEP) >> 23;
	if (e < EXP_LEAST || e >= EXP_NAN) {
		memset(to, 0, n + 1);
		to[0] = e < EXP_LEAST ? 0 : EXP_NAN;
		return;
	}
	const float scale = fan_f32_of((260 - e) << 23); /* 2^(133 - e) */
	to[0] = (uint8_t)e;
	for (unsigned i = 0; i < n; i++)
		to[1 + i] = (uint8_t)fan_f32_bits(x[i] * scale + ROUNDER);
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

void fan_block8_add(void *acc, const uint8_t *from, unsigned count)
{
	add_blocks(acc, from, count);
}

void fan_block8_error(void *error, const void *x, const uint8_t *from, unsigned count)
{
	find_block_errors(error, x, from, count);
}
