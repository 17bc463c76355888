/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTE	 0xa5
#define BLOCK8_RANKS	 127	  /* whose sums of -1, 0 and 1 are exact */
#define BLOCK8_ROUNDINGS 4	  /* of a rank, two aggregators, and what a sum of them grows by */
#define BLOCK8_LEAST	 0x1p-110 /* below, blocks are zeros */
#define OUT_BYTE	 0x5c	  /* what an output holds before the operation */

static bool is_half(enum fan_dtype d)
{
	return d == FAN_FLOAT16 || d == FAN_BFLOAT16;
}

static bool is_float(enum fan_dtype d)
{
	return d == FAN_FLOAT32 || d == FAN_FLOAT64 || is_half(d);
}

static void draw_types(struct fan_op *op, struct fan_rng *r)
{
	static const enum fan_dtype types[] = {FAN_FLOAT32,  FAN_FLOAT32, FAN_FLOAT16,
					       FAN_BFLOAT16, FAN_INT32,	  FAN_INT64};
	static const enum fan_redop redops[] = {FAN_SUM, FAN_SUM,   FAN_AVG,	FAN_MIN,
						FAN_MAX, FAN_BCAST, FAN_BARRIER};
	op->op = redops[fan_rng_below(r, 7)];
	op->dtype = types[fan_rng_below(r, 6)];
	if (op->op == FAN_BCAST && fan_rng_below(r, 3) == 0)
		op->dtype = FAN_UINT8;
	op->wire = op->dtype;
	if (op->dtype == FAN_FLOAT32 && fan_rng_below(r, 3) == 0)
		op->wire = fan_rng_below(r, 2) ? FAN_FLOAT16 : FAN_BFLOAT16;
	bool sums = op->op == FAN_SUM || op->op == FAN_AVG;
	if (op->dtype == FAN_FLOAT32 && op->wire == FAN_FLOAT32 && sums)
		op->mode = fan_rng_below(r, 3) ? FAN_FIXED : FAN_NATIVE;
}

void tensor_draw(struct tensor_op *o, struct fan_rng *r, unsigned ranks, uint64_t elements)
{
	memset(o, 0, sizeof *o);
	o->seed = fan_rng_next(r);
	draw_types(&o->op, r);
	if (o->op.dtype == FAN_INT64 && o->seed % 2) /* older seeds draw as they did */
		o->op.dtype = o->op.wire = FAN_FLOAT64;
	o->op.root = (uint16_t)fan_rng_below(r, ranks);
	o->op.reduce = o->op.op < FAN_BCAST && fan_rng_below(r, 4) == 0;
	switch (fan_rng_below(r, 8)) {
	case 0: o->op.count = fan_rng_below(r, 6); break;
	case 1: o->op.count = elements; break;
	default: o->op.count = fan_rng_below(r, elements + 1); break;
	}
	if (o->op.op == FAN_BARRIER)
		o->op.count = 0;
	bool floats = is_float(o->op.dtype) && o->op.dtype != FAN_FLOAT64;
	bool sums = o->op.op == FAN_SUM || (o->op.op == FAN_AVG && o->seed % 2);
	bool blocks = sums && o->op.mode == FAN_NATIVE && floats && ranks <= BLOCK8_RANKS &&
		      o->seed % 3 == 0;
	if (blocks)
		o->op.wire = FAN_BLOCK8;
	o->style = fan_rng_below(r, 3) == 0 && !blocks ? TENSOR_SPECIALS : TENSOR_PLAIN;
	if (o->op.mode == FAN_FIXED && fan_rng_below(r, 2))
		o->style = TENSOR_WILD;
	if (blocks && o->seed % 2)
		o->style = TENSOR_ROUNDED;
	o->in_place = fan_rng_below(r, 2);
}

/* What a rank's elements follow from. */
static uint64_t key_of(const struct tensor_op *o, uint16_t rank)
{
	return fan_rng_mix(o->seed + rank);
}

