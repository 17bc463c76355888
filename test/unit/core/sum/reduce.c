/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <math.h>

#include "core/sum/reduce.h"
#include "sim/tensor.h"

TEST(reduce__every_half_to_float)
{
	for (unsigned dtype = FAN_FLOAT16; dtype <= FAN_BFLOAT16; dtype++) {
		for (unsigned h = 0; h < 65536; h++) {
			uint16_t in = (uint16_t)h;
			float got;
			fan_half_to_f32(dtype, &got, &in, 1);
			double want = tensor_half_to(in, dtype);
			if (isnan(want))
				assert_true(isnan(got));
			else
				assert_true((double)got == want && !signbit(got) == !(h & 0x8000));
		}
	}
}

static uint16_t to_half(unsigned dtype, float v)
{
	uint16_t h;
	fan_half_from_f32(dtype, &h, &v, 1);
	return h;
}

static void compare_rounding(unsigned dtype, float v)
{
	uint16_t got = to_half(dtype, v), want = tensor_half_from((double)v, dtype);
	if (isnan(v)) {
		assert_true(isnan(tensor_half_to(got, dtype)));
		return;
	}
	if (got != want)
		print_message("dtype %u %a: %04x, want %04x\n", dtype, (double)v, got, want);
	assert_int_equal(got, want);
}

static float float_of(uint32_t bits)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* Each half, the middle to the next one, and the floats around both: ties, denormals,
 * overflow, infinities and NaN among them. */
TEST(reduce__float_to_half_around_each)
{
	for (unsigned dtype = FAN_FLOAT16; dtype <= FAN_BFLOAT16; dtype++) {
		for (unsigned h = 0; h < 65536; h++) {
			uint16_t in = (uint16_t)h, next = (uint16_t)(h + 1);
			float low, high;
			fan_half_to_f32(dtype, &low, &in, 1);
			fan_half_to_f32(dtype, &high, &next, 1);
			float middle = low / 2 + high / 2;
			uint32_t at[2];
			memcpy(&at[0], &low, sizeof low);
			memcpy(&at[1], &middle, sizeof middle);
			for (unsigned i = 0; i < 2; i++)
				for (uint32_t d = 0; d < 3; d++)
					compare_rounding(dtype, float_of(at[i] + d - 1));
		}
	}
}

TEST(reduce__float_to_half_at_random)
{
	struct fan_rng r = test_rng();
	for (unsigned i = 0; i < 400000; i++) {
		compare_rounding(FAN_FLOAT16, float_of((uint32_t)fan_rng_next(&r)));
		compare_rounding(FAN_BFLOAT16, float_of((uint32_t)fan_rng_next(&r)));
		float near = (float)(int32_t)fan_rng_next(&r) * 0x1p-36f; /* denormal halves */
		compare_rounding(FAN_FLOAT16, near);
	}
}

#if defined(__FLT16_MAX__) && defined(__GNUC__) && !defined(__clang__)
TEST(reduce__agrees_with_the_compiler)
{
	struct fan_rng r = test_rng();
	for (unsigned i = 0; i < 400000; i++) {
		float v = float_of((uint32_t)fan_rng_next(&r));
		_Float16 f = (_Float16)v;
		uint16_t want;
		memcpy(&want, &f, sizeof want);
		if (!isnan(v))
			assert_int_equal(to_half(FAN_FLOAT16, v), want);
	}
}
#else
TEST(reduce__agrees_with_the_compiler)
{
	skip(); /* it has no _Float16 */
}
#endif

TEST(reduce__half_overflow)
{
	assert_int_equal(to_half(FAN_FLOAT16, 65504), 0x7bff);
	assert_int_equal(to_half(FAN_FLOAT16, 65519.996f), 0x7bff);
	assert_int_equal(to_half(FAN_FLOAT16, 65520), 0x7c00); /* tie: to even, infinity */
	assert_int_equal(to_half(FAN_FLOAT16, -1e30f), 0xfc00);
	assert_int_equal(to_half(FAN_BFLOAT16, 3.4e38f), 0x7f80);
	assert_int_equal(to_half(FAN_FLOAT16, -0.0f), 0x8000);
	assert_int_equal(to_half(FAN_FLOAT16, 0x1p-25f), 0); /* tie: to even */
	assert_int_equal(to_half(FAN_FLOAT16, 0x1.8p-25f), 1);
}

