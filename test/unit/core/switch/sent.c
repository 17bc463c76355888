/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/switch_rig.h"

static const fan_peer lower = {.addr = {0, 60}, .port = 9};

static int open_sent(void **state __attribute__((unused)))
{
	bed_open(state);
	bed.cfg.slots = 64;
	bed_begin();
	bed_form(0);
	return 0;
}

/* The sum of fragment `frag` of all ranks leaves; its number. */
static uint16_t sum(uint64_t frag)
{
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(0, r, frag, 1, 0, 0);
	bed_is_partial(0, 0, frag, 0xf, 4);
	return bed.got[0].f.seq;
}

/* The aggregator, or `from`, misses these: bit i, number `last` - i. */
static enum fan_verdict miss_from(fan_peer from, uint16_t last, uint64_t missing)
{
	struct fan_frag f = bed_head(0, FAN_RANK_NONE, 0, FAN_TYPE_MISS);
	f.last = last;
	f.missing = missing;
	return bed_give(from, &f, NULL, 0);
}

static enum fan_verdict miss(uint16_t last, uint64_t missing)
{
	return miss_from(bed_aggregator, last, missing);
}

static void result(uint64_t frag)
{
	struct fan_frag f = bed_head(0, FAN_RANK_NONE, frag, FAN_TYPE_RESULT);
	f.op = FAN_BARRIER;
	f.dtype = FAN_UINT8;
	bed_give(bed_aggregator, &f, NULL, 0);
}

TEST_WITH(sent__all_that_goes_up_is_numbered, open_sent, NULL)
{
	uint16_t first = sum(0);
	assert_int_equal(sum(1), (uint16_t)(first + 1));
	assert_int_equal(bed_add(0, 1, 2, 1, 0, FAN_F_DIRECT), FAN_PASS);
	assert_int_equal(bed.got[0].f.seq, (uint16_t)(first + 2));
	struct fan_frag probe = bed_head(0, 1, 3, FAN_TYPE_PROBE);
	probe.seq = 2; /* its own is for us */
	bed_give(bed_worker(0, 1), &probe, NULL, 0);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PROBE);
	assert_int_equal(bed.got[0].f.seq, (uint16_t)(first + 3));
}

/* A sum is there to be sent again until its result comes, each time with a new number, a few
 * times. */
TEST_WITH(sent__a_sum_is_sent_again, open_sent, NULL)
{
	uint16_t number = sum(0), last = sum(1);
	for (unsigned i = 0; i < FAN_MISS_RESENDS; i++) {
		assert_int_equal(miss(last, UINT64_C(1) << (uint16_t)(last - number)), FAN_ASK);
		assert_int_equal(bed.gots, 1);
		bed_is_partial(0, 0, 0, 0xf, 4);
		number = bed.got[0].f.seq;
		assert_int_equal(number, (uint16_t)(last + 1));
		last = number;
	}
	assert_int_equal(miss(number, 1), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	number = sum(2);
	result(2);
	assert_int_equal(miss(number, 1), FAN_DROP);
	assert_int_equal(bed.gots, 0);
}

/* What passed as it came the worker sends again, past all slots; but not what found its slot taken.
 */
TEST_WITH(sent__what_passed_is_asked_for, open_sent, NULL)
{
	uint64_t frag = (UINT64_C(1) << 40) + 5;
	fan_peer worker = bed_worker(0, 1);
	assert_int_equal(bed_add(0, 1, frag, 1, 0, FAN_F_DIRECT), FAN_PASS);
	uint16_t number = bed.got[0].f.seq;
	assert_int_equal(bed_add(0, 2, frag + 1, 1, 0, FAN_F_DIRECT | FAN_F_COLLISION), FAN_PASS);
	assert_int_equal(miss((uint16_t)(number + 1), 3), FAN_ASK);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_NEED);
	assert_true(bed.got[0].f.frag == frag);
	assert_int_equal(bed.got[0].f.to, FAN_TAG(1));
	assert_true(fan_peer_equal(&bed.got[0].peer, &worker));
}

