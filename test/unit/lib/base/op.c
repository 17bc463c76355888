/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting operations into parts for connections. */
#include "unit/unit.h"

#include "lib/base/op.h"

#define ROUNDS 20000

/* An operation, cut at `cuts` random places, with shards in each: every element once, in order. */
static void cut_up(struct fan_rng *rng, uint64_t count)
{
	static const uint8_t base;
	struct fan_op op = {.dtype = FAN_INT32, .count = count, .in = &base, .out = NULL};
	uint64_t from = 0, next = 0;
	do {
		uint64_t to = fan_rng_below(rng, 4) && count > from
				      ? from + fan_rng_below(rng, count - from)
				      : count;
		unsigned shards = 1 + (unsigned)fan_rng_below(rng, 4);
		for (unsigned i = 0; i < shards; i++) {
			struct fan_cut cut = {from, to, i, shards};
			struct fan_op part = fan_op_part(&op, &cut);
			assert_true((uintptr_t)part.in - (uintptr_t)&base == next * 4);
			assert_null(part.out);
			next += part.count;
		}
		assert_true(next == to);
		from = to;
	} while (from < count);
}

static void op__parts_are_the_whole(void **state)
{
	struct fan_rng rng = test_rng();
	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		cut_up(&rng, fan_rng_below(&rng, UINT64_C(1) << fan_rng_below(&rng, 60)));
	for (uint64_t count = 0; count < 10; count++)
		cut_up(&rng, count);
	cut_up(&rng, PTRDIFF_MAX / 4);
}

static void op__shards_are_alike(void **state)
{
	struct fan_op op = {.dtype = FAN_FLOAT32, .count = 20};
	struct fan_cut cut = {4, 14, 1, 4};
	(void)state;
	assert_int_equal(fan_op_part(&op, &cut).count, 3); /* 2 to 5 of the ten */
	cut.end = 4;
	assert_int_equal(fan_op_part(&op, &cut).count, 0);
}

static void op__first_in_the_queue(void **state)
{
	const struct fan_op what = {.count = 1};
	struct fanin_op *a = fan_op_new(&what, FAN_OP_CALLERS),
			*b = fan_op_new(&what, FAN_OP_CALLERS),
			*c = fan_op_new(&what, FAN_OP_CALLERS);
	struct fan_op_queue q = {0};
	(void)state;
	fan_op_queue_put_first(&q, b);
	fan_op_queue_add(&q, c);
	fan_op_queue_put_first(&q, a);
	assert_int_equal(q.count, 3);
	assert_true(fan_op_queue_take(&q) == a);
	assert_true(fan_op_queue_take(&q) == b);
	assert_true(fan_op_queue_take(&q) == c);
	assert_null(fan_op_queue_take(&q));
	fan_op_end(a, FAN_OK);
	fan_op_end(b, FAN_OK);
	fan_op_end(c, FAN_OK);
	fanin_op_free(a);
	fanin_op_free(b);
	fanin_op_free(c);
}

/* Who frees it, and whether the statistics count it, follows from whose it is. */
static void op__kinds(void **state)
{
	static const struct {
		enum fan_op_kind kind;
		bool is_callers, is_threads;
	} kinds[] = {
		{FAN_OP_CALLERS, true, false},	 {FAN_OP_MEMBER, true, false},
		{FAN_OP_OWN, false, false},	 {FAN_OP_MEASUREMENT, false, true},
		{FAN_OP_AGREEMENT, false, true}, {FAN_OP_REST, false, true},
	};
	(void)state;
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		assert_int_equal(fan_op_is_callers(kinds[i].kind), kinds[i].is_callers);
		assert_int_equal(fan_op_is_threads(kinds[i].kind), kinds[i].is_threads);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(op__parts_are_the_whole),
		cmocka_unit_test(op__shards_are_alike),
		cmocka_unit_test(op__first_in_the_queue),
		cmocka_unit_test(op__kinds),
	};
	return RUN(tests);
}
