/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench.h"

#define AMPLITUDE 125	  /* largest input of wide types */
#define INT_SCALE 1000003 /* integers are larger, so that 32 bits wrap */

/* The largest n with all whole numbers up to n exact, where it travels. */
static int exact_max(const struct bench_options *o)
{
	if (o->cfg.wire == FANIN_WIRE_INT8 && o->dtype <= FANIN_BFLOAT16)
		return 127;
	int wire = o->dtype == FANIN_FLOAT32 ? o->cfg.wire : o->dtype;
	if (wire == FANIN_FLOAT16)
		return 2048;
	return wire == FANIN_BFLOAT16 ? 256 : 1 << 24;
}

/* Element `j` of `rank`: in [-amp, amp].  For averages the ranks' deviations from a common
 * value cancel out, so that the average is a whole number too. */
static int64_t value(const struct bench_options *o, int amp, int rank, int ranks, int j, int iter)
{
	int64_t mix = (int64_t)j * 7 + (int64_t)iter * 31;
	if (o->op != FANIN_AVG)
		return (mix + (int64_t)rank * 13 + (int64_t)j * rank % 17) % (2 * amp + 1) - amp;
	bool alone = ranks % 2 && rank == ranks - 1;
	int half = amp / 2;
	return mix % (2 * half + 1) - half + (alone ? 0 : rank % 2 ? half : -half);
}

static int64_t combine(int op, int64_t a, int64_t b)
{
	if (op == FANIN_MIN)
		return a < b ? a : b;
	if (op == FANIN_MAX)
		return a > b ? a : b;
	return a + b;
}

/* A whole number that is exact in the type. */
static void put(unsigned char *at, int dtype, int64_t v)
{
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	uint16_t bf16 = (uint16_t)(bits >> 16);
	uint16_t f16 = (uint16_t)((bits >> 16 & 0x8000) |
				  (v ? ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023) : 0));
	int32_t i32 = (int32_t)(uint32_t)(uint64_t)v;
	switch (dtype) {
	case FANIN_FLOAT16: memcpy(at, &f16, sizeof f16); break;
	case FANIN_BFLOAT16: memcpy(at, &bf16, sizeof bf16); break;
	case FANIN_INT32: memcpy(at, &i32, sizeof i32); break;
	case FANIN_INT64: memcpy(at, &v, sizeof v); break;
	default: memcpy(at, &f, sizeof f); break;
	}
}

/* Block fixed point (core/sum/quant.h): N / f with 2^e >= the largest input; rounding to float. */
static double tolerance(const struct bench_options *o, int amp, int ranks)
{
	bool sums = o->op == FANIN_SUM || o->op == FANIN_AVG;
	if (o->cfg.mode != FANIN_MODE_FIXED || o->dtype != FANIN_FLOAT32 || !sums)
		return 0;
	double step = exp2(ceil(log2(amp))) * ranks / (2147483646.0 - ranks);
	double top = (double)amp * ranks;
	if (o->op == FANIN_AVG) {
		step /= ranks;
		top = amp;
	}
	return ranks * step + top / (1 << 24);
}

void bench_tile_make(struct bench_tile *t, const struct bench_options *o, int rank, int ranks,
		     int iter)
{
	bool integers = o->dtype == FANIN_INT32 || o->dtype == FANIN_INT64;
	int64_t scale = integers && o->op != FANIN_AVG ? INT_SCALE : 1;
	int amp = o->op == FANIN_SUM ? exact_max(o) / ranks : exact_max(o);
	amp = amp < AMPLITUDE ? amp : AMPLITUDE;
	t->dtype = o->dtype;
	t->elem_bytes = fan_dtype_bytes((unsigned)o->dtype);
	t->tolerance = tolerance(o, amp, ranks);
	for (int j = 0; j < BENCH_PERIOD; j++) {
		size_t at = (size_t)j * t->elem_bytes;
		int64_t all = value(o, amp, 0, ranks, j, iter);
		for (int r = 1; r < ranks; r++)
			all = combine(o->op, all, value(o, amp, r, ranks, j, iter));
		if (o->op == FANIN_AVG)
			all /= ranks;
		put(t->in + at, o->dtype, scale * value(o, amp, rank, ranks, j, iter));
		put(t->expected + at, o->dtype, scale * all);
	}
}

static bool is_right(const struct bench_tile *t, const unsigned char *got,
		     const unsigned char *want)
{
	float g, w;
	if (t->tolerance <= 0)
		return !memcmp(got, want, t->elem_bytes);
	memcpy(&g, got, sizeof g);
	memcpy(&w, want, sizeof w);
	return fabs((double)g - (double)w) <= t->tolerance;
}

uint64_t bench_count_wrong(const struct bench_tile *t, const void *tensor, size_t count,
			   size_t *first)
{
	const unsigned char *got = tensor;
	uint64_t wrong = 0;
	for (size_t at = 0; at < count; at += BENCH_PERIOD) {
		size_t n = count - at < BENCH_PERIOD ? count - at : BENCH_PERIOD;
		const unsigned char *tile = got + at * t->elem_bytes;
		if (!memcmp(tile, t->expected, n * t->elem_bytes))
			continue;
		for (size_t j = 0; j < n; j++) {
			if (is_right(t, tile + j * t->elem_bytes, t->expected + j * t->elem_bytes))
				continue;
			if (!wrong++)
				*first = at + j;
		}
	}
	return wrong;
}