/* Numbers that were not given, or so long ago that nobody knows, cost nothing. */
TEST_WITH(sent__other_numbers, open_sent, NULL)
{
	uint16_t number = sum(0);
	assert_int_equal(miss((uint16_t)(number + 40), UINT64_C(0xff)), FAN_DROP);
	assert_int_equal(miss((uint16_t)(number - 1), UINT64_MAX >> 1), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	for (unsigned i = 0; i < FAN_SENT_MAX; i++)
		bed_add(0, 1, 100, 1, 0, FAN_F_DIRECT);
	assert_int_equal(miss(number, 1), FAN_DROP);
	assert_int_equal(miss_from(bed_worker(0, 1), number, 1), FAN_DROP);
	struct fan_frag f = bed_head(0, FAN_RANK_NONE, 0, FAN_TYPE_MISS); /* for one rank */
	f.last = (uint16_t)(number + 1);
	f.missing = 1;
	f.to = FAN_TAG(1);
	assert_int_equal(bed_give(bed_aggregator, &f, NULL, 0), FAN_DROP);
	assert_int_equal(bed.gots, 0);
}

/* Whatever is asked for, no more than a few are sent at a time, and in the long run one for
 * FAN_SENT_COST that leave. */
TEST_WITH(sent__bounds, open_sent, NULL)
{
	unsigned again = 0;
	uint16_t last = 0;
	for (unsigned i = 0; i < 60; i++) {
		bed_add(0, 1, i, 1, 0, FAN_F_DIRECT);
		last = bed.got[0].f.seq;
	}
	for (unsigned i = 0; i < 100; i++) {
		miss(last, (UINT64_C(1) << 60) - 1);
		assert_in_range(bed.gots, 0, FAN_MISS_MAX);
		again += bed.gots;
	}
	assert_int_equal(again, FAN_SENT_CREDIT / FAN_SENT_COST);
	for (unsigned i = 0; i < FAN_SENT_COST; i++) {
		assert_int_equal(miss(last, 2), FAN_DROP);
		bed_add(0, 1, 100 + i, 1, 0, FAN_F_DIRECT);
		last = bed.got[0].f.seq;
	}
	assert_int_equal(miss(last, 2), FAN_ASK);
}

/* More is lost than numbers tell: workers learn it. */
TEST_WITH(sent__workers_are_warned, open_sent, NULL)
{
	uint16_t number = sum(0);
	miss((uint16_t)(number + 63), UINT64_MAX << 3);
	assert_int_equal(bed.gots, 2);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_MISS);
	assert_int_equal(bed.got[0].dest, FAN_TO_GROUP);
	assert_int_equal(bed.got[0].f.to, 0);
	assert_true(bed.got[0].f.missing == UINT64_C(1) << 63);
	bed_is_partial(1, 0, 0, 0xf, 4);
}

/* But not each time: a MISS like that may come with each packet that overtakes others. */
TEST_WITH(sent__workers_are_warned_now_and_then, open_sent, NULL)
{
	uint16_t number = sum(0);
	for (unsigned i = 0; i < 10; i++) {
		miss(number, UINT64_C(1) << 63);
		assert_int_equal(bed.gots, i == 0);
	}
	bed.now_ns += FAN_WARN_NS - 1;
	miss(number, UINT64_C(1) << 63);
	assert_int_equal(bed.gots, 0);
	bed.now_ns++;
	miss(number, UINT64_C(1) << 63);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].dest, FAN_TO_GROUP);
}

/* A DATA of a rank of job 1 that `lower` passes on, numbered there. */
static enum fan_verdict from_below(uint16_t rank, uint64_t frag, uint16_t seq)
{
	struct fan_frag f = bed_head(1, rank, frag, FAN_TYPE_DATA);
	int32_t value = 1;
	f.dtype = FAN_INT32;
	f.count = 1;
	f.seq = seq;
	f.flags = FAN_F_FIRST | FAN_F_LAST | FAN_F_DIRECT;
	return bed_give(lower, &f, &value, sizeof value);
}

/* Whoever speaks, a switch below has one row of numbers; what it lacks it is asked for, and what
 * has passed and is lost above comes again from there. */
TEST_WITH(sent__a_switch_below_is_followed, open_sent, NULL)
{
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_beat_below(1, r, lower, (uint16_t)(r + 1));
	for (uint16_t n = 0; n < 12; n++) { /* it may begin anywhere */
		assert_int_equal(from_below(n % BED_RANKS, n, (uint16_t)(500 + n)), FAN_PASS);
		assert_int_equal(bed.gots, 1);
	}
	uint16_t above = bed.got[0].f.seq; /* of what it called 511 */
	from_below(2, 20, 515);
	assert_int_equal(bed.gots, 2);
	assert_true(fan_peer_equal(&bed.got[0].peer, &lower));
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_MISS);
	assert_int_equal(bed.got[0].f.to, 0);
	assert_int_equal(bed.got[0].f.last, 515);
	assert_int_equal(bed.got[0].f.missing, 1 << 3);
	struct fan_frag f = bed_head(1, FAN_RANK_NONE, 0, FAN_TYPE_MISS);
	f.last = above;
	f.missing = 2; /* 510 */
	assert_int_equal(bed_give(bed_aggregator, &f, NULL, 0), FAN_ASK);
	assert_true(fan_peer_equal(&bed.got[0].peer, &lower));
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_MISS);
	assert_int_equal(bed.got[0].f.last, 510);
	assert_int_equal(bed.got[0].f.missing, 1);
}

/* There are logs for so many jobs; others have no numbers.  Those of a job that is over are free.
 */
TEST_WITH(sent__logs_are_bounded, open_sent, NULL)
{
	bed.cfg.children_max = BED_RANKS * (FAN_SENT_LOGS + 1);
	bed_begin();
	bed.now_ns = UINT64_C(4096) * 7;
	for (unsigned job = 0; job <= FAN_SENT_LOGS; job++) {
		bed_form(job);
		bed_add(job, 0, 0, 1, 0, FAN_F_DIRECT);
		assert_int_equal(bed.got[0].f.seq, job < FAN_SENT_LOGS ? 8 : 0);
	}
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_left(3, r, bed_beat(3, r));
	bed_add(FAN_SENT_LOGS, 0, 0, 1, 0, FAN_F_DIRECT);
	assert_int_equal(bed.got[0].f.seq, 8);
}

UNIT_MAIN
