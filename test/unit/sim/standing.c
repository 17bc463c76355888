/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/standing.h"

#define RANKS 3

static struct fan_standings s;

static int open_standings(void **state)
{
	(void)state;
	assert_true(fan_standings_init(&s, RANKS, 10));
	return 0;
}

static int close_standings(void **state)
{
	(void)state;
	fan_standings_free(&s);
	return 0;
}

static void look(uint64_t now_ns, uint64_t n)
{
	const struct fan_standing_at at[RANKS] = {{n, 0}, {0, 2 * n}, {1, 1}};
	fan_standings_look(&s, now_ns, at);
}

static const struct fan_standing_at *at(uint32_t rank, uint32_t i)
{
	return &s.sum[rank * FAN_STANDING_MAX + i];
}

static void standing__bounded_and_nothing_lost(void **state)
{
	(void)state;
	uint64_t sum = 0, behind = 0, kept = 0, looks = 0, ones = 0;
	for (uint64_t i = 0; i < 5000; i++, sum += i)
		look(1000 + 10 * i, i + 1);
	assert_in_range(s.count, FAN_STANDING_MAX / 2, FAN_STANDING_MAX);
	for (uint32_t i = 0; i < s.count; i++) {
		behind += at(0, i)->behind;
		kept += at(1, i)->kept;
		ones += at(2, i)->behind;
		looks += s.weight[i];
		assert_in_range(s.weight[i], 1, s.interval_ns / 10);
	}
	assert_int_equal(behind, sum);
	assert_int_equal(kept, 2 * sum);
	assert_int_equal(looks, 5000);
	assert_int_equal(ones, 5000);
	assert_int_equal(s.start_ns, 1000);
}

/* A job that is not there for a while leaves a gap, and what follows is at its time. */
static void standing__gaps(void **state)
{
	(void)state;
	look(500, 7);
	look(510, 8);
	look(600, 9);
	assert_int_equal(s.count, 11);
	assert_int_equal(at(0, 0)->behind, 7);
	assert_int_equal(at(0, 1)->behind, 8);
	for (uint32_t i = 2; i < 10; i++)
		assert_int_equal(s.weight[i], 0);
	assert_int_equal(at(0, 10)->behind, 9);
	look(500 + 10 * FAN_STANDING_MAX, 5);
	assert_int_equal(s.interval_ns, 20);
	assert_int_equal(s.count, FAN_STANDING_MAX / 2 + 1);
	assert_int_equal(at(0, 0)->behind, 15);
	assert_int_equal(s.weight[0], 2);
	assert_int_equal(at(0, 5)->behind, 9);
	assert_int_equal(at(0, FAN_STANDING_MAX / 2)->behind, 5);
}

static void count(uint16_t rank, uint32_t lent, uint32_t deferred, const uint32_t *kept)
{
	const struct fan_switch_rank at = {.lent = lent, .deferred = deferred, .kept = kept};
	fan_standings_count(&s, rank, &at);
}

/* Counts of one life take each other's place; those of several are added. */
static void standing__lives(void **state)
{
	(void)state;
	const uint64_t life[][2] = {{1, 2}, {2, 2}, {2, 3}};
	const uint32_t kept[RANKS] = {1, 0, 20}, fewer[RANKS] = {0, 0, 3};
	fan_standings_life(&s, life[0]);
	count(1, 5, 6, fewer);
	fan_standings_life(&s, life[0]);
	count(1, 50, 60, kept);
	assert_int_equal(fan_standings_lent(&s, 1), 50);
	assert_int_equal(fan_standings_deferred(&s, 1), 60);
	assert_int_equal(fan_standings_kept(&s, 1, 2), 20);
	fan_standings_life(&s, life[1]);
	assert_int_equal(fan_standings_lent(&s, 1), 50);
	count(1, 4, 5, fewer);
	fan_standings_life(&s, life[2]);
	count(1, 1, 0, NULL); /* nobody is that rank just now */
	count(0, 9, 8, kept);
	assert_int_equal(fan_standings_lent(&s, 1), 55);
	assert_int_equal(fan_standings_deferred(&s, 1), 65);
	assert_int_equal(fan_standings_kept(&s, 1, 2), 23);
	assert_int_equal(fan_standings_kept(&s, 1, 0), 1);
	assert_int_equal(fan_standings_kept(&s, 0, 2), 20);
	assert_int_equal(fan_standings_deferred(&s, 0), 8);
	assert_int_equal(fan_standings_deferred(&s, 2), 0);
}

#define STANDING_TEST(name) cmocka_unit_test_setup_teardown(name, open_standings, close_standings)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STANDING_TEST(standing__bounded_and_nothing_lost),
		STANDING_TEST(standing__gaps),
		STANDING_TEST(standing__lives),
	};
	return RUN(tests);
}
