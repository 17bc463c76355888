/* SPDX-License-Identifier: Apache-2.0 */
/* What is lost shows by its number, in both directions. */
#include "unit/core/worker_rig.h"

/* The switch has not heard these of this rank's numbers: bit i, number `at` - i. */
static enum fan_verdict missed(uint16_t at, uint64_t which)
{
	struct fan_frag f = rig_frag(FAN_TYPE_MISS, 0);
	f.missing = which;
	f.last = at;
	return rig_recv(&f, false);
}

TEST_WITH(seq__of_what_is_sent, rig_open, rig_close)
{
	int32_t in[64] = {0}, out[64];
	rig_ready_numbered(4);
	struct fan_op op = rig_int_sum(in, out, 64);
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.got[i].seq, i + 1);
	assert_int_equal(missed(4, 1 << 2), FAN_ASK); /* number 2 */
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 1);
	assert_int_equal(rig.got[0].type, FAN_TYPE_DATA);
	assert_false(rig.got[0].flags & FAN_F_DIRECT); /* it has never been with others */
	assert_int_equal(rig.got[0].seq, 5);
	assert_int_equal(missed(5, 1 << 3), FAN_DROP); /* asked again: it has another number now */
	assert_int_equal(missed(5, 1), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(missed(6, 1), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].seq, 7);
	assert_int_equal(missed(7, 1),
			 FAN_DROP); /* that often and no more: what comes late is no loss */
	assert_int_equal(missed(3, 7), FAN_ASK); /* the others; 2 is over */
	assert_int_equal(rig_tick(), 2);
	assert_int_equal(missed(200, UINT64_MAX), FAN_DROP); /* never sent */
	rig.now_ns += FAN_RTO_MAX_NS;
	assert_in_range(rig_tick(), 1, 4);
	assert_int_equal(rig.got[0].type, FAN_TYPE_PROBE);
	uint16_t number = rig.got[0].seq;
	assert_int_equal(number, 10);
	assert_int_equal(missed(number, 1), FAN_DROP); /* the timer sees to probes */
	assert_int_equal(fan_worker_stats(rig.w)->resent, 5);
}

TEST_WITH(seq__not_asked_for, rig_open, rig_close)
{
	int32_t in[16] = {0}, out[16];
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].seq, 0);
	assert_int_equal(missed(1, 1), FAN_DROP);
	assert_int_equal(rig_tick(), 0);
}

/* Result `number` comes, of contribution `frag` of 16 zeros; what is sent then. */
static unsigned heard(uint16_t number, uint64_t frag, bool again)
{
	static const int32_t sum[16];
	const struct fan_op op = rig_int_sum(NULL, NULL, 512);
	struct fan_frag f = rig_frag(FAN_TYPE_RESULT, frag);
	f.flags = (uint16_t)((frag == 0 ? FAN_F_FIRST : 0) | (frag == 31 ? FAN_F_LAST : 0) |
			     (again ? FAN_F_REPLAY : 0));
	f.seq = number;
	f.count = 16;
	f.dtype = (uint8_t)op.dtype;
	f.op = FAN_SUM;
	f.payload = (const uint8_t *)sum;
	f.payload_bytes = sizeof sum;
	assert_int_equal(rig_recv(&f, true), FAN_DONE);
	return rig_tick();
}

/* A window of `window`, and an operation of 32 fragments that has begun. */
static void begin(uint16_t window)
{
	static int32_t in[512], out[512];
	rig.cfg.window_max = window;
	free(rig.mem);
	rig.mem = aligned_alloc(64, (fan_worker_bytes(&rig.cfg) + 63) / 64 * 64);
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
	rig_ready_numbered(window);
	struct fan_op op = rig_int_sum(in, out, 512);
	rig_start(&op);
	while (rig_tick())
		;
}

/* Packet `i` of the last tick asks for these results: bit k, number `at` - k. */
static void assert_asks(unsigned i, uint16_t at, uint64_t which)
{
	assert_int_equal(rig.got[i].type, FAN_TYPE_MISS);
	assert_int_equal(rig.got[i].sender, 1);
	assert_int_equal(rig.got[i].last, at);
	assert_int_equal(rig.got[i].missing, which);
}

TEST_WITH(seq__results_that_are_missing, rig_open, rig_close)
{
	begin(32);
	assert_int_equal(heard(0, 0, false), 0);
	assert_int_equal(heard(6, 6, false), 1); /* 1 to 5 are not there; 3 are overtaken by 3 */
	assert_asks(0, 3, 7);
	assert_int_equal(heard(3, 3, true), 0);
	assert_int_equal(heard(7, 7, false), 1);
	assert_asks(0, 4, 1);
	assert_int_equal(heard(16, 16, false), 2); /* seven more, four at a time */
	assert_asks(0, 13, 15);
	assert_asks(1, 9, 1 | 1 << 1 | 1 << 4);
}