static uint64_t hash(uint64_t key, uint64_t i)
{
	return fan_rng_mix(key + i * UINT64_C(0x9e3779b97f4a7c15));
}

/* All magnitudes; stretches of 97 elements have a character of their own. */
static double wild(const struct tensor_op *o, uint64_t h, uint64_t i)
{
	uint64_t character = hash(key_of(o, 999), i / 97) % 6;
	float unit = (float)(int32_t)(h >> 32) * 0x1p-31f;
	switch (character) {
	case 0: return 0;
	case 1: return (double)unit * 0x1p-140; /* denormals */
	case 2: return (double)unit * (double)FLT_MAX;
	case 3: return h % 5 ? (double)unit : (double)unit * 0x1p-30;
	case 4: return (double)(unit * 0x1p-100f);
	default: return (double)ldexpf(unit, (int)(h % 240) - 120);
	}
}

/* Stretches of 150 elements have a magnitude, which ranks differ in by up to 16. */
static double around(const struct tensor_op *o, uint64_t h, uint64_t i)
{
	uint64_t character = hash(key_of(o, 999), i / 150);
	double unit = (double)(int32_t)(h >> 32) * 0x1p-31;
	int most = o->op.dtype == FAN_FLOAT16 ? 4 : 100;
	int e = (int)(character % (2 * (unsigned)most + 1)) - most - (int)(h % 5);
	if (h % 499 == 0)
		return h / 499 % 2 ? (double)NAN : (double)INFINITY;
	if (character % 7 == 0)
		return character % 2 ? 0 : unit * 0x1p-140;
	return (double)(float)ldexp(unit, e);
}

/* The element as a number; floating types only. */
static double number(const struct tensor_op *o, uint64_t key, uint64_t i)
{
	uint64_t h = hash(key, i);
	if (o->style == TENSOR_SPECIALS && h % 61 == 0) {
		static const double special[3] = {NAN, INFINITY, -INFINITY};
		return special[h / 61 % 3];
	}
	if (o->style == TENSOR_WILD)
		return (double)(float)wild(o, h, i);
	if (o->style == TENSOR_ROUNDED)
		return around(o, h, i);
	int drawn = (int)(h >> 20 & 0xffff);
	if (o->op.wire == FAN_BLOCK8)
		return drawn % 3 - 1;
	return is_half(o->op.wire) ? drawn % 8 - 3 : drawn % 2000 - 999;
}

/* 2 to the power of `e`, which no double's exponent exceeds. */
static double power(int e)
{
	uint64_t bits = (uint64_t)(e + 1023) << 52;
	double v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* As frexp() says it, of a number that is neither zero nor denormal. */
static int exponent_of(double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof bits);
	return (int)(bits >> 52 & 0x7ff) - 1022;
}

static double rounded(double v, int bits, int min_exponent)
{
	if (v == 0 || !isfinite(v))
		return v;
	int e = exponent_of(v);
	int last = e - bits < min_exponent ? min_exponent : e - bits;
	return rint(v * power(-last)) * power(last);
}

uint16_t tensor_half_from(double v, enum fan_dtype dtype)
{
	int mantissa = dtype == FAN_FLOAT16 ? 10 : 7, bias = dtype == FAN_FLOAT16 ? 15 : 127;
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	uint16_t infinity = (uint16_t)((2 * bias + 1) << mantissa);
	if (isnan(v))
		return (uint16_t)(infinity | 1u << (mantissa - 1));
	v = fabs(rounded(v, mantissa + 1, 1 - bias - mantissa));
	if (v >= power(bias + 1))
		return sign | infinity;
	int e = exponent_of(v);
	int biased = e - 1 + bias;
	if (v == 0 || biased <= 0)
		return (uint16_t)(sign | (unsigned)(v * power(bias - 1 + mantissa)));
	unsigned fraction = (unsigned)(v * power(mantissa - (e - 1))) - (1u << mantissa);
	return (uint16_t)(sign | (unsigned)biased << mantissa | fraction);
}

