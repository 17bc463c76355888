/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <float.h>
#include <math.h>

#include "core/sum/quant.h"
#include "core/sum/reduce.h"

#define BLOCK 64

TEST(quant__exponents)
{
	const struct {
		float x;
		int e;
	} row[] = {
		{0, FAN_EXP_ZERO},
		{-0.0f, FAN_EXP_ZERO},
		{NAN, FAN_EXP_ZERO},
		{-INFINITY, FAN_EXP_ZERO},
		{1, 0},
		{-1, 0},
		{1.5f, 1},
		{2, 1},
		{0x1.000002p1f, 2},
		{FLT_MAX, 128},
		{-FLT_MAX, 128},
		{0x1p127f, 127},
		{FLT_MIN, -126},
		{0x1.000002p-126f, -125},
		{0x1p-149f, -149},
		{0x1.8p-148f, -147},
		{0x1p-127f, -127},
		{0x1.fffffcp-127f, -126},
	};
	for (unsigned i = 0; i < sizeof row / sizeof *row; i++)
		assert_int_equal(fan_quant_exponent(&row[i].x, 1), row[i].e);
	const float mixed[4] = {NAN, 3, INFINITY, -0.25f};
	assert_int_equal(fan_quant_exponent(mixed, 4), 2);
	assert_int_equal(fan_quant_exponent(mixed, 0), FAN_EXP_ZERO);
}

/* 2^e >= |x| > 2^(e-1) for any finite x but 0. */
TEST(quant__exponent_bounds_any_float)
{
	struct fan_rng r = test_rng();
	for (unsigned i = 0; i < 500000; i++) {
		uint32_t bits = (uint32_t)fan_rng_next(&r) & (i % 2 ? UINT32_MAX : 0x80ffffff);
		float x;
		memcpy(&x, &bits, sizeof x);
		int e = fan_quant_exponent(&x, 1);
		if (!isfinite(x) || x == 0)
			assert_int_equal(e, FAN_EXP_ZERO);
		else
			assert_true(ldexp(1, e) >= fabs((double)x) &&
				    fabs((double)x) > ldexp(1, e - 1));
	}
}

TEST(quant__clamp)
{
	assert_int_equal(fan_quant_clamp(FAN_EXP_ZERO), FAN_EXP_ZERO);
	assert_int_equal(fan_quant_clamp(FAN_EXP_ZERO + 1), FAN_EXP_MIN);
	assert_int_equal(fan_quant_clamp(-150), FAN_EXP_MIN);
	assert_int_equal(fan_quant_clamp(-149), -149);
	assert_int_equal(fan_quant_clamp(128), 128);
	assert_int_equal(fan_quant_clamp(INT16_MAX), FAN_EXP_MAX);
}

/* All ranks' blocks: their codes added in the order that starts at `first`. */
static int16_t sum_of(const float x[][BLOCK], unsigned ranks, unsigned first, int32_t *acc)
{
	int16_t e = FAN_EXP_ZERO;
	for (unsigned r = 0; r < ranks; r++) {
		int16_t own = fan_quant_exponent(x[r], BLOCK);
		e = own > e ? own : e;
	}
	for (unsigned n = 0; n < ranks; n++) {
		int32_t q[BLOCK];
		fan_quant_encode(q, x[(first + n) % ranks], BLOCK, e, ranks);
		if (n == 0)
			memcpy(acc, q, sizeof q);
		else
			fan_reduce_add(FAN_FIXED32, FAN_SUM, acc, q, BLOCK);
	}
	return e;
}

static float draw(struct fan_rng *r, unsigned kind)
{
	float unit = (float)(int32_t)fan_rng_next(r) * 0x1p-31f;
	switch (kind) {
	case 0: return 0;
	case 1: return unit * 0x1p-130f; /* denormals */
	case 2: return unit * FLT_MAX;
	case 3: return fan_rng_below(r, 2) ? FLT_MAX : -FLT_MAX;
	case 4: return 0x1p-149f;
	default: return ldexpf(unit, (int)fan_rng_below(r, 60) - 30);
	}
}

