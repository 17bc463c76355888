/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/switch_rig.h"

static void esa(void)
{
	bed.cfg.policy = FAN_POLICY_ESA;
	bed_begin();
	bed_form(0);
	bed_form(1);
}

TEST_WITH(switch__result_frees_the_slot, bed_open, NULL)
{
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(0, r, 0, 1, 0, 0);
	assert_int_equal(bed_add(1, 0, 0, 1, 0, 0), FAN_PASS); /* held until then */
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_RESULT), FAN_PASS);
	assert_int_equal(bed.got[0].dest, FAN_TO_GROUP);
	assert_int_equal(bed_add(0, 1, 0, 1, 0, 0), FAN_DROP); /* late */
	assert_int_equal(bed_add(1, 0, 0, 1, 0, 0), FAN_WAIT);
}

TEST_WITH(switch__a_mark_goes_down_with_the_result, bed_open, NULL)
{
	for (unsigned marked = 0; marked < 2; marked++) {
		bed.marked = marked;
		assert_int_equal(bed_from_aggregator(0, marked, FAN_TYPE_RESULT), FAN_PASS);
		assert_int_equal(!!(bed.got[0].f.flags & FAN_F_ECN), marked);
	}
}

TEST_WITH(switch__free_early, bed_open, NULL)
{
	bed.cfg.options = FAN_SWITCH_FREE_EARLY;
	bed_begin();
	bed_form(0);
	bed_form(1);
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(0, r, 0, 1, 0, 0);
	bed_is_partial(0, 0, 0, 0xf, 4);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_DROP); /* remembered */
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_DUPLICATE], 1);
	assert_int_equal(bed_add(1, 0, 0, 1, 0, 0), FAN_WAIT);
}

/* Whoever has a priority takes a slot whose sum has left: nothing is evicted. */
TEST_WITH(switch__sums_that_left_give_way, bed_open, NULL)
{
	esa();
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(0, r, 0, 1, 200, 0);
	bed_is_partial(0, 0, 0, 0xf, 4);
	assert_int_equal(bed_add(1, 0, 0, 1, 0, 0), FAN_PASS);
	assert_int_equal(bed_add(1, 0, 0, 1, 1, 0), FAN_WAIT);
	assert_int_equal(bed.gots, 0);
	assert_int_equal(fan_switch_stats(bed.sw)->preemptions, 1);
	assert_int_equal(fan_switch_stats(bed.sw)->evictions, 0);
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_RESULT), FAN_PASS);
	assert_int_equal(bed_add(1, 1, 0, 1, 1, 0), FAN_WAIT); /* it is job 1's */
}

TEST_WITH(switch__ageing, bed_open, NULL)
{
	esa();
	assert_int_equal(bed_add(0, 0, 0, 1, 200, 0), FAN_WAIT);
	assert_int_equal(bed_add(1, 0, 0, 1, 60, 0), FAN_PASS); /* 100 */
	assert_int_equal(bed_add(1, 1, 0, 1, 60, 0), FAN_PASS); /* 50 */
	assert_int_equal(bed_add(1, 2, 0, 1, 60, 0), FAN_WAIT);
	bed.cfg.options = FAN_SWITCH_NO_AGEING;
	esa();
	assert_int_equal(bed_add(0, 0, 0, 1, 200, 0), FAN_WAIT);
	for (uint16_t r = 0; r < 4; r++)
		assert_int_equal(bed_add(1, r, 0, 1, 60, 0), FAN_PASS);
}

TEST_WITH(switch__options_take_preemption_away, bed_open, NULL)
{
	static const uint8_t options[] = {FAN_SWITCH_NO_PREEMPTION, FAN_SWITCH_NO_PRIORITIES};
	for (unsigned i = 0; i < 2; i++) {
		bed.cfg.options = options[i];
		esa();
		assert_int_equal(bed_add(0, 0, 0, 1, 1, 0), FAN_WAIT);
		assert_int_equal(bed_add(1, 0, 0, 1, 255, 0), FAN_PASS);
	}
}

