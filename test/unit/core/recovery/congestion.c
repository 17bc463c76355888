/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/recovery/congestion.h"

/* `windows` windows in which `lost` of every 100 fragments are lost. */
static void run(struct fan_congestion *c, unsigned windows, unsigned lost)
{
	for (unsigned i = 0; i < windows; i++) {
		for (uint32_t n = c->cwnd; n; n--) {
			if (n % 100 < lost)
				fan_congestion_lost(c, 0);
			else
				fan_congestion_done(c, 0, 0);
		}
	}
}

TEST(congestion__starts_with_the_grant)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 512);
	assert_int_equal(c.cwnd, 512);
	run(&c, 10, 0);
	assert_int_equal(c.cwnd, 512); /* never more than the switch granted */
}

TEST(congestion__noise_is_borne)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 500);
	run(&c, 20, 10);
	assert_int_equal(c.cwnd, 500);
}

TEST(congestion__halves_once_a_window)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 400);
	for (unsigned i = 0; i < 399; i++)
		fan_congestion_lost(&c, 0);
	assert_int_equal(c.cwnd, 400);
	fan_congestion_lost(&c, 0);
	assert_int_equal(c.cwnd, 200);
}

/* Losses in plenty say that queues overflow, until the window is whole again; marks do not. */
TEST(congestion__crowded)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 64);
	fan_congestion_marked(&c, 0);
	assert_int_equal(c.cwnd, 32);
	assert_false(c.crowded);
	run(&c, 1, 100);
	assert_true(c.crowded);
	run(&c, 40, 0);
	assert_true(c.crowded);
	run(&c, 60, 0);
	assert_int_equal(c.cwnd, 64);
	assert_false(c.crowded);
}

TEST(congestion__floor_and_recovery)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 256);
	run(&c, 50, 100);
	assert_int_equal(c.cwnd, 2);
	uint32_t last = c.cwnd;
	for (unsigned i = 0; i < 100; i++) {
		run(&c, 1, 0);
		assert_true(c.cwnd >= last && c.cwnd <= 256);
		last = c.cwnd;
	}
	assert_int_equal(c.cwnd, 256);
}

/* Even a window of one keeps going. */
TEST(congestion__smallest_window)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 1);
	run(&c, 9, 100);
	assert_int_equal(c.cwnd, 1);
	run(&c, 9, 0);
	assert_int_equal(c.cwnd, 1);
}

/* A collision halves the window at once; from then on each result makes it larger. */
TEST(congestion__collisions)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 64);
	run(&c, 3, 0);
	fan_congestion_collided(&c, 0);
	assert_int_equal(c.cwnd, 32);
	assert_false(c.crowded); /* queues are not full */
	for (unsigned i = 0; i < 8; i++)
		fan_congestion_done(&c, 0, 0);
	assert_int_equal(c.cwnd, 40);
	fan_congestion_collided(&c, 0);
	fan_congestion_collided(&c, 0);
	assert_int_equal(c.cwnd, 10);
	run(&c, 20, 0);
	assert_int_equal(c.cwnd, 64);
	for (unsigned i = 0; i < 10; i++)
		fan_congestion_collided(&c, 0);
	assert_int_equal(c.cwnd, 2);
}

TEST(congestion__marks_count_once_a_window)
{
	struct fan_congestion c;
	fan_congestion_init(&c, FAN_CONGESTION_FANIN, 64);
	fan_congestion_marked(&c, 0);
	assert_int_equal(c.cwnd, 32);
	for (unsigned i = 0; i < 64; i++) { /* results of the window that was out */
		fan_congestion_marked(&c, 0);
		assert_in_range(c.cwnd, 32, 34);
		fan_congestion_done(&c, 0, 0);
	}
	fan_congestion_marked(&c, 0);
	assert_in_range(c.cwnd, 16, 17);
	uint32_t before = c.cwnd;
	for (unsigned i = 0; i < before; i++)
		fan_congestion_done(&c, 0, 0);
	assert_int_equal(c.cwnd, before + 1); /* from then on slowly */
}

/* ---- A2TP ---- */

/* A window of results that come `gap_ns` apart, the first `marked` of them marked and the first
 * `taken` with a slot that was taken; an idle round trip is 100 ns. */
