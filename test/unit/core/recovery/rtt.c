/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/recovery/rtt.h"

static void rtt__first_sample(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	assert_in_range(fan_rtt_timeout(&r), FAN_RTO_MIN_NS, FAN_RTO_MAX_NS);
	fan_rtt_sample(&r, 8 * FAN_MS);
	assert_int_equal(r.srtt_ns, 8 * FAN_MS); /* RFC 6298, 2.2 */
	assert_int_equal(r.var_ns, 4 * FAN_MS);
	assert_int_equal(r.rto_ns, 24 * FAN_MS);
}

static void rtt__smoothing(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 8 * FAN_MS);
	fan_rtt_sample(&r, 16 * FAN_MS); /* RFC 6298, 2.3 */
	assert_int_equal(r.var_ns, 5 * FAN_MS);
	assert_int_equal(r.srtt_ns, 9 * FAN_MS);
	for (unsigned i = 0; i < 200; i++)
		fan_rtt_sample(&r, 10 * FAN_MS);
	assert_in_range(r.srtt_ns, 99 * FAN_MS / 10, 10 * FAN_MS);
	assert_in_range(r.rto_ns, 99 * FAN_MS / 10, 11 * FAN_MS);
}

/* Waits for others make samples long; the timer goes by the shortest of late. */
static void rtt__smallest_sample_bounds_the_first_timeout(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 2 * FAN_MS);
	for (unsigned i = 0; i < 40; i++)
		fan_rtt_sample(&r, 90 * FAN_MS);
	assert_int_equal(fan_rtt_timeout(&r), 4 * FAN_MS);
	for (unsigned i = 0; i < 128; i++) /* it is forgotten in the end */
		fan_rtt_sample(&r, 90 * FAN_MS);
	assert_in_range(fan_rtt_timeout(&r), 44 * FAN_MS, 45 * FAN_MS);
}

/* Before there is any result, an answered probe tells how far the switch is. */
static void rtt__answered_probe(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	const uint64_t first = fan_rtt_timeout(&r);
	fan_rtt_answer(&r, 3 * FAN_MS);
	assert_true(fan_rtt_timeout(&r) < first);
	assert_int_equal(fan_rtt_timeout(&r), 6 * FAN_MS);
	assert_int_equal(r.srtt_ns, 0);
	fan_rtt_sample(&r, 100 * FAN_MS);
	assert_int_equal(fan_rtt_timeout(&r), 6 * FAN_MS);
}

static void rtt__bounds(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 0);
	assert_int_equal(r.rto_ns, FAN_RTO_MIN_NS);
	fan_rtt_sample(&r, 60000 * FAN_MS);
	assert_int_equal(r.rto_ns, FAN_RTO_MAX_NS);
}

static void rtt__backs_off_until_something_is_heard(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 2 * FAN_MS);
	const uint64_t first = fan_rtt_timeout(&r);
	for (unsigned i = 1; i <= FAN_RTO_BACKOFF_MAX; i++) {
		fan_rtt_expired(&r);
		assert_int_equal(fan_rtt_timeout(&r), first << i);
	}
	for (unsigned i = 0; i < 100; i++)
		fan_rtt_expired(&r);
	assert_int_equal(fan_rtt_timeout(&r), first << FAN_RTO_BACKOFF_MAX);
	fan_rtt_heard(&r);
	assert_int_equal(fan_rtt_timeout(&r), first);
}

/* Who was cut off is to find out soon that it is no more, however far the switch is. */
static void rtt__backs_off_to_less_than_a_second(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 500 * FAN_MS);
	const uint64_t first = fan_rtt_timeout(&r);
	assert_true(first < FAN_RTO_LONG_NS / 4);
	for (unsigned i = 0; i < 100; i++)
		fan_rtt_expired(&r);
	assert_int_equal(fan_rtt_timeout(&r), FAN_RTO_LONG_NS);
	fan_rtt_least(&r, 700); /* one that somebody asks for holds */
	assert_int_equal(fan_rtt_timeout(&r), 700 * FAN_MS);
}

