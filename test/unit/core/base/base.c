/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/copy.h"
#include "core/base/err.h"
#include "core/base/prf.h"
#include "core/base/rank_set.h"

TEST(err__each_has_a_text_of_its_own)
{
	for (int a = 0; a >= -27; a--) {
		assert_string_not_equal(fan_err_text(a), "unknown error");
		for (int b = 0; b > a; b--) {
			assert_string_not_equal(fan_err_text(a), fan_err_text(b));
			assert_string_not_equal(fan_err_name(a), fan_err_name(b));
		}
	}
	assert_string_equal(fan_err_name(FAN_E_RANK_LOST), "rank_lost");
}

TEST(err__unknown_values)
{
	assert_string_equal(fan_err_text(1), "unknown error");
	assert_string_equal(fan_err_text(-128), "unknown error");
	assert_string_equal(fan_err_name(-128), "unknown");
	assert_string_equal(fan_err_name(FAN_E_LAUNCHES), "launches");
	for (int err = -127; err <= -32; err++) {
		assert_string_equal(fan_err_name(err), err > -64 ? "moved" : "rank_lost");
		assert_non_null(strstr(fan_err_text(err), "rank"));
	}
	assert_string_equal(fan_drop_text(FAN_DROP_COUNT), "unknown");
}

TEST(err__each_drop_has_a_word)
{
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		assert_true(strlen(fan_drop_text(i)) > 0);
	assert_string_equal(fan_drop_text(FAN_DROP_STALE), "stale");
}

/* ---- copy ---- */

/* Any alignment, any length, and nothing around it. */
TEST(copy__past_the_cache)
{
	static _Alignas(64) uint8_t from[600], to[600];
	for (unsigned i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 31 + 7);
	for (unsigned at = 0; at < 70; at++) {
		for (unsigned bytes = 0; bytes < 400; bytes += 1 + bytes % 13) {
			unsigned source = (at * 5 + bytes) % 64;
			memset(to, 0xa5, sizeof to);
			fan_copy_past(to + at, from + source, bytes);
			fan_copy_fence();
			assert_memory_equal(to + at, from + source, bytes);
			for (unsigned i = 0; i < sizeof to; i++)
				if (i < at || i >= at + bytes)
					assert_int_equal(to[i], 0xa5);
		}
	}
}

/* ---- prf ---- */

/* The key of the paper, and words of the bytes 0, 1, 2, ... as it has them. */
TEST(prf__as_published)
{
	const struct fan_secret s = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
	const uint64_t m[] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908),
			      UINT64_C(0x1716151413121110), UINT64_C(0x1f1e1d1c1b1a1918),
			      UINT64_C(0x2726252423222120)};
	assert_true(fan_prf(&s, m, 0) == UINT64_C(0x726fdb47dd0e0e31));
	assert_true(fan_prf(&s, m, 1) == UINT64_C(0x93f5f5799a932462));
	assert_true(fan_prf(&s, m, 2) == UINT64_C(0x3f2acc7f57c29bdb));
	assert_true(fan_prf(&s, m, 5) == UINT64_C(0x0e3ea96b5304a7d0));
}

static int ascending(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

TEST(prf_permute__no_number_twice)
{
	enum { COUNT = 1 << 16 };
	static uint32_t v[COUNT];
	const struct fan_secret s = {{1, 2}};
	for (uint32_t i = 0; i < COUNT; i++)
		v[i] = fan_prf_permute(&s, i);
	qsort(v, COUNT, sizeof v[0], ascending);
	for (uint32_t i = 1; i < COUNT; i++)
		assert_true(v[i] != v[i - 1]);
}

/* Neighbours differ in about half of their bits, and so do two keys. */
TEST(prf_permute__neighbours_have_nothing_in_common)
{
	const struct fan_secret a = {{1, 2}}, b = {{1, 3}};
	unsigned beside = 0, keys = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t x = fan_prf_permute(&a, i);
		beside += (unsigned)__builtin_popcount(x ^ fan_prf_permute(&a, i + 1));
		keys += (unsigned)__builtin_popcount(x ^ fan_prf_permute(&b, i));
	}
	assert_in_range(beside, 15500, 16500); /* 16000, standard deviation 90 */
	assert_in_range(keys, 15500, 16500);
}

/* ---- rank_set ---- */

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

TEST(ranks__one_at_a_time)
{
	uint64_t set[WORDS] = {0};
	for (unsigned r = 0; r < FAN_RANKS_MAX; r += 7)
		fan_ranks_set(set, r);
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		assert_int_equal(fan_ranks_has(set, r), r % 7 == 0);
	fan_ranks_clear(set, 252);
	assert_false(fan_ranks_has(set, 252));
	assert_true(fan_ranks_has(set, 245));
}

TEST(ranks__all_of_a_job)
{
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

TEST(ranks__in_order)
{
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 300; i++) {
		uint64_t set[WORDS];
		struct model m = draw(&rng, set, 1 + i);
		unsigned n = 0, next = fan_ranks_first(set);
		for (unsigned r = 0; r < FAN_RANKS_MAX; r++) {
			if (!m.has[r])
				continue;
			assert_int_equal(next, r);
			next = fan_ranks_next(set, r + 1);
			n++;
		}
		assert_int_equal(next, FAN_RANK_NONE);
		assert_int_equal(fan_ranks_count(set), n);
		assert_int_equal(fan_ranks_is_empty(set), n == 0);
		assert_int_equal(fan_ranks_next(set, FAN_RANKS_MAX), FAN_RANK_NONE);
	}
}

TEST(ranks__of_two)
{
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

UNIT_MAIN