/* Who goes by is waited for no more: the sum of the others leaves when they are there. */
TEST_WITH(switch__direct_is_not_waited_for, bed_open, NULL)
{
	for (uint16_t r = 0; r < 2; r++)
		assert_int_equal(bed_add(0, r, 0, 1, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(0, 3, 0, 1, 0, FAN_F_DIRECT), FAN_PASS);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed_add(0, 3, 0, 1, 0, 0), FAN_DROP); /* another copy */
	assert_int_equal(bed_add(0, 2, 0, 1, 0, 0), FAN_DONE);
	bed_is_partial(0, 0, 0, 0x7, 3);
}

TEST_WITH(switch__probe_and_flush, bed_open, NULL)
{
	bed_add(0, 0, 0, 1, 0, 0);
	bed_add(0, 2, 0, 4, 0, 0);
	struct fan_frag probe = bed_head(0, 1, 0, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(bed_worker(0, 1), &probe, NULL, 0), FAN_PASS);
	assert_int_equal(bed.gots, 2); /* the sum first, so that the aggregator's answer is true */
	bed_is_partial(0, 0, 0, 0x5, 5);
	assert_int_equal(bed.got[1].f.type, FAN_TYPE_PROBE);
	/* what has gone is remembered: the rest completes it */
	assert_int_equal(bed_add(0, 1, 0, 2, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(0, 3, 0, 8, 0, 0), FAN_DONE);
	bed_is_partial(0, 0, 0, 0xa, 10);
	/* a sum that may be lost is sent again, and stays; one that is on its way is not */
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_FLUSH), FAN_CTL);
	assert_int_equal(bed.gots, 0);
	bed.now_ns += FAN_REMIND_MIN_NS;
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_FLUSH), FAN_CTL);
	bed_is_partial(0, 0, 0, 0xa, 10);
	assert_int_equal(bed_from_aggregator(0, 3, FAN_TYPE_FLUSH), FAN_CTL); /* never seen */
	assert_int_equal(bed.gots, 0);
}

/* A rank that asks while others are only late makes nobody send: else one straggler would
 * have every sum go up in pieces. */
TEST_WITH(switch__probe_of_one_that_waits, bed_open, NULL)
{
	bed_add(0, 0, 0, 1, 0, 0);
	struct fan_frag probe = bed_head(0, 0, 0, FAN_TYPE_PROBE);
	probe.flags = FAN_F_INSIST;
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_EARLY);
	assert_int_equal(bed.gots, 0);
	bed.now_ns += FAN_REMIND_MIN_NS; /* longer than usual: it may wait for what passed by */
	probe = bed_head(0, 0, 0, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_PASS);
	bed_is_partial(0, 0, 0, 0x1, 1);
	/* what is usual is learnt: here, that the last contribution comes after 10 ms */
	for (uint64_t frag = 1; frag < 1 + 8; frag++) {
		bed_add(0, 0, frag, 1, 0, 0);
		bed_add(0, 1, frag, 1, 0, 0);
		bed_add(0, 2, frag, 1, 0, 0);
		bed.now_ns += 10 * FAN_MS;
		assert_int_equal(bed_add(0, 3, frag, 1, 0, 0), FAN_DONE);
		bed_from_aggregator(0, frag, FAN_TYPE_RESULT);
	}
	bed_add(0, 0, 9, 1, 0, 0);
	bed.now_ns += 20 * FAN_MS;
	probe = bed_head(0, 0, 9, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_EARLY);
	bed.now_ns += FAN_REMIND_MAX_NS;
	probe = bed_head(0, 0, 9, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_PASS);
	bed_is_partial(0, 0, 9, 0x1, 1);
	/* but who insists has nothing else to wait for */
	bed_add(0, 0, 10, 1, 0, 0);
	bed.now_ns += FAN_REMIND_MIN_NS;
	probe = bed_head(0, 0, 10, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_EARLY);
	probe.flags = FAN_F_INSIST;
	assert_int_equal(bed_give(bed_worker(0, 0), &probe, NULL, 0), FAN_PASS);
	bed_is_partial(0, 0, 10, 0x1, 1);
}

/* Its own later fragments have a little more priority, and drive nothing out for it. */
TEST_WITH(switch__own_sums_stay, bed_open, NULL)
{
	bed.cfg.policy = FAN_POLICY_ESA;
	bed_begin();
	bed_form(0);
	bed_form(1);
	bed_add(0, 0, 0, 1, 100, 0);
	assert_int_equal(bed_add(0, 0, 1, 2, 116, 0), FAN_PASS); /* it ages the slot: now 50 */
	assert_int_equal(bed_add(1, 0, 0, 4, 50, 0), FAN_PASS);	 /* and so does this: 25 */
	assert_int_equal(bed_add(0, 0, 1, 2, 41, 0), FAN_PASS);
	assert_int_equal(bed_add(0, 0, 1, 2, 29, 0), FAN_WAIT); /* 12, and the margin is large */
	bed_is_partial(0, 0, 0, 0x1, 1);
}