/* On slow links nothing is asked for before that, not even at first. */
static void rtt__least_timeout_is_settable(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 250);
	assert_int_equal(fan_rtt_timeout(&r), 250 * FAN_MS);
	fan_rtt_sample(&r, 2 * FAN_MS);
	fan_rtt_answer(&r, FAN_MS);
	assert_int_equal(fan_rtt_timeout(&r), 250 * FAN_MS);
	fan_rtt_sample(&r, 60000 * FAN_MS); /* beyond the largest that is measured */
	assert_int_equal(r.rto_ns, 250 * FAN_MS);
}

/* Where losses show by numbers, the first one may be shorter; the others are as always. */
static void rtt__a_short_first_timeout(void **state)
{
	(void)state;
	struct fan_rtt r, plain;
	fan_rtt_init(&r, 0);
	r.first_ns = FAN_RTO_FIRST_NS;
	fan_rtt_sample(&r, FAN_MS / 20);
	plain = r;
	plain.first_ns = 0;
	assert_int_equal(fan_rtt_timeout(&r), FAN_RTO_FIRST_NS);
	for (unsigned i = 0; i < 100; i++) {
		fan_rtt_expired(&r);
		assert_int_equal(fan_rtt_timeout(&r), fan_rtt_timeout(&plain));
		fan_rtt_expired(&plain);
	}
	fan_rtt_heard(&r);
	assert_int_equal(fan_rtt_timeout(&r), FAN_RTO_FIRST_NS);
	fan_rtt_sample(&r, FAN_MS);
	fan_rtt_sample(&r, FAN_MS);
	assert_in_range(fan_rtt_timeout(&r), FAN_MS / 20, FAN_MS / 2); /* by the round trip */
}

static void rtt__samples_are_counted_by_length(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, FAN_RTT_BIN_NS - 1);
	fan_rtt_sample(&r, FAN_RTT_BIN_NS);
	fan_rtt_sample(&r, 2 * FAN_RTT_BIN_NS - 1);
	fan_rtt_sample(&r, 2 * FAN_RTT_BIN_NS);
	fan_rtt_sample(&r, (FAN_RTT_BIN_NS << (FAN_RTT_BINS - 1)) - 1);
	fan_rtt_sample(&r, FAN_RTT_BIN_NS << (FAN_RTT_BINS - 1));
	fan_rtt_sample(&r, UINT64_C(1) << 60);
	assert_int_equal(r.seen.count[0], 1);
	assert_int_equal(r.seen.count[1], 2);
	assert_int_equal(r.seen.count[2], 1);
	assert_int_equal(r.seen.count[FAN_RTT_BINS - 1], 1);
	assert_int_equal(r.seen.count[FAN_RTT_BINS], 2);
	assert_true(r.seen.sum_ns > UINT64_C(1) << 60);
}

static void rtt__the_least_timeout_may_change(void **state)
{
	(void)state;
	struct fan_rtt r;
	fan_rtt_init(&r, 1);
	for (unsigned i = 0; i < 200; i++)
		fan_rtt_sample(&r, 4 * FAN_MS);
	assert_int_equal(fan_rtt_timeout(&r), 2 * FAN_MS);
	fan_rtt_least(&r, 20);
	fan_rtt_check(&r);
	assert_int_equal(fan_rtt_timeout(&r), 20 * FAN_MS);
	fan_rtt_least(&r, 1);
	assert_int_equal(fan_rtt_timeout(&r), 2 * FAN_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rtt__first_sample),
		cmocka_unit_test(rtt__smoothing),
		cmocka_unit_test(rtt__smallest_sample_bounds_the_first_timeout),
		cmocka_unit_test(rtt__answered_probe),
		cmocka_unit_test(rtt__bounds),
		cmocka_unit_test(rtt__least_timeout_is_settable),
		cmocka_unit_test(rtt__a_short_first_timeout),
		cmocka_unit_test(rtt__backs_off_until_something_is_heard),
		cmocka_unit_test(rtt__backs_off_to_less_than_a_second),
		cmocka_unit_test(rtt__samples_are_counted_by_length),
		cmocka_unit_test(rtt__the_least_timeout_may_change),
	};
	return RUN(tests);
}