/* What was sent after the question has been answered, and the question has not. */
/* A MISS has bits for 64 numbers: one that is 64 before the first has no place in it. */
TEST_WITH(seq__as_many_as_a_word_has_bits, rig_open, rig_close)
{
	begin(32);
	for (unsigned i = 0; i < 3; i++)
		rig.w->ask[i] =
			(struct fan_lost_result){.number = (uint16_t)(164 - 32 * i), .tries = 1};
	rig.w->ask_first = rig.w->asked = 0;
	rig.w->asks = 3;
	assert_int_equal(rig_tick(), 2);
	assert_asks(0, 164, 1 | UINT64_C(1) << 32);
	assert_asks(1, 100, 1);
}

TEST_WITH(seq__asked_again, rig_open, rig_close)
{
	begin(8);
	assert_int_equal(heard(0, 0, false), 1);
	assert_int_equal(heard(4, 4, false), 2);
	assert_asks(0, 1, 1);
	assert_int_equal(rig.got[1].frag, 12); /* right behind it */
	assert_int_equal(heard(5, 5, false), 2);
	assert_asks(0, 2, 1);
	assert_int_equal(heard(6, 6, false), 2);
	assert_asks(0, 3, 1);
	assert_int_equal(heard(7, 7, false), 1);
	assert_int_equal(heard(2, 2, true), 1);
	assert_int_equal(heard(8, 8, false), 1);
	for (uint16_t n = 9; n < 12; n++)
		assert_int_equal(heard(n, n + 3u, false), 1);
	assert_int_equal(heard(12, 15, false), 2); /* the third one behind it */
	assert_asks(0, 1, 1);
	assert_int_equal(heard(13, 10, false), 1);
	assert_int_equal(heard(14, 16, false), 2); /* the second has come */
	assert_asks(0, 3, 1);
}

/* Where queues are full, what is sent again at once is lost again. */
TEST_WITH(seq__nothing_under_congestion, rig_open, rig_close)
{
	begin(8);
	assert_int_equal(missed(8, 0xff), FAN_ASK); /* all: the congestion window is halved */
	rig_tick();
	assert_int_equal(missed(16, 1), FAN_DROP);
	heard(4, 4, false);
	for (unsigned i = 0; i < rig.gots; i++) /* the results between answer nothing by number */
		assert_int_not_equal(rig.got[i].type, FAN_TYPE_MISS);
}

/* Marks halve the congestion window before anything is lost: what is lost all the same, is lost
 * otherwise. */
TEST_WITH(seq__under_marks, rig_open, rig_close)
{
	begin(8);
	rig.marked = true;
	heard(0, 0, false);
	rig.marked = false;
	assert_int_equal(missed(3, 1), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 2);
	heard(4, 4, false);
	assert_asks(0, 1, 1);
}

/* Who is asked by number goes where its contribution should have gone; after a NEED, past all
 * slots, since others may wait in one for what has passed it. */
TEST_WITH(seq__direct_after_need, rig_open, rig_close)
{
	begin(8);
	struct fan_frag need = rig_frag(FAN_TYPE_NEED, 1);
	need.to = FAN_TAG(1);
	assert_int_equal(missed(2, 1), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 1);
	assert_false(rig.got[0].flags & FAN_F_DIRECT);
	assert_int_equal(rig_recv(&need, false), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
	assert_int_equal(missed(rig.got[0].seq, 1), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 1);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
}

/* Under run-ahead thousands are sent at a time, and their results come at another: what numbers
 * show as lost of the one says nothing of the window of the other. */
TEST_WITH(seq__run_ahead_counts_no_loss, rig_open, rig_close)
{
	static int32_t in[16 * 64], out[16 * 64];
	rig_ahead_flags(64, 16, FAN_WELCOME_NUMBERS);
	struct fan_op op = rig_int_sum(in, out, 16 * 64);
	rig_start(&op);
	assert_int_equal(rig_tick(), 16);
	for (unsigned i = 0; i < 2 * FAN_MISS_RESENDS; i++) {
		uint16_t at = rig.got[15].seq;
		assert_int_equal(missed(at, 0xffff), i < FAN_MISS_RESENDS ? FAN_ASK : FAN_DROP);
		if (i < FAN_MISS_RESENDS)
			assert_int_equal(rig_tick(), 16);
	}
	assert_int_equal(fan_worker_stats(rig.w)->cwnd, 16);
}

UNIT_MAIN
