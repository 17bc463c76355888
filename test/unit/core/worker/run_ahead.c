/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments of a worker that runs ahead of others. */
#include "core/worker/in_step.h"
#include "core/worker/worker.h"
#include "unit/core/worker_rig.h"

static unsigned contributions(void)
{
	unsigned sent = 0;
	for (unsigned n = rig_tick(); n; n = rig_tick())
		while (n)
			sent += rig.got[--n].type == FAN_TYPE_DATA;
	return sent;
}

/* The contribution of `frag` went past the nearest switch, and the slowest is `behind` it. */
static void unaggregated(uint64_t frag, uint16_t behind, uint16_t flags)
{
	struct fan_frag f = rig_frag(FAN_TYPE_PROGRESS, frag);
	f.flags = FAN_F_AWAY | flags;
	f.behind = behind;
	assert_int_equal(rig_recv(&f, false), FAN_CTL);
}

/* Further and further ahead, but less where that fills queues or caches. */
TEST_WITH(ahead__lead, rig_open, rig_close)
{
	static int32_t in[4096 * 16], out[4096 * 16];
	rig_ahead(4096, 8);
	struct fan_op op = rig_int_sum(in, out, 4096 * 16);
	rig_start(&op);
	unsigned sent = contributions();
	for (unsigned n = sent; n && sent < 400; sent += n) { /* the slowest has sent nothing */
		rig.now_ns += 20000;
		rig_pace(sent - 1, (uint16_t)sent);
		n = contributions();
	}
	assert_in_range(sent, 400, 410);
	rig.now_ns += 30000;
	unaggregated(sent - 1, (uint16_t)sent, 0); /* it went further, and soon came to its end */
	unsigned more = contributions();
	assert_int_equal(more, 8);
	sent += more;
	rig.now_ns += 900000;
	unaggregated(sent - 1, (uint16_t)sent, FAN_F_ECN); /* what is unaggregated waits */
	assert_int_equal(contributions(), 0);
	unaggregated(sent - 1, (uint16_t)(sent / 4),
		     0); /* the slowest gets on: not shortened again */
	more = contributions();
	assert_int_equal(more, 8);
	sent += more;
	rig.now_ns += 20000;
	unaggregated(sent - 1, (uint16_t)(sent / 4), FAN_F_FULL); /* no room for more */
	assert_int_equal(contributions(), 0);
	for (unsigned i = 0; i < 40; i++) { /* again and again */
		rig.now_ns += 20000;
		unaggregated(sent - 1, 20, FAN_F_FULL);
		sent += contributions();
	}
	const struct fan_worker_stats *st = fan_worker_stats(rig.w);
	assert_int_equal(st->next, sent);
	assert_in_range(st->next - st->slowest, 20, 4 * 8); /* four bursts are always allowed */
	const uint64_t slowest = st->slowest;
	unaggregated(7, 9, 0); /* more behind than there are fragments: a lie */
	assert_int_equal(fan_worker_stats(rig.w)->slowest, slowest);
}

/* Silence is a slow rank's first, and shows a loss when none is known to be behind. */
TEST_WITH(ahead__short_time_outs_where_nobody_is_slow, rig_open, rig_close)
{
	static int32_t in[4 * 16], out[4 * 16];
	rig_ahead_flags(12, 4, FAN_WELCOME_NUMBERS);
	struct fan_op op = rig_int_sum(in, out, 4 * 16);
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	rig.now_ns += 20000;
	assert_int_equal(rig_pace(3, 4), FAN_CTL); /* it has sent nothing */
	rig.now_ns += FAN_RTO_MIN_NS - 40000;
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(rig_pace(3, FAN_GAP_RESULTS), FAN_CTL);
	assert_true(rig_tick() > 0);
	assert_int_equal(rig.got[0].type, FAN_TYPE_PROBE);
}

/* A result of `frag`, marked or not; how many contributions follow. */
static unsigned result(uint64_t frag, uint16_t flags)
{
	static const int32_t sum[16];
	struct fan_frag r = rig_frag(FAN_TYPE_RESULT, frag);
	r.count = 16;
	r.dtype = FAN_INT32;
	r.flags = (uint16_t)(flags | (frag ? 0 : FAN_F_FIRST));
	r.payload = (const uint8_t *)sum;
	r.payload_bytes = sizeof sum;
	rig.now_ns += 1000;
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	return contributions();
}