TEST(reduce__nan_wins_min_and_max)
{
	const float a[4] = {NAN, 1, NAN, -INFINITY}, b[4] = {1, NAN, NAN, 5};
	for (unsigned op = FAN_MIN; op <= FAN_MAX; op++) {
		float acc[4];
		memcpy(acc, a, sizeof acc);
		fan_reduce_add(FAN_FLOAT32, op, acc, b, 4);
		assert_true(isnan(acc[0]) && isnan(acc[1]) && isnan(acc[2]));
		assert_true(acc[3] == (op == FAN_MIN ? -INFINITY : 5));
		for (unsigned dtype = FAN_FLOAT16; dtype <= FAN_BFLOAT16; dtype++) {
			uint16_t ha[4], hb[4];
			fan_half_from_f32(dtype, ha, a, 4);
			fan_half_from_f32(dtype, hb, b, 4);
			fan_reduce_load(dtype, acc, ha, 4);
			fan_reduce_add(dtype, op, acc, hb, 4);
			assert_true(isnan(acc[0]) && isnan(acc[1]) && isnan(acc[2]));
			assert_true(acc[3] == (op == FAN_MIN ? -INFINITY : 5));
		}
	}
}

TEST(reduce__float64_keeps_its_digits)
{
	double a[3] = {0x1p53, NAN, 1}, b[3] = {-1, 1, 0x1p-52};
	fan_reduce_add(FAN_FLOAT64, FAN_SUM, a, b, 3);
	assert_true(a[0] == 0x1p53 - 1 && isnan(a[1]) && a[2] == 1 + 0x1p-52);
	double low[2] = {3, 1}, high[2] = {3, 1}, c[2] = {-0x1p-1000, NAN};
	fan_reduce_add(FAN_FLOAT64, FAN_MIN, low, c, 2);
	fan_reduce_add(FAN_FLOAT64, FAN_MAX, high, c, 2);
	assert_true(low[0] == -0x1p-1000 && isnan(low[1]) && high[0] == 3 && isnan(high[1]));
	double mean = 1;
	fan_reduce_finish(FAN_FLOAT64, FAN_AVG, &mean, 1, 3);
	assert_true(mean == 1.0 / 3);
}

TEST(reduce__integers_wrap)
{
	int32_t a = INT32_MAX, b = 1;
	fan_reduce_add(FAN_INT32, FAN_SUM, &a, &b, 1);
	assert_int_equal(a, INT32_MIN);
	int64_t c = INT64_MIN, d = -1;
	fan_reduce_add(FAN_INT64, FAN_AVG, &c, &d, 1);
	assert_true(c == INT64_MAX);
	c = INT64_MIN;
	fan_reduce_add(FAN_INT64, FAN_MAX, &c, &d, 1);
	assert_true(c == -1);
	fan_reduce_add(FAN_INT32, FAN_MIN, &b, &a, 1);
	assert_int_equal(b, INT32_MIN);
}

TEST(reduce__fixed_codes_stick)
{
	const int32_t inf = FAN_FIXED_INF, nan = FAN_FIXED_NAN;
	const struct {
		int32_t a, b, sum;
	} row[] = {
		{1, 2, 3},	  {inf, 5, inf},      {-7, inf, inf},  {-inf, inf - 1, -inf},
		{inf, -inf, nan}, {-inf, inf, nan},   {nan, 0, nan},   {inf, nan, nan},
		{inf, inf, inf},  {-inf, -inf, -inf}, {nan, nan, nan}, {1 << 30, -(1 << 30), 0},
	};
	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		int32_t acc = row[i].a;
		fan_reduce_add(FAN_FIXED32, FAN_SUM, &acc, &row[i].b, 1);
		assert_int_equal(acc, row[i].sum);
	}
}

TEST(reduce__exponents)
{
	int16_t a[3] = {INT16_MIN, -149, 5}, b[3] = {-149, INT16_MIN, 4};
	fan_reduce_add(FAN_EXP16, FAN_MAX, a, b, 3);
	assert_int_equal(a[0], -149);
	assert_int_equal(a[1], -149);
	assert_int_equal(a[2], 5);
}