/* A job of whom nobody is left may come back: what it held is no longer its own, so the quota
 * still counts. */
TEST_WITH(switch__a_job_that_was_over_holds_nothing, bed_open, NULL)
{
	bed.cfg.slots = 8;
	bed.cfg.quota = 1;
	bed_begin();
	bed_form(0);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(0, 1, 0, 10, 0, 0), FAN_WAIT);
	bed_pass(FAN_CHILD_SILENT_NS + FAN_CHILD_SILENT_NS / 4);
	fan_switch_audit(bed.sw);
	bed_form(0);
	assert_int_equal(bed_add(0, 2, 0, 100, 0, 0), FAN_WAIT); /* anew: the sum begins again */
	unsigned waits = 0;
	for (uint64_t n = 1; n < BED_WINDOW; n++)
		waits += bed_add(0, 0, n, 1, 0, 0) == FAN_WAIT;
	assert_int_equal(waits, 0);
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_FLUSH), FAN_CTL);
	bed_is_partial(0, 0, 0, 0x4, 100);
}

TEST_WITH(switch__unknown_are_asked, bed_open, NULL)
{
	bed_begin(); /* forgets all */
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
	fan_peer to = bed_worker(0, 0);
	assert_true(fan_peer_equal(&bed.got[0].peer, &to));
	bed_form(0);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	struct fan_frag f = bed_head(0, 0, 1, FAN_TYPE_DATA); /* from another address */
	f.op = FAN_BARRIER;
	f.dtype = FAN_UINT8;
	assert_int_equal(bed_give(bed_worker(1, 0), &f, NULL, 0), FAN_DROP);
}

TEST_WITH(switch__what_disagrees_goes_up, bed_open, NULL)
{
	bed_add(0, 0, 0, 1, 0, 0);
	struct fan_frag f = bed_head(0, 1, 0, FAN_TYPE_DATA);
	int32_t value = 3;
	f.dtype = FAN_INT32;
	f.op = FAN_MAX;
	f.count = 1;
	assert_int_equal(bed_give(bed_worker(0, 1), &f, &value, 4), FAN_PASS);
}

TEST_WITH(switch__idle_slots_are_anybodys, bed_open, NULL)
{
	bed_add(0, 0, 0, 1, 0, 0);
	bed.now_ns += FAN_SLOT_IDLE_NS;
	assert_int_equal(bed_add(1, 0, 0, 5, 0, 0), FAN_WAIT);
	bed_is_partial(0, 0, 0, 0x1, 1);
}

TEST_WITH(switch__config, bed_open, NULL)
{
	struct fan_switch_config bad[6];
	for (unsigned i = 0; i < 6; i++)
		bad[i] = bed.cfg;
	bad[0].policy = FAN_POLICY_SWITCHML;
	bad[1].slots = 0;
	bad[2].payload_bytes = 63;
	bad[3].children_max = 1;
	bad[4].spares = 0;
	bad[5].aggregator = (fan_peer){.port = 0};
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(fan_switch_bytes(&bad[i]), 0);
}

/* A DATA of the rank of job 0, with its number; how many items answer it. */
static unsigned numbered(uint16_t rank, uint64_t frag, uint16_t seq, uint16_t flags)
{
	struct fan_frag f = bed_head(0, rank, frag, FAN_TYPE_DATA);
	int32_t value = 1;
	f.dtype = FAN_INT32;
	f.count = 1;
	f.seq = seq;
	f.flags = (uint16_t)(FAN_F_FIRST | FAN_F_LAST | flags);
	bed_give(bed_worker(0, rank), &f, &value, sizeof value);
	return bed.gots;
}

