/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/job.h"
#include "sim/observer.c"

static struct fan_layer layers[4] = {
	{.numel = 100},
	{.numel = 0},
	{.numel = 300},
	{.numel = 50},
};

static struct fan_job_config make(uint64_t bucket_bytes)
{
	struct fan_job_config c = {.model = {.layer = layers, .layers = 4}, .seed = 7};
	assert_true(fan_job_cut(&c, bucket_bytes));
	return c;
}

TEST(job__a_bucket_a_layer)
{
	struct fan_job_config c = make(0);
	assert_int_equal(c.buckets, 3);
	assert_int_equal(c.bucket[0].elems, 50);
	assert_int_equal(c.bucket[1].elems, 300);
	assert_int_equal(c.bucket[2].elems, 100);
	assert_int_equal(c.bucket[2].low, 0);
	assert_int_equal(fan_job_bucket_of(&c, 0), 2);
	assert_int_equal(fan_job_bucket_of(&c, 2), 1);
	assert_int_equal(fan_job_bucket_of(&c, 3), 0);
	free(c.bucket);
}

TEST(job__buckets_of_at_least)
{
	struct fan_job_config c = make(4 * 60);
	assert_int_equal(c.buckets, 2);
	assert_int_equal(c.bucket[0].elems, 350);
	assert_int_equal(c.bucket[0].low, 2);
	assert_int_equal(c.bucket[1].elems, 100);
	free(c.bucket);
}

TEST(job__one_bucket_for_all)
{
	struct fan_job_config c = make(UINT64_MAX);
	assert_int_equal(c.buckets, 1);
	assert_int_equal(c.bucket[0].elems, 450);
	free(c.bucket);
}

TEST(job__slow_for_a_while)
{
	struct fan_job_config c = {.slows = 1};
	c.slow[0] = (struct fan_slow){.rank = 1,
				      .ranks = 1,
				      .computes = true,
				      .speed = 250000,
				      .from_ns = 100,
				      .to_ns = 200};
	assert_int_equal(fan_job_work_until(&c, 0, 0, 1000), 1000); /* another rank */
	assert_int_equal(fan_job_work_until(&c, 1, 0, 50), 50);
	assert_int_equal(fan_job_work_until(&c, 1, 0, 110), 140);
	assert_int_equal(fan_job_work_until(&c, 1, 0, 1000), 1075); /* 100 lasted for 25 */
	assert_int_equal(fan_job_work_until(&c, 1, 500, 1000), 1500);
	assert_int_equal(fan_job_work_until(&c, 2, 0, 1000), 1000);
}

TEST(job__slow_to_send)
{
	struct fan_job_config c = {.slows = 2};
	c.slow[0] = (struct fan_slow){.rank = 1,
				      .ranks = 2,
				      .sends = true,
				      .speed = 250000,
				      .from_ns = 100,
				      .to_ns = 200};
	c.slow[1] = (struct fan_slow){
		.ranks = 4, .computes = true, .speed = 500000, .to_ns = UINT64_MAX};
	uint64_t until_ns;
	assert_int_equal(fan_job_sending(&c, 0, 150, &until_ns), 1000000); /* computes only */
	assert_int_equal(until_ns, UINT64_MAX);
	assert_int_equal(fan_job_sending(&c, 1, 0, &until_ns), 1000000);
	assert_int_equal(until_ns, 100);
	assert_int_equal(fan_job_sending(&c, 2, 100, &until_ns), 250000);
	assert_int_equal(until_ns, 200);
	assert_int_equal(fan_job_sending(&c, 3, 150, &until_ns), 1000000);
	assert_int_equal(fan_job_work_until(&c, 1, 150, 10), 170);
}