double tensor_half_to(uint16_t h, enum fan_dtype dtype)
{
	int mantissa = dtype == FAN_FLOAT16 ? 10 : 7, bias = dtype == FAN_FLOAT16 ? 15 : 127;
	double sign = h & 0x8000 ? -1 : 1;
	int biased = (h & 0x7fff) >> mantissa;
	unsigned fraction = h & ((1u << mantissa) - 1);
	if (biased == 2 * bias + 1)
		return fraction ? (double)NAN : sign * (double)INFINITY;
	if (biased == 0)
		return sign * fraction * power(1 - bias - mantissa);
	return sign * (fraction + (1u << mantissa)) * power(biased - bias - mantissa);
}

static size_t element_bytes(const struct tensor_op *o)
{
	return fan_dtype_bytes(o->op.dtype);
}

/* The elements of `rank` as they lie in the tensor. */
static void fill(const struct tensor_op *o, uint16_t rank, uint8_t *to)
{
	const uint64_t key = key_of(o, rank);
	const size_t bytes = element_bytes(o);
	for (uint64_t i = 0; i < o->op.count; i++, to += bytes) {
		if (o->op.dtype == FAN_FLOAT32) {
			float v = (float)number(o, key, i);
			memcpy(to, &v, sizeof v);
		} else if (o->op.dtype == FAN_FLOAT64) {
			double v = number(o, key, i);
			memcpy(to, &v, sizeof v);
		} else if (is_half(o->op.dtype)) {
			uint16_t v = tensor_half_from(number(o, key, i), o->op.dtype);
			memcpy(to, &v, sizeof v);
		} else {
			uint64_t v = hash(key, i);
			memcpy(to, &v, bytes);
		}
	}
}

static void put_float(const struct tensor_op *o, uint64_t i, double v)
{
	if (o->op.dtype == FAN_FLOAT64) {
		memcpy((uint8_t *)o->expect + i * sizeof v, &v, sizeof v);
		return;
	}
	if (is_half(o->op.dtype)) {
		uint16_t h = tensor_half_from(v, o->op.dtype);
		memcpy((uint8_t *)o->expect + i * 2, &h, 2);
		return;
	}
	if (is_half(o->op.wire)) /* rounded on the way */
		v = tensor_half_to(tensor_half_from(v, o->op.wire), o->op.wire);
	float f = (float)v;
	memcpy((uint8_t *)o->expect + i * 4, &f, 4);
}

static void expect_float(const struct tensor_op *o, const struct tensor_job *job,
			 const uint64_t *key, uint64_t i)
{
	double v = number(o, key[0], i);
	for (unsigned r = 1; r < job->ranks; r++) {
		double x = number(o, key[r], i);
		if (o->op.op == FAN_SUM || o->op.op == FAN_AVG)
			v += x;
		else if (isnan(v) || isnan(x))
			v = NAN;
		else
			v = o->op.op == FAN_MIN ? fmin(v, x) : fmax(v, x);
	}
	if (o->op.op == FAN_AVG && o->op.dtype == FAN_FLOAT64)
		v /= job->ranks;
	else if (o->op.op == FAN_AVG)
		v = (double)((float)v / (float)job->ranks);
	put_float(o, i, v);
}

static int64_t integer(const struct tensor_op *o, uint64_t key, uint64_t i)
{
	uint64_t h = hash(key, i);
	return o->op.dtype == FAN_INT32 ? (int32_t)(uint32_t)h : (int64_t)h;
}

static void expect_integer(const struct tensor_op *o, const struct tensor_job *job,
			   const uint64_t *key, uint64_t i)
{
	int64_t low = integer(o, key[0], i), high = low;
	uint64_t sum = (uint64_t)low;
	for (unsigned r = 1; r < job->ranks; r++) {
		int64_t x = integer(o, key[r], i);
		low = x < low ? x : low;
		high = x > high ? x : high;
		sum += (uint64_t)x;
	}
	int64_t v = o->op.dtype == FAN_INT32 ? (int32_t)(uint32_t)sum : (int64_t)sum;
	if (o->op.op == FAN_AVG)
		v /= (int64_t)job->ranks;
	v = o->op.op == FAN_MIN ? low : o->op.op == FAN_MAX ? high : v;
	memcpy((uint8_t *)o->expect + i * element_bytes(o), &v, element_bytes(o));
}

