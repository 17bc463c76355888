/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/err.h"
#include "lib/base/config.h"
#include "lib/base/op.h"

/* The same options in three versions of a library; v2 is ours. */
struct v1 {
	size_t size;
	const char *name;
};
struct v2 {
	size_t size;
	const char *name;
	int a, b;
};
struct v3 {
	size_t size;
	const char *name;
	int a, b;
	const char *more;
	int c, reserved;
};

static const struct fan_sized kind = {sizeof(struct v2), sizeof(struct v1), "V2_INIT"};
static char why[256];

static struct v2 initial(void)
{
	return (struct v2){sizeof(struct v2), NULL, -1, -1};
}

TEST(sized__same_version)
{
	struct v2 to = initial(), from = {sizeof from, "x", 3, 4};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_memory_equal(&to, &from, sizeof to);
}

/* What lies behind a smaller struct is not looked at. */
TEST(sized__smaller_keeps_the_initial_values)
{
	struct v2 to = initial(), from = {sizeof(struct v1), "old", 77, 78};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_int_equal(to.size, sizeof to);
	assert_string_equal(to.name, "old");
	assert_int_equal(to.a, -1);
	assert_int_equal(to.b, -1);
}

TEST(sized__larger_with_zeros)
{
	struct {
		struct v2 own;
		uint64_t guard;
	} to = {initial(), 0x1234567890abcdef};
	struct v3 from = {.size = sizeof from, .name = "new", .a = 5, .b = 6};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_int_equal(to.own.size, sizeof to.own);
	assert_string_equal(to.own.name, "new");
	assert_int_equal(to.own.b, 6);
	assert_int_equal(to.guard, 0x1234567890abcdef);
}

/* The first byte of the tail, the last one, and one between. */
TEST(sized__larger_with_an_unknown_option)
{
	static const size_t at[] = {sizeof(struct v2), offsetof(struct v3, c),
				    sizeof(struct v3) - 1};
	static const char *const told[] = {"byte 24 is set", "byte 32 is set", "byte 39 is set"};
	for (size_t i = 0; i < 3 && sizeof(void *) == 8; i++) {
		struct v2 to = initial();
		struct v3 from = {.size = sizeof from};
		((unsigned char *)&from)[at[i]] = 1;
		assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_E_INVALID);
		assert_non_null(strstr(why, "options.size: 40: "));
		assert_non_null(strstr(why, told[i]));
		assert_non_null(strstr(why, "knows 24 bytes"));
	}
}

/* Sizes of no version: never set, cut within a field, or whatever lay there. */
TEST(sized__impossible_sizes)
{
	static const size_t sizes[] = {0,
				       1,
				       sizeof(size_t),
				       sizeof(struct v1) - 1,
				       sizeof(struct v1) + 4,
				       sizeof(struct v3) + 1,
				       FAN_SIZED_MAX + sizeof(size_t),
				       SIZE_MAX - sizeof(size_t) + 1};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct v2 to = initial();
		struct v3 from = {.size = sizes[i]};
		if (sizes[i] == sizeof(struct v1) + 4 && sizeof(size_t) == 4)
			continue;
		assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_E_INVALID);
		assert_non_null(strstr(why, "set the options with V2_INIT"));
	}
}

/* ---- op: cutting operations into parts for connections. ---- */

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

TEST(op__parts_are_the_whole)
{
	struct fan_rng rng = test_rng();
	for (int i = 0; i < ROUNDS; i++)
		cut_up(&rng, fan_rng_below(&rng, UINT64_C(1) << fan_rng_below(&rng, 60)));
	for (uint64_t count = 0; count < 10; count++)
		cut_up(&rng, count);
	cut_up(&rng, PTRDIFF_MAX / 4);
}

TEST(op__shards_are_alike)
{
	struct fan_op op = {.dtype = FAN_FLOAT32, .count = 20};
	struct fan_cut cut = {4, 14, 1, 4};
	assert_int_equal(fan_op_part(&op, &cut).count, 3); /* 2 to 5 of the ten */
	cut.end = 4;
	assert_int_equal(fan_op_part(&op, &cut).count, 0);
}

TEST(op__first_in_the_queue)
{
	const struct fan_op what = {.count = 1};
	struct fanin_op *a = fan_op_new(&what, FAN_OP_CALLERS),
			*b = fan_op_new(&what, FAN_OP_CALLERS),
			*c = fan_op_new(&what, FAN_OP_CALLERS);
	struct fan_op_queue q = {0};
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

/* Whether the statistics count it follows from whose it is. */
TEST(op__kinds)
{
	assert_true(fan_op_is_callers(FAN_OP_CALLERS) && fan_op_is_callers(FAN_OP_MEMBER));
	for (enum fan_op_kind k = FAN_OP_OWN; k <= FAN_OP_REST; k++)
		assert_false(fan_op_is_callers(k));
}

UNIT_MAIN
