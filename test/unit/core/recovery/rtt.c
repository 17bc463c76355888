/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/recovery/rtt.h"
#include "core/recovery/seq_gap.h"

TEST(rtt__first_sample)
{
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	assert_in_range(fan_rtt_timeout(&r), FAN_RTO_MIN_NS, FAN_RTO_MAX_NS);
	fan_rtt_sample(&r, 8 * FAN_MS);
	assert_int_equal(r.srtt_ns, 8 * FAN_MS); /* RFC 6298, 2.2 */
	assert_int_equal(r.var_ns, 4 * FAN_MS);
	assert_int_equal(r.rto_ns, 24 * FAN_MS);
}

TEST(rtt__smoothing)
{
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
TEST(rtt__smallest_sample_bounds_the_first_timeout)
{
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
TEST(rtt__answered_probe)
{
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

TEST(rtt__bounds)
{
	struct fan_rtt r;
	fan_rtt_init(&r, 0);
	fan_rtt_sample(&r, 0);
	assert_int_equal(r.rto_ns, FAN_RTO_MIN_NS);
	fan_rtt_sample(&r, 60000 * FAN_MS);
	assert_int_equal(r.rto_ns, FAN_RTO_MAX_NS);
}

TEST(rtt__backs_off_until_something_is_heard)
{
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
TEST(rtt__backs_off_to_less_than_a_second)
{
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
TEST(rtt__least_timeout_is_settable)
{
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
TEST(rtt__a_short_first_timeout)
{
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

TEST(rtt__samples_are_counted_by_length)
{
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

TEST(rtt__the_least_timeout_may_change)
{
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

/* ---- seq_gap ---- */

/* Numbers in order, from the next one on; what is to be asked for after the last. */
static uint64_t in_order(struct fan_seq_gap *g, unsigned count)
{
	uint64_t missing = 0;
	for (unsigned i = 0; i < count; i++)
		missing = fan_seq_gap_note(g, 1, false);
	return missing;
}

TEST(seq_gap__nothing_is_missing)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, UINT16_MAX, true);
	for (unsigned i = 0; i < 70000; i++)
		assert_int_equal(fan_seq_gap_note(&g, 1, false), 0);
	assert_int_equal(g.last, (uint16_t)(UINT16_MAX + 70000));
}

/* Asked for when three later ones have come, and when 48 have. */
TEST(seq_gap__is_asked_for_twice)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_int_equal(fan_seq_gap_note(&g, 2, false), 0); /* 12: 11 may still come */
	assert_int_equal(in_order(&g, 1), 0);
	assert_int_equal(in_order(&g, 1), 1 << 3); /* 14 - 3 */
	assert_int_equal(g.last, 14);
	for (unsigned i = FAN_GAP_RESULTS + 1; i < FAN_GAP_AGAIN; i++)
		assert_int_equal(in_order(&g, 1), 0);
	assert_true(in_order(&g, 1) == UINT64_C(1) << FAN_GAP_AGAIN);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
}

/* Whoever has better paths to ask again is told once. */
TEST(seq_gap__once)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, false);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 2), 1 << 3);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
}

/* What was sent again has come: no second question, and no reason to wait longer. */
TEST(seq_gap__answered)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 2), 1 << 3);
	assert_int_equal(fan_seq_gap_note(&g, -3, true), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
	assert_int_equal(g.few, FAN_GAP_RESULTS);
}

/* Some of a run that is lost show at once, the last of them later. */
TEST(seq_gap__a_run)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_int_equal(fan_seq_gap_note(&g, 6, false), 7 << 3); /* 16: 11, 12 and 13 */
	assert_int_equal(in_order(&g, 1), 1 << 3);
	assert_int_equal(in_order(&g, 1), 1 << 3);
	assert_int_equal(in_order(&g, 1), 0);
}

/* Longer than is kept track of. */
TEST(seq_gap__a_long_run)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_true(fan_seq_gap_note(&g, 63, false) == UINT64_MAX << FAN_GAP_RESULTS << 1 >> 1);
	fan_seq_gap_init(&g, 10, true);
	assert_true(fan_seq_gap_note(&g, 5000, false) == UINT64_MAX << FAN_GAP_RESULTS);
	assert_int_equal(g.last, 5010);
	assert_int_equal(fan_seq_gap_note(&g, -64, false), 0);
	assert_int_equal(fan_seq_gap_note(&g, -63, false), 0);
	assert_int_equal(fan_seq_gap_note(&g, -32768, false), 0);
	assert_int_equal(g.last, 5010);
}

/* One that comes after it was asked for had been overtaken: it takes more from now on. */
TEST(seq_gap__learns_what_order_is_worth)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 0, true);
	fan_seq_gap_note(&g, 3, false);
	assert_int_equal(fan_seq_gap_note(&g, -2, false), 0); /* 1, in time */
	assert_int_equal(g.few, FAN_GAP_RESULTS);
	assert_int_equal(in_order(&g, 2), 1 << 3); /* 2 */
	assert_int_equal(fan_seq_gap_note(&g, -3, false), 0);
	assert_int_equal(g.few, 2 * FAN_GAP_RESULTS);
	assert_int_equal(fan_seq_gap_note(&g, -3, false), 0); /* a duplicate tells nothing */
	assert_int_equal(g.few, 2 * FAN_GAP_RESULTS);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 4), 0);
	assert_int_equal(in_order(&g, 1), 1 << 6);
	for (unsigned i = 0; i < 20; i++) {
		fan_seq_gap_note(&g, 2, false);
		in_order(&g, 60);
		fan_seq_gap_note(&g, -61, false);
	}
	assert_int_equal(g.few, FAN_GAP_AGAIN);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, FAN_GAP_AGAIN - 2), 0);
	assert_true(in_order(&g, 1) == UINT64_C(1) << FAN_GAP_AGAIN);
	assert_int_equal(in_order(&g, 60), 0);
}

/* As a neighbour's numbers come: many may be lost, and a stream may have begun elsewhere. */
TEST(seq_gap__of_a_neighbour)
{
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 0, true);
	assert_int_equal(fan_seq_gap_heard(&g, 1), 0);
	assert_int_equal(fan_seq_gap_heard(&g, 5), 1 << 3); /* 2; 3 and 4 may still come */
	assert_true(fan_seq_gap_heard(&g, 5 + 2 * FAN_SEQ_GAP_BITS + 1) == UINT64_MAX << 3);
	assert_int_equal(g.last, 5 + 2 * FAN_SEQ_GAP_BITS + 1); /* too many */
	uint64_t missing = fan_seq_gap_heard(&g, 5 + 2 * FAN_SEQ_GAP_BITS + 5);
	assert_int_equal(missing & 0xff, 1 << 3 | 1 << 5 | 1 << 6);
	fan_seq_gap_resume(&g);
	assert_int_equal(fan_seq_gap_heard(&g, 60000), 0); /* far behind, as 16 bits go */
	assert_int_equal(g.last, 60000);
	assert_int_equal(fan_seq_gap_heard(&g, 60004), 1 << 3);
	assert_int_equal(fan_seq_gap_heard(&g, 60004 - FAN_GAP_BEGUN + 1), 0); /* long under way */
	assert_int_equal(g.last, 60004);
	assert_int_equal(fan_seq_gap_heard(&g, 60004 - FAN_GAP_BEGUN),
			 0); /* its sender began anew */
	assert_int_equal(g.last, 60004 - FAN_GAP_BEGUN);
}

UNIT_MAIN