/* The exponent that all ranks agree on for a block's elements: quant.h's text. */
static int block_exponent(const double *block, uint64_t elements)
{
	double largest = 0;
	for (uint64_t i = 0; i < elements; i++) {
		double x = fabs(block[i]);
		if (isfinite(x) && x > largest)
			largest = x;
	}
	if (largest == 0)
		return INT16_MIN;
	int e;
	return frexp(largest, &e) == 0.5 ? e - 1 : e;
}

/* Of what each rank has, `stride` elements apart. */
static float fixed_element(const struct tensor_op *o, const struct tensor_job *job,
			   const double *has, uint64_t stride, int e)
{
	double m = floor(2147483646.0 / job->ranks), f = e == INT16_MIN ? 0 : ldexp(m, -e);
	double special = 0;
	int64_t sum = 0;
	for (unsigned r = 0; r < job->ranks; r++) {
		double x = has[r * stride];
		if (isfinite(x))
			sum += (int64_t)rint(x * f);
		else
			special += x;
	}
	if (special != 0)
		return (float)special;
	unsigned divisor = o->op.op == FAN_AVG ? job->ranks : 1;
	double step = e == INT16_MIN ? 0 : ldexp(1, e) / m / divisor;
	return (float)((double)sum * step);
}

static void expect_fixed(const struct tensor_op *o, const struct tensor_job *job,
			 const uint64_t *key)
{
	float *to = o->expect;
	double *block = malloc(sizeof *block * job->ranks * job->block);
	for (uint64_t at = 0; at < o->op.count; at += job->block) {
		uint64_t rest = o->op.count - at;
		uint64_t n = rest < job->block ? rest : job->block;
		for (unsigned r = 0; r < job->ranks; r++)
			for (uint64_t i = 0; i < n; i++)
				block[r * n + i] = number(o, key[r], at + i);
		int e = block_exponent(block, job->ranks * n);
		for (uint64_t i = 0; i < n; i++)
			to[at + i] = fixed_element(o, job, &block[i], n, e);
	}
	free(block);
}

/* The element as it lies in the tensor. */
static double stored(const struct tensor_op *o, uint64_t key, uint64_t i)
{
	double v = number(o, key, i);
	return is_half(o->op.dtype) ? tensor_half_to(tensor_half_from(v, o->op.dtype), o->op.dtype)
				    : v;
}

/* For each element the largest finite magnitude of every block that it may be in: of three rows of
 * a block's length, since blocks begin where their fragment does. */
static double *largest_near(const struct tensor_op *o, uint64_t key)
{
	uint64_t rows = o->op.count / FAN_BLOCK8_ELEMENTS + 1;
	double *row = calloc(rows + 2, sizeof *row), *near = calloc(o->op.count + 1, sizeof *near);
	for (uint64_t i = 0; i < o->op.count; i++) {
		double *most = &row[i / FAN_BLOCK8_ELEMENTS + 1], x = fabs(stored(o, key, i));
		*most = isfinite(x) && x > *most ? x : *most;
	}
	for (uint64_t i = 0; i < o->op.count; i++) {
		const double *at = &row[i / FAN_BLOCK8_ELEMENTS];
		near[i] = fmax(at[0], fmax(at[1], at[2]));
	}
	free(row);
	return near;
}

static bool special_near(const struct tensor_op *o, uint64_t i)
{
	const double *sum = o->expect;
	uint64_t end =
		i + FAN_BLOCK8_ELEMENTS < o->op.count ? i + FAN_BLOCK8_ELEMENTS : o->op.count;
	for (uint64_t k = i < FAN_BLOCK8_ELEMENTS ? 0 : i + 1 - FAN_BLOCK8_ELEMENTS; k < end; k++)
		if (isnan(sum[k]))
			return true;
	return false;
}