TEST(reduce__averages)
{
	int32_t i[2] = {-7, 7};
	fan_reduce_finish(FAN_INT32, FAN_AVG, i, 2, 2);
	assert_true(i[0] == -3 && i[1] == 3); /* towards zero */
	int64_t l = -9;
	fan_reduce_finish(FAN_INT64, FAN_AVG, &l, 1, 4);
	assert_true(l == -2);
	float f[2] = {10, NAN};
	fan_reduce_finish(FAN_FLOAT32, FAN_AVG, f, 2, 3);
	assert_true(f[0] == 10.0f / 3.0f && isnan(f[1]));
	int32_t q = 1000; /* the receivers divide */
	fan_reduce_finish(FAN_FIXED32, FAN_AVG, &q, 1, 4);
	assert_int_equal(q, 1000);
	f[0] = 10;
	fan_reduce_finish(FAN_FLOAT32, FAN_SUM, f, 1, 3);
	assert_true(f[0] == 10);
}

/* Results of half types shrink in place, over several of its chunks. */
TEST(reduce__half_finish_in_place)
{
	enum { COUNT = 203 };
	for (unsigned dtype = FAN_FLOAT16; dtype <= FAN_BFLOAT16; dtype++) {
		for (unsigned count = 0; count <= COUNT; count += 29) {
			float acc[COUNT + 1];
			for (unsigned i = 0; i <= COUNT; i++)
				acc[i] = (float)i;
			fan_reduce_finish(dtype, FAN_AVG, acc, count, 2);
			for (unsigned i = 0; i < count; i++) {
				uint16_t h = fan_get16((const uint8_t *)acc + (size_t)2 * i);
				assert_int_equal(h, tensor_half_from(i / 2.0, dtype));
			}
			assert_true(acc[count] == (float)count);
		}
	}
}

/* Any alignment of the payload, any count, nothing beyond it. */
TEST(reduce__odd_places_and_counts)
{
	static const unsigned types[] = {FAN_FLOAT32, FAN_FLOAT16, FAN_BFLOAT16, FAN_INT32,
					 FAN_INT64,   FAN_FIXED32, FAN_FLOAT64};
	for (unsigned t = 0; t < 7; t++) {
		unsigned wire = fan_dtype_bytes(types[t]),
			 acc_bytes = fan_dtype_acc_bytes(types[t]);
		for (unsigned count = 0; count < 70; count++) {
			_Alignas(8) uint8_t acc[70 * 8 + 1], payload[70 * 8 + 8];
			memset(acc, 0x77, sizeof acc);
			memset(payload, 0, sizeof payload);
			uint8_t *at = payload + 1 + count % 7;
			fan_reduce_load(types[t], acc, at, count);
			assert_int_equal(acc[(size_t)count * acc_bytes], 0x77);
			fan_reduce_add(types[t], FAN_SUM, acc, at, count);
			for (unsigned i = 0; i < count * acc_bytes; i++)
				assert_int_equal(acc[i], 0);
			assert_int_equal(acc[(size_t)count * acc_bytes], 0x77);
			assert_true(at + (size_t)count * wire <= payload + sizeof payload);
		}
	}
}

/* ---- BLOCK8 ---- */

/* As base.md says it: by doubles, where reduce.c has bits.  Writes e and the codes. */
static void block_of(const float *x, unsigned n, uint8_t *to)
{
	double most = 0;
	bool finite = true;
	memset(to, 0, n + 1);
	for (unsigned i = 0; i < n; i++) {
		finite = finite && isfinite(x[i]);
		most = fmax(most, fabs((double)x[i]));
	}
	int e = most > 0 && finite ? ilogb(most) + 127 : 0;
	if (finite && most >= ldexp(127.5, e - 133))
		e++;
	if (!finite || e >= 255) {
		to[0] = 255;
	} else if (e >= 8) {
		to[0] = (uint8_t)e;
		for (unsigned i = 0; i < n; i++)
			to[1 + i] = (uint8_t)(int)rint(ldexp((double)x[i], 133 - e));
	}
}

static void check_block(const float *x, unsigned n)
{
	uint8_t want[33], got[34];
	float back[33], lost[33];
	memset(got, 0x77, sizeof got);
	block_of(x, n, want);
	fan_block8_put(got, x, n);
	assert_memory_equal(got, want, n + 1);
	assert_int_equal(got[n + 1], 0x77);
	back[n] = lost[n] = 7;
	fan_block8_get(back, got, n);
	fan_block8_error(lost, x, got, n);
	assert_true(back[n] == 7 && lost[n] == 7);
	for (unsigned i = 0; i < n; i++) {
		double v = ldexp((int8_t)got[1 + i], got[0] - 133);
		if (got[0] == 255)
			assert_true(isnan(back[i]) && lost[i] == 0);
		else
			assert_true((double)back[i] == v &&
				    (double)lost[i] == (double)(float)((double)x[i] - v));
	}
}