/* A marked result of fragment `frag`, of many; how many contributions follow. */
static unsigned marked_result(uint64_t frag)
{
	return result(frag, FAN_F_ECN);
}

/* Where queues are marked, no further ahead than what may be under way. */
TEST_WITH(ahead__marks_shorten_the_lead, rig_open, rig_close)
{
	static int32_t in[4096 * 16], out[4096 * 16];
	const struct fan_worker_stats *st;
	rig_ahead(4096, 8);
	struct fan_op op = rig_int_sum(in, out, 4096 * 16);
	rig_start(&op);
	unsigned sent = contributions(), before;
	for (unsigned n = sent; n; sent += n) {
		rig.now_ns += 20000;
		rig_pace(sent - 1, (uint16_t)sent);
		n = sent < 400 ? contributions() : 0;
	}
	before = sent;
	unsigned held = before / 2 - 20; /* the first one halves it */
	for (unsigned frag = 0; frag < held; frag++)
		sent += marked_result(frag);
	assert_int_equal(sent, before);
	for (unsigned frag = held; frag < sent && frag < 1000; frag++)
		sent += marked_result(frag);
	assert_true(sent > before);
	for (unsigned i = 0; i < 8; i++) { /* all have arrived, and wait for the slowest */
		st = fan_worker_stats(rig.w);
		rig_pace(sent - 1, (uint16_t)(st->next - st->slowest));
		sent += contributions();
	}
	assert_int_equal(fan_worker_stats(rig.w)->cwnd, 2);
	st = fan_worker_stats(rig.w);
	assert_in_range(st->next - st->slowest, 2, 8);
}

/* All that has been sent has arrived, `flags` say where, and the slowest rank has sent nothing
 * beyond `slowest`: how many contributions follow. */
static unsigned arrived(uint64_t slowest, uint16_t flags)
{
	const uint64_t next = fan_worker_stats(rig.w)->next;
	rig.now_ns += 20000;
	if (flags)
		unaggregated(next - 1, (uint16_t)(next - slowest), flags);
	else
		assert_int_equal(rig_pace(next - 1, (uint16_t)(next - slowest)), FAN_CTL);
	return contributions();
}

/* Give the result of the lowest fragment `low`, of all in turn, `n` times. */
static uint64_t results(uint64_t low, unsigned n)
{
	while (n--)
		result(low++, 0);
	return low;
}

/* Until contribution `until` is sent, no more wait for results than the congestion window, though
 * all have arrived and all ranks are as far.  From the lowest, `low`, which is what it is then. */
static uint64_t in_step(uint64_t low, uint64_t until)
{
	while (fan_worker_stats(rig.w)->next < until) {
		const unsigned more = arrived(fan_worker_stats(rig.w)->next - 1, 0);
		const struct fan_worker_stats *st = fan_worker_stats(rig.w);
		if (st->next < until && more)
			assert_true(st->next - low <= st->cwnd);
		low = results(low, 1);
	}
	return low;
}

/* Where queues are marked, a first while, and as long as contributions find no slots. */
TEST_WITH(ahead__in_step_where_slots_are_scarce, rig_open, rig_close)
{
	static int32_t in[8192 * 16], out[8192 * 16];
	rig_ahead(8192, 8);
	struct fan_op op = rig_int_sum(in, out, 8192 * 16);
	rig_start(&op);
	assert_int_equal(contributions(), 8);
	assert_int_equal(arrived(0, FAN_F_AWAY), 8); /* without marks it runs ahead */
	assert_int_equal(arrived(0, 0), 8);
	marked_result(0);
	uint64_t low = in_step(1, 24 + 4 * 8); /* a first while, with 24 sent before */
	assert_true(arrived(low, 0) > 0);      /* and then it runs ahead again */
	low = results(low, (unsigned)(fan_worker_stats(rig.w)->next - low - 4));
	uint64_t sent = fan_worker_stats(rig.w)->next;
	arrived(low, FAN_F_AWAY);
	low = in_step(low, sent + 64 * 8);
	assert_true(arrived(low, 0) > 0); /* all since have had their slots */
}