/* Error at most ranks / f an element, no overflow, the same bits in any order. */
static void check_block(struct fan_rng *r, const float x[][BLOCK], unsigned ranks)
{
	int32_t acc[BLOCK], other[BLOCK];
	float got[BLOCK];
	int16_t e = sum_of(x, ranks, 0, acc);
	assert_int_equal(sum_of(x, ranks, (unsigned)fan_rng_below(r, ranks), other), e);
	assert_memory_equal(acc, other, sizeof acc);
	fan_quant_decode(got, acc, BLOCK, e, ranks, 1);
	double step = e == FAN_EXP_ZERO ? 0 : ldexp(1, e) / floor(2147483646.0 / ranks);
	for (unsigned i = 0; i < BLOCK; i++) {
		double sum = 0;
		for (unsigned k = 0; k < ranks; k++)
			sum += (double)x[k][i];
		assert_true(acc[i] > -FAN_FIXED_INF && acc[i] < FAN_FIXED_INF);
		if (fabs(sum) > (double)FLT_MAX)
			continue; /* beyond what a float holds */
		/* half a code for each rank, and the rounding to float */
		double bound = ranks * step / 2 + fabs(sum) * 0x1p-23 + 0x1p-149;
		assert_true(fabs((double)got[i] - sum) <= bound);
	}
}

TEST(quant__error_is_bounded)
{
	struct fan_rng r = test_rng();
	static float x[FAN_RANKS_MAX][BLOCK];
	static const unsigned some[] = {2, 3, 5, 8, 17, 64, 255, 256};
	for (unsigned n = 0; n < 8; n++) {
		for (unsigned kind = 0; kind < 7; kind++) {
			for (unsigned k = 0; k < some[n]; k++)
				for (unsigned i = 0; i < BLOCK; i++)
					x[k][i] =
						draw(&r, kind < 6 ? kind
								  : (unsigned)fan_rng_below(&r, 6));
			check_block(&r, x, some[n]);
		}
	}
}

/* The largest codes that there are, from every rank. */
TEST(quant__no_overflow_for_any_number_of_ranks)
{
	static float x[FAN_RANKS_MAX][BLOCK];
	for (unsigned ranks = 2; ranks <= FAN_RANKS_MAX; ranks++) {
		for (unsigned k = 0; k < ranks; k++)
			for (unsigned i = 0; i < BLOCK; i++)
				x[k][i] = i % 2 ? 0x1p20f : -0x1p20f;
		int32_t acc[BLOCK];
		int16_t e = sum_of(x, ranks, 0, acc);
		assert_int_equal(e, 20);
		assert_int_equal(acc[1], (int32_t)(2147483646u / ranks * ranks));
		assert_int_equal(acc[0], -acc[1]);
		float got[BLOCK];
		fan_quant_decode(got, acc, BLOCK, e, ranks, ranks);
		assert_true(got[1] == 0x1p20f && got[0] == -0x1p20f);
	}
}

TEST(quant__specials_stick)
{
	static float x[3][BLOCK];
	memset(x, 0, sizeof x);
	for (unsigned k = 0; k < 3; k++)
		x[k][0] = x[k][5] = (float)k;
	x[1][0] = NAN;
	x[0][1] = INFINITY;
	x[2][2] = -INFINITY;
	x[0][3] = INFINITY;
	x[1][3] = -INFINITY;
	x[0][4] = x[1][4] = INFINITY;
	int32_t acc[BLOCK];
	float got[BLOCK];
	int16_t e = sum_of(x, 3, 1, acc);
	fan_quant_decode(got, acc, BLOCK, e, 3, 1);
	assert_true(isnan(got[0]) && got[1] == INFINITY && got[2] == -INFINITY);
	assert_true(isnan(got[3]) && got[4] == INFINITY && fabsf(got[5] - 3) < 1e-6f);
	for (unsigned i = 6; i < BLOCK; i++)
		assert_true(got[i] == 0);
}

/* A block of nothing but zeros and specials has no scale. */
TEST(quant__block_without_a_scale)
{
	static float x[2][BLOCK];
	memset(x, 0, sizeof x);
	x[0][3] = NAN;
	x[1][4] = -INFINITY;
	int32_t acc[BLOCK];
	float got[BLOCK];
	int16_t e = sum_of(x, 2, 0, acc);
	assert_int_equal(e, FAN_EXP_ZERO);
	fan_quant_decode(got, acc, BLOCK, e, 2, 2);
	for (unsigned i = 0; i < BLOCK; i++)
		assert_true(i == 3 ? isnan(got[i]) : i == 4 ? got[i] == -INFINITY : got[i] == 0);
}

UNIT_MAIN