static void pass_window(struct fan_congestion *c, uint64_t *now_ns, uint64_t gap_ns,
			uint32_t marked, uint32_t taken)
{
	for (uint32_t n = 0, all = c->cwnd; n < all; n++) {
		*now_ns += gap_ns;
		if (n < marked)
			fan_congestion_marked(c, *now_ns);
		if (n < taken)
			fan_congestion_taken(c, *now_ns);
		fan_congestion_done(c, *now_ns, 100);
	}
}

/* Fragments of the next `count` that may take slots. */
static uint32_t in_slots(struct fan_congestion *c, uint32_t count)
{
	uint32_t n = 0;
	while (count--)
		n += fan_congestion_takes_slot(c);
	return n;
}

/* Marks: alpha is 1/8, then 1/8 + 7/64, of the window. */
TEST(a2tp__marks_shrink_by_their_share)
{
	struct fan_congestion c;
	uint64_t now_ns = 0;
	fan_congestion_init(&c, FAN_CONGESTION_A2TP, 160);
	pass_window(&c, &now_ns, 1, 160, 0);
	assert_int_equal(c.cwnd, 150); /* 160 (1 - 1/16) */
	assert_true(c.marks);
	pass_window(&c, &now_ns, 1, 150, 0);
	assert_int_equal(c.cwnd, 132); /* 150 (1 - 15/128) */
	pass_window(&c, &now_ns, 1, 0, 0);
	assert_int_equal(c.cwnd, 133);
	assert_int_equal(in_slots(&c, 500), 500); /* no slot was taken */
	assert_false(c.crowded);
}

/* Slots that are taken shrink the window for slots alone, once beta exceeds 0.1: all results of a
 * rank that is itself the last come promptly, so that gamma is 1. */
TEST(a2tp__taken_slots_shrink_the_window_for_slots)
{
	struct fan_congestion c;
	uint64_t now_ns = 0;
	fan_congestion_init(&c, FAN_CONGESTION_A2TP, 100);
	pass_window(&c, &now_ns, 1, 0, 80); /* beta: 0.1 */
	assert_int_equal(c.cwnd, 100);
	assert_int_equal(in_slots(&c, 300), 300);
	pass_window(&c, &now_ns, 1, 0, 100); /* 0.2125; 100 (1 - 0.1125 / 1.9) = 94.1 */
	assert_int_equal(in_slots(&c, 300), 94);
	pass_window(&c, &now_ns, 1, 0, 0); /* one more a window */
	assert_int_equal(in_slots(&c, 300), 95);
	assert_int_equal(c.cwnd, 100);
}

/* A rank that waits for a slower one has few results within a round trip: gamma falls, and with it
 * what (beta - 0.1)^gamma leaves of the window. */
TEST(a2tp__who_waits_for_stragglers_gives_slots_up)
{
	uint32_t left[2];
	for (unsigned slow = 0; slow < 2; slow++) {
		struct fan_congestion c;
		uint64_t now_ns = 0;
		fan_congestion_init(&c, FAN_CONGESTION_A2TP, 100);
		for (unsigned i = 0; i < 100; i++)
			pass_window(&c, &now_ns, slow ? 10 : 1, 0, 0);
		pass_window(&c, &now_ns, slow ? 10 : 1, 0, 100);
		left[slow] = in_slots(&c, 300);
	}
	assert_int_equal(left[0], 98);	  /* 100 (1 - 0.025 / 1.9) */
	assert_in_range(left[1], 80, 85); /* gamma is 0.29: 100 (1 - 0.34 / 1.9) = 82 */
}

TEST(a2tp__keeps_within_bounds)
{
	struct fan_congestion c;
	uint64_t now_ns = 0;
	fan_congestion_init(&c, FAN_CONGESTION_A2TP, 64);
	for (unsigned i = 0; i < 200; i++) {
		pass_window(&c, &now_ns, 10, 1000, 1000);
		fan_congestion_check(&c);
	}
	assert_int_equal(c.cwnd, 2);
	assert_int_equal(in_slots(&c, 300), 1);
	assert_false(c.crowded);
	run(&c, 40, 0);
	run(&c, 1, 5);
	assert_false(c.crowded);
	run(&c, 1, 100);
	assert_true(c.crowded); /* by losses alone, and many */
	run(&c, 62, 0);
	assert_int_equal(c.cwnd, 64);
	assert_false(c.crowded);
	fan_congestion_init(&c, FAN_CONGESTION_A2TP, 1);
	run(&c, 9, 100);
	assert_int_equal(c.cwnd, 1);
}

UNIT_MAIN