/* Results wait for others, and what has arrived is told by PROGRESS. */
TEST_WITH(ahead__runs_ahead, rig_open, rig_close)
{
	static int32_t in[16 * 16], out[16 * 16];
	rig_ahead(12, 4);
	struct fan_op op = rig_int_sum(in, out, 16 * 16); /* 16 fragments */
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	for (unsigned i = 0; i < 4; i++) /* the last one that may go asks */
		assert_int_equal(rig.got[i].flags & FAN_F_ASK, i == 3 ? FAN_F_ASK : 0);
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(rig_pace(3, 4), FAN_CTL);
	assert_int_equal(rig_tick(), 4);
	assert_int_equal(rig_pace(5, 6), FAN_CTL);
	assert_int_equal(rig_tick(), 2);
	assert_int_equal(rig.got[1].frag, 9);
	assert_int_equal(rig_pace(11, 0), FAN_DROP); /* has not been sent */
	assert_int_equal(rig_pace(9, 10), FAN_CTL);
	assert_int_equal(rig_tick(), 2); /* the window rule: W beyond what is finished */
	assert_int_equal(rig.got[1].frag, 11);
}

/* Where many are in flight, a timer asks for a few of the oldest, the lowest and the newest. */
TEST_WITH(ahead__asks_little, rig_open, rig_close)
{
	static int32_t in[16 * 16], out[16 * 16];
	rig_ahead(12, 8);
	struct fan_op op = rig_int_sum(in, out, 16 * 16);
	rig_start(&op);
	assert_int_equal(rig_tick(), 8);
	rig_pace(7, 8);
	assert_int_equal(rig_tick(), 4);
	rig.now_ns += 30 * FAN_MS;
	assert_int_equal(rig_tick(), 9); /* the lowest is one of the eight oldest */
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(rig.got[i].type, FAN_TYPE_PROBE);
	assert_int_equal(rig.got[0].frag, 0);
	assert_true(rig.got[0].flags & FAN_F_INSIST);
	assert_int_equal(rig.got[8].frag, 11);
	assert_true(rig.got[8].flags & FAN_F_INSIST);
}

TEST_WITH(ahead__pace_where_nobody_runs_ahead, rig_open, rig_close)
{
	static int32_t in[16 * 16], out[16 * 16];
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16 * 16);
	rig_start(&op);
	rig_tick();
	assert_int_equal(rig.got[3].flags & FAN_F_ASK, 0);
	assert_int_equal(rig_pace(3, 0), FAN_DROP);
	assert_int_equal(rig_tick(), 0);
}

/* ---- in_step ---- */

#define WINDOW 512
#define PARTS  4

static void even(struct fan_in_step_part part[PARTS], double left)
{
	for (unsigned i = 0; i < PARTS; i++)
		part[i] = (struct fan_in_step_part){
			.share = 1.0 / PARTS, .left = left, .window = WINDOW};
}

TEST(in_step__all_have_as_much_left)
{
	struct fan_in_step_part part[PARTS];
	even(part, 1000);
	fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS);
	for (unsigned i = 0; i < PARTS; i++)
		assert_int_equal(part[i].allow, FAN_IN_STEP_FRAGS);
}

TEST(in_step__who_is_ahead_has_less_in_flight)
{
	struct fan_in_step_part part[PARTS];
	even(part, 1000);
	part[1].left -= 10;
	part[2].left -= FAN_IN_STEP_FRAGS + 1;
	fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS);
	assert_int_equal(part[0].allow, FAN_IN_STEP_FRAGS);
	assert_int_equal(part[1].allow, FAN_IN_STEP_FRAGS - 10);
	assert_int_equal(part[2].allow, 0);
	assert_int_equal(part[3].allow, FAN_IN_STEP_FRAGS);
}

TEST(in_step__in_fragments_of_its_share)
{
	/* both have half of their shares left */
	struct fan_in_step_part part[2] = {
		{.share = 0.75, .left = 750, .window = WINDOW},
		{.share = 0.25, .left = 250, .window = WINDOW},
	};
	fan_in_step_bound(part, 2, 48);
	assert_int_equal(part[0].allow, 36);
	assert_int_equal(part[1].allow, 12);
}