/* Sums, NaN where a rank has a special, and what their roundings are measured by. */
static void expect_rounded(struct tensor_op *o, unsigned ranks, const uint64_t *key)
{
	double *sum = o->expect, divisor = o->op.op == FAN_AVG ? ranks : 1;
	o->near = calloc(o->op.count + 1, sizeof *o->near);
	memset(sum, 0, o->op.count * sizeof *sum);
	for (unsigned r = 0; r < ranks; r++) {
		double *near = largest_near(o, key[r]);
		for (uint64_t i = 0; i < o->op.count; i++) {
			double x = stored(o, key[r], i);
			sum[i] += (isfinite(x) ? x : (double)NAN) / divisor;
			o->near[i] += near[i] / divisor;
		}
		free(near);
	}
}

/* Has every element been rounded by no more than the blocks on its way allow? */
static bool rounded_right(const struct tensor_op *o, const uint8_t *got)
{
	const double *sum = o->expect;
	for (uint64_t i = 0; i < o->op.count; i++, got += fan_dtype_bytes(o->op.dtype)) {
		float f;
		memcpy(&f, got, is_half(o->op.dtype) ? 2 : sizeof f);
		double v = is_half(o->op.dtype) ? tensor_half_to(fan_get16(got), o->op.dtype)
						: (double)f;
		double most = o->near[i] * BLOCK8_ROUNDINGS / 127 + BLOCK8_LEAST;
		if (is_half(o->op.dtype))
			most += fabs(sum[i]) / 128 + 0x1p-24;
		if (isnan(v) ? !special_near(o, i) : !(fabs(v - sum[i]) <= most))
			return false;
	}
	return true;
}

/* What rounding took from a rank's elements: they were whole when they were sent last. */
static bool lost_right(const struct tensor *t, const struct tensor_op *o, uint16_t rank)
{
	double *near = largest_near(o, key_of(o, rank));
	bool right = true;
	for (uint64_t i = 0; i < o->op.count; i++) {
		double most = near[i] / 127 + BLOCK8_LEAST;
		right &= fabs((double)t->lost[i]) <= most; /* false if it has not been set */
	}
	free(near);
	return right;
}

void tensor_expect(struct tensor_op *o, const struct tensor_job *job)
{
	bool is_rounded = o->style == TENSOR_ROUNDED;
	o->expect = malloc(o->op.count * (is_rounded ? sizeof(double) : element_bytes(o)) + 1);
	if (o->op.op == FAN_BCAST && !is_float(o->op.dtype)) {
		fill(o, o->op.root, o->expect);
		return;
	}
	uint64_t *key = malloc(sizeof *key * job->ranks);
	for (unsigned r = 0; r < job->ranks; r++)
		key[r] = key_of(o, (uint16_t)r);
	if (is_rounded)
		expect_rounded(o, job->ranks, key);
	if (o->op.mode == FAN_FIXED)
		expect_fixed(o, job, key);
	bool one_by_one = !is_rounded && o->op.mode != FAN_FIXED;
	for (uint64_t i = 0; i < o->op.count && one_by_one; i++) {
		if (o->op.op == FAN_BCAST)
			put_float(o, i, number(o, key_of(o, o->op.root), i));
		else if (is_float(o->op.dtype))
			expect_float(o, job, key, i);
		else
			expect_integer(o, job, key, i);
	}
	free(key);
}

static uint8_t *guarded(size_t bytes)
{
	uint8_t *p = malloc(bytes + 2 * TENSOR_GUARD);
	memset(p, GUARD_BYTE, TENSOR_GUARD);
	memset(p + TENSOR_GUARD, OUT_BYTE, bytes);
	memset(p + TENSOR_GUARD + bytes, GUARD_BYTE, TENSOR_GUARD);
	return p;
}