TEST(job__rotating_slowness_has_its_share)
{
	struct fan_job_config c = {.slows = 1, .seed = 3};
	c.slow[0] = (struct fan_slow){
		.ranks = 2,
		.computes = true,
		.speed = 250000,
		.to_ns = UINT64_MAX,
		.interval_ns = 1000,
		.chance = 200000,
	};
	/* mean speed 0.8 + 0.2 x 0.25 = 0.85 */
	uint64_t took_ns = fan_job_work_until(&c, 0, 0, 100000000);
	assert_in_range(took_ns, 100000000 / 0.86, 100000000 / 0.84);
	assert_int_not_equal(took_ns, fan_job_work_until(&c, 1, 0, 100000000));
}

TEST(job__jitter_stays_within)
{
	struct fan_job_config c = {.jitter = 100000, .seed = 5};
	uint64_t low = UINT64_MAX, high = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t ns = fan_job_jittered(&c, 3, i, 1000000);
		low = ns < low ? ns : low;
		high = ns > high ? ns : high;
	}
	assert_in_range(low, 900000, 905000);
	assert_in_range(high, 1095000, 1100000);
}

/* Of a shape of 2, a quarter takes twice as long or longer, a hundredth ten times. */
TEST(job__pareto_has_its_tail)
{
	struct fan_job_config c = {.pareto = 2000000, .seed = 5};
	unsigned twice = 0, ten_times = 0;
	for (uint32_t i = 0; i < 10000; i++) {
		uint64_t ns = fan_job_jittered(&c, 3, i, 1000000);
		assert_in_range(ns, 999999, 100000000);
		twice += ns >= 2000000;
		ten_times += ns >= 10000000;
	}
	assert_in_range(twice, 2350, 2650);
	assert_in_range(ten_times, 75, 125);
}

/* ---- standing ---- */

#define RANKS 3

static struct fan_standings s;

static int open_standings(void **state __attribute__((unused)))
{
	assert_true(standings_init(&s, RANKS, 10));
	return 0;
}

static int close_standings(void **state __attribute__((unused)))
{
	fan_standings_free(&s);
	return 0;
}

static void look(uint64_t now_ns, uint64_t n)
{
	const struct fan_standing_at at[RANKS] = {{n, 0}, {0, 2 * n}, {1, 1}};
	standings_look(&s, now_ns, at);
}

static const struct fan_standing_at *at(uint32_t rank, uint32_t i)
{
	return &s.sum[rank * FAN_STANDING_MAX + i];
}

TEST_WITH(standing__bounded_and_nothing_lost, open_standings, close_standings)
{
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
TEST_WITH(standing__gaps, open_standings, close_standings)
{
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

static void count(const uint64_t life[2], uint16_t rank, uint32_t lent, uint32_t deferred,
		  const uint32_t *kept)
{
	standings_count(&s, life, rank, lent, deferred, kept);
}

/* Counts of one life take each other's place; those of several are added. */
TEST_WITH(standing__lives, open_standings, close_standings)
{
	const uint64_t life[][2] = {{1, 2}, {2, 2}, {2, 3}};
	const uint32_t kept[RANKS] = {1, 0, 20}, fewer[RANKS] = {0, 0, 3};
	count(life[0], 1, 5, 6, fewer);
	count(life[0], 1, 50, 60, kept);
	assert_int_equal(s.all.lent[1], 50);
	assert_int_equal(s.all.deferred[1], 60);
	assert_int_equal(s.all.kept[RANKS + 2], 20);
	count(life[1], 0, 0, 0, NULL);
	assert_int_equal(s.all.lent[1], 50);
	count(life[1], 1, 4, 5, fewer);
	count(life[2], 1, 1, 0, NULL); /* nobody is that rank just now */
	count(life[2], 0, 9, 8, kept);
	assert_int_equal(s.all.lent[1], 55);
	assert_int_equal(s.all.deferred[1], 65);
	assert_int_equal(s.all.kept[RANKS + 2], 23);
	assert_int_equal(s.all.kept[RANKS], 1);
	assert_int_equal(s.all.kept[2], 20);
	assert_int_equal(s.all.deferred[0], 8);
	assert_int_equal(s.all.deferred[2], 0);
}

UNIT_MAIN