TEST(reduce__blocks_at_random)
{
	struct fan_rng r = test_rng();
	for (unsigned k = 0; k < 200000; k++) {
		float x[32];
		unsigned n = 1 + (unsigned)fan_rng_below(&r, 32);
		int base = (int)fan_rng_below(&r, 280) - 150; /* denormals to infinity */
		bool any = fan_rng_below(&r, 8) == 0;
		for (unsigned i = 0; i < n; i++) {
			uint32_t bits = (uint32_t)fan_rng_next(&r);
			x[i] = any ? float_of(bits)
				   : ldexpf((float)(int32_t)bits * 0x1p-31f,
					    base - (int)(bits % 3));
		}
		check_block(x, n);
	}
}

TEST(reduce__blocks_at_their_limits)
{
	static const struct {
		float v;
		uint8_t e;
		int8_t q;
	} row[] = {
		{0, 0, 0},
		{-0.0f, 0, 0},
		{1, 127, 64},
		{-1, 127, -64},
		{127, 133, 127},
		{127.49f, 133, 127},
		{127.5f, 134, 64},
		{-127.5f, 134, -64},
		{0x1p-119f, 8, 64},
		{0x1.fdfp-120f, 0, 0},
		{0x1p-149f, 0, 0},
		{0x1.fdfffep127f, 254, 127},
		{0x1.fep127f, 255, 0},
		{3.4028235e38f, 255, 0},
		{INFINITY, 255, 0},
		{-INFINITY, 255, 0},
		{NAN, 255, 0},
		{0x1.fep-120f, 8, 64},
	};
	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		uint8_t b[2];
		fan_block8_put(b, &row[i].v, 1);
		assert_int_equal(b[0], row[i].e);
		assert_int_equal((int8_t)b[1], row[i].q);
		check_block(&row[i].v, 1);
	}
	/* ties to even; a NaN far from the large ones */
	float x[32] = {64, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
	uint8_t b[33];
	fan_block8_put(b, x, 32);
	static const int8_t want[] = {64, 0, 2, 2, 0, -2, 0};
	assert_memory_equal(b + 1, want, sizeof want);
	x[31] = float_of(0xffffffff); /* the largest NaN */
	check_block(x, 32);
	/* what nobody writes is read all the same */
	static const uint8_t odd[3][2] = {{3, 50}, {254, 0x80}, {255, 50}};
	float v;
	fan_block8_get(&v, odd[0], 1);
	assert_true(v == 0);
	fan_block8_get(&v, odd[1], 1);
	assert_true(v == -INFINITY);
	fan_block8_get(&v, odd[2], 1);
	assert_true(isnan(v));
}

/* Sums of blocks, their last one short, finished in place: every count, averages, nothing beyond.
 */
TEST(reduce__blocks_are_summed_in_float32)
{
	enum { MOST = 203, WIRE = MOST + 7 };
	struct fan_rng r = test_rng();
	for (unsigned count = 0; count <= MOST; count++) {
		float x[MOST], y[MOST], sum[MOST], acc[MOST + 1];
		uint8_t a[WIRE + 1], b[WIRE + 1], want[WIRE + 1];
		size_t bytes = fan_wire_bytes(FAN_BLOCK8, count);
		for (unsigned i = 0; i < count; i++) {
			x[i] = (float)((int)fan_rng_below(&r, 2001) - 1000) / 7;
			y[i] = (float)((int)fan_rng_below(&r, 2001) - 1000) / 900;
		}
		fan_block8_put(a + 1, x, count);
		fan_block8_put(b + 1, y, count);
		acc[count] = 5;
		fan_reduce_load(FAN_BLOCK8, acc, a + 1, count);
		fan_reduce_add(FAN_BLOCK8, FAN_AVG, acc, b + 1, count);
		fan_block8_get(x, a + 1, count);
		fan_block8_get(y, b + 1, count);
		for (unsigned i = 0; i < count; i++) {
			sum[i] = (x[i] + y[i]) / 3;
			assert_true(acc[i] == x[i] + y[i]);
		}
		fan_reduce_finish(FAN_BLOCK8, FAN_AVG, acc, count, 3);
		for (unsigned at = 0; at < count; at += 32)
			block_of(sum + at, count - at < 32 ? count - at : 32, want + at + at / 32);
		assert_memory_equal(acc, want, bytes);
		assert_true(acc[count] == 5);
	}
}

UNIT_MAIN