void tensor_open(struct tensor *t, const struct tensor_op *o, uint16_t rank, struct fan_op *op)
{
	t->bytes = o->op.count * element_bytes(o);
	t->in_mem = guarded(t->bytes);
	t->out_mem = o->in_place ? t->in_mem : guarded(t->bytes);
	fill(o, rank, t->in_mem + TENSOR_GUARD);
	t->copy = malloc(t->bytes + 1);
	memcpy(t->copy, t->in_mem + TENSOR_GUARD, t->bytes);
	*op = o->op;
	if (o->style == TENSOR_ROUNDED) {
		t->lost = malloc(o->op.count * sizeof *t->lost + 1);
		memset(t->lost, 0xff, o->op.count * sizeof *t->lost); /* NaN */
		op->error = t->lost;
	}
	op->in = t->in_mem + TENSOR_GUARD;
	op->out = t->out_mem + TENSOR_GUARD;
	if (op->op == FAN_BCAST && rank != op->root && !o->in_place)
		op->in = NULL;
	bool unused = op->op == FAN_BCAST ? rank == op->root : op->reduce && rank != op->root;
	if (unused && !o->in_place)
		op->out = NULL;
}

void tensor_close(struct tensor *t)
{
	if (t->out_mem != t->in_mem)
		free(t->out_mem);
	free(t->in_mem);
	free(t->copy);
	free(t->lost);
	memset(t, 0, sizeof *t);
}

const void *tensor_result(const struct tensor *t, const struct tensor_op *o, uint16_t rank)
{
	bool none = o->op.op == FAN_BCAST ? rank == o->op.root : o->op.reduce && rank != o->op.root;
	return none ? NULL : t->out_mem + TENSOR_GUARD;
}

static bool all_are(const uint8_t *p, size_t bytes, uint8_t value)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool guards_hold(const uint8_t *mem, size_t bytes)
{
	return all_are(mem, TENSOR_GUARD, GUARD_BYTE) &&
	       all_are(mem + TENSOR_GUARD + bytes, TENSOR_GUARD, GUARD_BYTE);
}

static bool is_nan(const struct tensor_op *o, const uint8_t *p)
{
	if (o->op.dtype == FAN_FLOAT32) {
		float v;
		memcpy(&v, p, sizeof v);
		return isnan(v);
	}
	if (o->op.dtype == FAN_FLOAT64) {
		double v;
		memcpy(&v, p, sizeof v);
		return isnan(v);
	}
	return is_half(o->op.dtype) && isnan(tensor_half_to(fan_get16(p), o->op.dtype));
}

static bool same_values(const struct tensor_op *o, const uint8_t *got)
{
	size_t bytes = element_bytes(o);
	const uint8_t *want = o->expect;
	if (memcmp(got, want, o->op.count * bytes) == 0)
		return true;
	for (uint64_t i = 0; i < o->op.count; i++, got += bytes, want += bytes)
		if (memcmp(got, want, bytes) != 0 && !(is_nan(o, got) && is_nan(o, want)))
			return false;
	return true;
}

const char *tensor_check(const struct tensor *t, const struct tensor_op *o, uint16_t rank,
			 bool exact)
{
	if (!guards_hold(t->in_mem, t->bytes) || !guards_hold(t->out_mem, t->bytes))
		return "wrote beyond a tensor";
	const uint8_t *result = tensor_result(t, o, rank);
	if (!o->in_place && !result && !all_are(t->out_mem + TENSOR_GUARD, t->bytes, OUT_BYTE))
		return "wrote to an output that is not this rank's";
	bool kept = !o->in_place || !result;
	if (kept && memcmp(t->copy, t->in_mem + TENSOR_GUARD, t->bytes) != 0)
		return "changed its input";
	if (o->style == TENSOR_ROUNDED) {
		if (exact && result && !rounded_right(o, result))
			return "a result that is rounded too far";
		return lost_right(t, o, rank) ? NULL : "not what rounding took";
	}
	if (exact && result && !same_values(o, result))
		return "wrong result";
	return NULL;
}
