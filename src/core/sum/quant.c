/* SPDX-License-Identifier: Apache-2.0 */
#include "quant.h"

#include <stdbool.h>
#include <string.h>

#include "reduce.h"

#define F32_INF 0x7f800000u /* bits; above: NaN */

/* Adding it rounds to an integer, which then stands in the low bits of the double. */
#define ROUNDER 0x1.8p52

FAN_CLONES static uint32_t largest_magnitude(const fan_u32 *bits, unsigned count)
{
	uint32_t largest = 0;
	for (unsigned i = 0; i < count; i++) {
		uint32_t m = bits[i] & 0x7fffffff;
		m = m < F32_INF ? m : 0;
		largest = m > largest ? m : largest;
	}
	return largest;
}

int16_t fan_quant_exponent(const void *x, unsigned count)
{
	uint32_t m = largest_magnitude(x, count);
	if (m == 0)
		return FAN_EXP_ZERO;
	if (m >= 0x00800000)
		return (int16_t)((int)(m >> 23) - 127 + ((m & 0x007fffff) != 0));
	int e = FAN_EXP_MIN; /* denormal: m steps of 2^-149 */
	while ((UINT32_C(1) << (e - FAN_EXP_MIN)) < m)
		e++;
	return (int16_t)e;
}

int16_t fan_quant_clamp(int16_t e)
{
	if (e == FAN_EXP_ZERO)
		return e;
	if (e < FAN_EXP_MIN)
		return FAN_EXP_MIN;
	return e > FAN_EXP_MAX ? FAN_EXP_MAX : e;
}

/* 2^e as a double, for the exponents that occur. */
static double power_of_two(int e)
{
	uint64_t bits = (uint64_t)(1023 + e) << 52;
	double v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* M: the largest code of one rank. */
static double code_max(unsigned ranks)
{
	return (double)((UINT32_C(0x7fffffff) - 1) / ranks);
}

/* `yes` where the condition holds, else `no`: without a branch, so that loops
 * vectorise. */
static inline uint32_t pick(bool condition, uint32_t yes, uint32_t no)
{
	uint32_t mask = 0u - (uint32_t)condition;
	return (yes & mask) | (no & ~mask);
}

static inline int32_t encode_one(uint32_t bits, double f)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	double shifted = (double)v * f + ROUNDER;
	uint64_t low;
	memcpy(&low, &shifted, sizeof low);
	uint32_t magnitude = bits & 0x7fffffff;
	uint32_t infinite = pick(bits >> 31, (uint32_t)-FAN_FIXED_INF, FAN_FIXED_INF);
	uint32_t special = pick(magnitude > F32_INF, (uint32_t)FAN_FIXED_NAN, infinite);
	return (int32_t)pick(magnitude >= F32_INF, special, (uint32_t)low);
}

FAN_CLONES static void encode(fan_i32 *restrict q, const fan_u32 *restrict x, unsigned count,
			      double f)
{
	for (unsigned i = 0; i < count; i++)
		q[i] = encode_one(x[i], f);
}

void fan_quant_encode(void *q, const void *x, unsigned count, int16_t e, unsigned ranks)
{
	double f = e == FAN_EXP_ZERO ? 0 : code_max(ranks) * power_of_two(-e);
	encode(q, x, count, f);
}

static inline float decode_one(int32_t q, double step)
{
	float v = (float)((double)q * step);
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	bits = pick(q == FAN_FIXED_INF, F32_INF, bits);
	bits = pick(q == -FAN_FIXED_INF, F32_INF | 0x80000000u, bits);
	bits = pick(q == FAN_FIXED_NAN, 0x7fc00000, bits);
	memcpy(&v, &bits, sizeof v);
	return v;
}

FAN_CLONES static void decode(fan_f32 *restrict x, const fan_i32 *restrict q, unsigned count,
			      double step)
{
	for (unsigned i = 0; i < count; i++)
		x[i] = decode_one(q[i], step);
}

void fan_quant_decode(void *x, const void *q, unsigned count, int16_t e, unsigned ranks,
		      unsigned divisor)
{
	double step = e == FAN_EXP_ZERO ? 0 : power_of_two(e) / code_max(ranks) / divisor;
	decode(x, q, count, step);
}
