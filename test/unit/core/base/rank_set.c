/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_set.h"
#include "unit/unit.h"

#define WORDS FAN_RANK_WORDS

/* The same sets, a byte for each rank. */
struct model {
	bool has[FAN_RANKS_MAX];
};

/* A set of which each rank is in one time in `in`; and what it is to be. */
static struct model draw(struct fan_rng *rng, uint64_t *set, unsigned in)
{
	struct model m = {{false}};
	fan_ranks_none(set);
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++) {
		m.has[r] = fan_rng_below(rng, in) == 0;
		if (m.has[r])
			fan_ranks_set(set, r);
	}
	return m;
}

static void is(const uint64_t *set, const struct model *m)
{
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		assert_int_equal(fan_ranks_has(set, r), m->has[r]);
}

static void ranks__one_at_a_time(void **state)
{
	(void)state;
	uint64_t set[WORDS] = {0};
	for (unsigned r = 0; r < FAN_RANKS_MAX; r += 7)
		fan_ranks_set(set, r);
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		assert_int_equal(fan_ranks_has(set, r), r % 7 == 0);
	fan_ranks_clear(set, 252);
	assert_false(fan_ranks_has(set, 252));
	assert_true(fan_ranks_has(set, 245));
}

static void ranks__all_of_a_job(void **state)
{
	(void)state;
	for (unsigned ranks = 0; ranks <= FAN_RANKS_MAX; ranks++) {
		uint64_t set[WORDS];
		memset(set, 0xaa, sizeof set);
		fan_ranks_all(set, ranks);
		for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
			assert_int_equal(fan_ranks_has(set, r), r < ranks);
		assert_int_equal(fan_ranks_count(set), ranks);
		assert_int_equal(fan_ranks_is_empty(set), ranks == 0);
	}
}

static void ranks__in_order(void **state)
{
	(void)state;
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 300; i++) {
		uint64_t set[WORDS];
		struct model m = draw(&rng, set, 1 + i);
		unsigned n = 0, next = fan_ranks_first(set);
		for (unsigned r = 0; r < FAN_RANKS_MAX; r++) {
			if (!m.has[r])
				continue;
			assert_int_equal(next, r);
			assert_int_equal(fan_ranks_nth(set, n), r);
			next = fan_ranks_next(set, r + 1);
			n++;
		}
		assert_int_equal(next, FAN_RANK_NONE);
		assert_int_equal(fan_ranks_nth(set, n), FAN_RANK_NONE);
		assert_int_equal(fan_ranks_count(set), n);
		assert_int_equal(fan_ranks_is_empty(set), n == 0);
		assert_int_equal(fan_ranks_next(set, FAN_RANKS_MAX), FAN_RANK_NONE);
	}
}

static void ranks__of_two(void **state)
{
	(void)state;
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 300; i++) {
		uint64_t a[WORDS], b[WORDS], set[WORDS];
		struct model x = draw(&rng, a, 1 + i), y = draw(&rng, b, 1 + i % 7);
		struct model joined, both, without;
		unsigned boths = 0, withouts = 0;
		for (unsigned r = 0; r < FAN_RANKS_MAX; r++) {
			joined.has[r] = x.has[r] || y.has[r];
			boths += both.has[r] = x.has[r] && y.has[r];
			withouts += without.has[r] = x.has[r] && !y.has[r];
		}
		assert_int_equal(fan_ranks_meet(a, b), boths > 0);
		assert_int_equal(fan_ranks_within(a, b), withouts == 0);
		assert_int_equal(fan_ranks_both(set, a, b), boths > 0);
		is(set, &both);
		assert_true(fan_ranks_within(set, a) && fan_ranks_within(set, b));
		fan_ranks_copy(set, a);
		assert_true(fan_ranks_equal(set, a));
		assert_int_equal(fan_ranks_without(set, set, b), withouts > 0);
		is(set, &without);
		assert_int_equal(fan_ranks_equal(set, a), boths == 0);
		fan_ranks_copy(set, a);
		fan_ranks_join(set, b);
		is(set, &joined);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks__one_at_a_time),
		cmocka_unit_test(ranks__all_of_a_job),
		cmocka_unit_test(ranks__in_order),
		cmocka_unit_test(ranks__of_two),
	};
	return RUN(tests);
}
