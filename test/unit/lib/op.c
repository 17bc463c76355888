/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting operations into parts for connections. */
#include "unit/unit.h"

#include "lib/op.h"

#define ROUNDS 20000

/* An operation, cut at `cuts` random places, with shards in each: every element once, in order. */
static void cut_up(struct fan_rng *rng, uint64_t count)
{
	static const uint8_t base;
	struct fan_op op = {.dtype = FAN_INT32, .count = count, .in = &base, .out = NULL};
	uint64_t from = 0, next = 0;
	while (from < FAN_CUT_WHOLE) {
		uint64_t to =
			fan_rng_below(rng, 4) ? from + fan_rng_below(rng, 1U << 31) : FAN_CUT_WHOLE;
		to = to < FAN_CUT_WHOLE ? to : FAN_CUT_WHOLE;
		unsigned shards = 1 + (unsigned)fan_rng_below(rng, 4);
		for (unsigned i = 0; i < shards; i++) {
			struct fan_cut cut = {from, to, i, shards};
			struct fan_op part = fan_op_part(&op, &cut);
			assert_true((uintptr_t)part.in - (uintptr_t)&base == next * 4);
			assert_null(part.out);
			next += part.count;
		}
		unsigned __int128 exact = (unsigned __int128)count * to >> 32;
		assert_true(next == (uint64_t)exact);
		from = to;
	}
	assert_true(next == count);
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
	struct fan_op op = {.dtype = FAN_FLOAT32, .count = 10};
	struct fan_cut cut = {0, FAN_CUT_WHOLE, 1, 4};
	(void)state;
	assert_int_equal(fan_op_part(&op, &cut).count, 3); /* 2 to 5 */
	cut.shards = 1;
	cut.shard = 0;
	cut.to = 1; /* next to nothing */
	assert_int_equal(fan_op_part(&op, &cut).count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(op__parts_are_the_whole),
		cmocka_unit_test(op__shards_are_alike),
	};
	return RUN(tests);
}