TEST(in_step__one_window_for_all)
{
	struct fan_in_step_part part[PARTS];
	even(part, 1000);
	fan_in_step_bound(part, PARTS, 1e6);
	for (unsigned i = 0; i < PARTS; i++)
		assert_int_equal(part[i].allow, WINDOW / PARTS);
}

TEST(in_step__a_small_share_has_the_least_bound)
{
	struct fan_in_step_part part[2] = {
		{.share = 0.999, .left = 999, .window = WINDOW},
		{.share = 0.001, .left = 1, .window = WINDOW},
	};
	fan_in_step_bound(part, 2, 48);
	assert_int_equal(part[1].allow, FAN_IN_STEP_LEAST);
}

TEST(in_step__without_others_a_window)
{
	struct fan_in_step_part part[2] = {
		{.share = 1, .left = 1000, .window = WINDOW},
		{.share = 0, .left = 5, .window = WINDOW}, /* of operations before */
	};
	fan_in_step_bound(part, 2, 24);
	assert_int_equal(part[0].allow, WINDOW);
	assert_int_equal(part[1].allow, FAN_IN_STEP_LEAST);
}

/* No part has more than it may have in flight: one that is ahead has less of both. */
TEST(in_step__the_end_is_where_all_may_be_in_flight)
{
	struct fan_in_step_part part[PARTS];
	even(part, FAN_IN_STEP_FRAGS);
	part[1].left = 3;
	assert_true(fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS));
	part[2].left++;
	assert_false(fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS));
	even(part, 0);
	assert_true(fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS));
	assert_true(fan_in_step_rto_ms(true) < fan_in_step_rto_ms(false));
}

/* Whatever each rank may have in flight, and wherever it is. */
TEST(in_step__sends_end_where_blocks_do)
{
	const uint32_t block = 45;
	for (uint64_t done = 1; done < 3 * block; done++)
		for (uint32_t allow = 0; allow < 3 * block; allow++) {
			const uint32_t now = fan_in_step_block(allow, block, done, 1);
			assert_true(!now || (done + now) % block == 0);
			assert_in_range(now + block / 2, allow < block / 2 ? 0 : allow - block / 2,
					allow + block);
		}
	assert_int_equal(fan_in_step_block(24, block, 0, 0), block);
	assert_int_equal(fan_in_step_block(24, block, 22, block - 22), block - 22);
	assert_int_equal(fan_in_step_block(24, block, 44, 1), 1 + block);
}

/* Nothing is in flight: a bound below a block may not cut it. */
TEST(in_step__who_waits_for_nothing_sends_to_the_end_of_a_block)
{
	assert_int_equal(fan_in_step_block(0, 45, 90, 1), 0);
	assert_int_equal(fan_in_step_block(0, 45, 90, 0), 45);
	assert_int_equal(fan_in_step_block(0, 45, 100, 0), 35);
	assert_int_equal(fan_in_step_block(0, 1, 7, 0), 1);
}

/* ---- priority ---- */

static uint8_t of(uint64_t left, uint64_t busy, uint64_t idle, uint32_t layer)
{
	const struct fan_priority_view v = {
		.left_frags = left, .busy_ns = busy, .idle_ns = idle, .layer = layer};
	return fan_priority_default(NULL, &v);
}

TEST(priority__a_doubling_is_eight)
{
	assert_int_equal(of(100, 0, 0, 0) - of(200, 0, 0, 0), 8);
	assert_int_equal(of(100, 2000, 1000, 0) - of(100, 1000, 1000, 0), 8);
	assert_int_equal(of(100, 0, 0, 3) - of(100, 0, 0, 6), 8);
}

TEST(priority__order)
{
	for (uint64_t left = 1; left < 100000; left = left * 3 / 2 + 1)
		assert_true(of(left, 5, 5, 1) >= of(left + left / 2 + 1, 5, 5, 1));
	assert_true(of(64, 9000, 1000, 4) > of(64, 1000, 9000, 4)); /* waits for the network */
	assert_true(of(64, 1, 1, 1) > of(64, 1, 1, 50));	    /* the first layers */
}

TEST(priority__range)
{
	assert_int_equal(of(UINT64_MAX, 1, UINT64_MAX, UINT32_MAX), 1);
	assert_int_equal(of(1, UINT64_MAX, 1, 1), 255);
	assert_in_range(of(0, 0, 0, 0), 1, 255);
}

UNIT_MAIN