/* Item `i` asks `rank` of job 0 for the numbers: bit k, `at` - k. */
static void asks(unsigned i, uint16_t rank, uint16_t at, uint64_t which)
{
	const struct bed_got *g = &bed.got[i];
	fan_peer worker = bed_worker(0, rank);
	assert_true(fan_peer_equal(&g->peer, &worker));
	assert_int_equal(g->f.type, FAN_TYPE_MISS);
	assert_true(g->f.job == bed_job(0) && g->f.epoch == BED_EPOCH);
	assert_int_equal(g->f.sender, FAN_RANK_NONE);
	assert_int_equal(g->f.to, FAN_TAG(rank));
	assert_int_equal(g->f.last, at);
	assert_int_equal(g->f.missing, which);
}

/* A worker's number that three later ones have overtaken is asked for, here; each worker has its
 * own, and PROBEs count. */
TEST_WITH(switch__asks_by_number, bed_open, NULL)
{
	bed.cfg.slots = 64;
	bed_begin();
	uint16_t token = bed_join(0, 2, "a");
	assert_int_equal(bed_welcome(0, 2, token, 1), FAN_CTL);
	bed_form(0);
	assert_int_equal(numbered(0, 0, 40, 0), 0); /* no JOIN was seen: it may be the first */
	assert_int_equal(numbered(0, 4, 44, 0), 1);
	asks(0, 0, 44, 1 << 3);
	assert_int_equal(numbered(2, 3, 4, 0), 1); /* it is known when this one began: with 1 */
	asks(0, 2, 4, 1 << 3);
	struct fan_frag probe = bed_head(0, 2, 0, FAN_TYPE_PROBE);
	probe.seq = 5;
	bed_give(bed_worker(0, 2), &probe, NULL, 0);
	asks(0, 2, 5, 1 << 3);
	assert_int_equal(numbered(2, 0, 6, 0), 1); /* what comes late closes its gap */
	asks(0, 2, 6, 1 << 3);
	assert_int_equal(numbered(1, 5, 0, 0), 0); /* one that does not number */
	assert_int_equal(numbered(1, 5, 0, 0), 0);
	assert_int_equal(numbered(1, 5, 0, 0), 0);
	assert_int_equal(fan_switch_stats(bed.sw)->misses, 4);
	struct fan_frag led = bed_head(0, 1, 0, FAN_TYPE_PROBE); /* of no neighbour */
	led.seq = 90;
	assert_int_equal(bed_give(bed_worker(0, 3), &led, NULL, 0), FAN_DROP);
}

/* What a worker sends to a helper has no number, even if it looks like the next. */
TEST_WITH(switch__packets_for_helpers_have_no_numbers, bed_open, NULL)
{
	bed.cfg.slots = 64;
	bed_begin();
	uint16_t token = bed_join(0, 2, "a");
	assert_int_equal(bed_welcome(0, 2, token, 1), FAN_CTL);
	bed_form(0);
	assert_int_equal(numbered(2, 0, 1, 0), 0);
	struct fan_frag f = bed_head(0, 2, 1, FAN_TYPE_DATA);
	int32_t value = 1;
	f.dtype = FAN_INT32;
	f.count = 1;
	f.seq = 2;
	f.helper = FAN_TAG(1);
	f.flags = FAN_F_FIRST | FAN_F_LAST;
	assert_int_equal(bed_give(bed_worker(0, 2), &f, &value, sizeof value), FAN_WAIT);
	assert_int_equal(numbered(2, 2, 3, 0), 0);
	assert_int_equal(numbered(2, 3, 4, 0), 0);
	assert_int_equal(numbered(2, 4, 5, 0), 1);
	asks(0, 2, 5, 1 << 3); /* its second */
}

/* Results by number are the aggregator's: the question goes up, and a replay to one rank down. */
TEST_WITH(switch__passes_questions_by_number, bed_open, NULL)
{
	struct fan_frag miss = bed_head(0, 1, 0, FAN_TYPE_MISS);
	miss.missing = 5;
	miss.last = 9;
	assert_int_equal(bed_give(bed_worker(0, 1), &miss, NULL, 0), FAN_PASS);
	assert_int_equal(bed.gots, 1);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_MISS);
	assert_int_equal(bed.got[0].f.sender, 1);
	assert_int_equal(bed.got[0].f.last, 9);
	assert_int_equal(bed.got[0].f.missing, 5);
	assert_int_equal(bed_give(bed_worker(0, 2), &miss, NULL, 0), FAN_DROP); /* it is not 1 */
}

UNIT_MAIN
