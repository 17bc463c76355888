/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/congestion.h"

/* `windows` windows in which `lost` of every 100 fragments are lost. */
static void run(struct fan_congestion *c, unsigned windows, unsigned lost)
{
	for (unsigned i = 0; i < windows; i++) {
		for (uint32_t n = c->cwnd; n; n--) {
			if (n % 100 < lost)
				fan_congestion_lost(c);
			else
				fan_congestion_done(c);
		}
	}
}

static void congestion__starts_with_the_grant(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 512);
	assert_int_equal(c.cwnd, 512);
	run(&c, 10, 0);
	assert_int_equal(c.cwnd, 512); /* never more than the switch granted */
}

static void congestion__noise_is_borne(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 500);
	run(&c, 20, 10);
	assert_int_equal(c.cwnd, 500);
}

static void congestion__halves_once_a_window(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 400);
	for (unsigned i = 0; i < 399; i++)
		fan_congestion_lost(&c);
	assert_int_equal(c.cwnd, 400);
	fan_congestion_lost(&c);
	assert_int_equal(c.cwnd, 200);
}

static void congestion__floor_and_recovery(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 256);
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
static void congestion__smallest_window(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 1);
	run(&c, 9, 100);
	assert_int_equal(c.cwnd, 1);
	run(&c, 9, 0);
	assert_int_equal(c.cwnd, 1);
}

static void congestion__marks_count_once_a_window(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 64);
	fan_congestion_marked(&c);
	assert_int_equal(c.cwnd, 32);
	for (unsigned i = 0; i < 64; i++) { /* results of the window that was out */
		fan_congestion_marked(&c);
		assert_in_range(c.cwnd, 32, 34);
		fan_congestion_done(&c);
	}
	fan_congestion_marked(&c);
	assert_in_range(c.cwnd, 16, 17);
	uint32_t before = c.cwnd;
	for (unsigned i = 0; i < before; i++)
		fan_congestion_done(&c);
	assert_int_equal(c.cwnd, before + 1); /* from then on slowly */
}

static void pair(struct fan_congestion *c, unsigned windows, unsigned marked, unsigned taken,
		 bool prompt)
{
	for (unsigned i = 0; i < windows; i++) {
		for (uint32_t n = c->cwnd; n; n--) {
			fan_congestion_tell(c, n % 100 < marked, n % 100 < taken, prompt);
			fan_congestion_done(c);
		}
	}
}

static struct fan_congestion begin_pair(uint32_t max)
{
	struct fan_congestion c;
	fan_congestion_init(&c, max);
	fan_congestion_choose(&c, FAN_CONTROL_A2TP);
	return c;
}

/* aggr (1 - (beta - 0.1)^gamma / 1.9), computed by hand. */
static void congestion__a2tp_slots(void **state)
{
	(void)state;
	struct fan_congestion c = begin_pair(400);
	pair(&c, 1, 0, 0, true);
	assert_int_equal(c.aggr, 400);
	for (uint32_t n = 0; n < 400; n++) { /* all taken: beta = 1/8, gamma = 1 */
		fan_congestion_tell(&c, false, true, true);
		fan_congestion_done(&c);
	}
	assert_in_range(c.aggr, 394, 395); /* 400 (1 - 0.025 / 1.9) = 394.7 */
	assert_int_equal(c.cwnd, 400);
	uint32_t last = c.aggr;
	pair(&c, 1, 0, 5, true); /* beta = 0.116; few, but some */
	assert_in_range(c.aggr, last - 5, last - 1);
	last = c.aggr;
	pair(&c, 3, 0, 0, true);
	assert_int_equal(c.aggr, last + 3);
	pair(&c, 100, 0, 100, true); /* beta to 1: 1 - 0.9 / 1.9 each time */
	assert_int_equal(c.aggr, 1);
	assert_int_equal(c.cwnd, 400);
}

/* Who straggles has a small gamma, and (beta - 0.1)^gamma is larger with it: it leaves slots
 * to those that are in step. */
static void congestion__a2tp_stragglers_leave_slots(void **state)
{
	(void)state;
	struct fan_congestion slow = begin_pair(400), fast = begin_pair(400);
	pair(&slow, 64, 0, 0, false);
	pair(&fast, 64, 0, 0, true);
	assert_true(slow.gamma < 0.4F && fast.gamma > 0.99F);
	pair(&slow, 4, 0, 50, false);
	pair(&fast, 4, 0, 50, true);
	assert_true(slow.aggr < fast.aggr);
	assert_true(fast.aggr < 400);
}

static void congestion__a2tp_links(void **state)
{
	(void)state;
	struct fan_congestion c = begin_pair(400);
	pair(&c, 1, 50, 0, true); /* alpha = 1/16: 400 (1 - 1/32) */
	assert_in_range(c.cwnd, 386, 388);
	assert_true(c.aggr <= c.cwnd);
	uint32_t last = c.cwnd;
	pair(&c, 2, 0, 0, true);
	assert_int_equal(c.cwnd, last + 2);
	for (unsigned i = 0; i < 4000; i++) { /* losses count as marks */
		fan_congestion_lost(&c);
		fan_congestion_marked(&c); /* means nothing here */
	}
	assert_int_equal(c.cwnd, 2);
	assert_true(c.aggr >= 1 && c.aggr <= 2);
	pair(&c, 1000, 0, 0, true);
	assert_int_equal(c.cwnd, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(congestion__starts_with_the_grant),
		cmocka_unit_test(congestion__a2tp_slots),
		cmocka_unit_test(congestion__a2tp_stragglers_leave_slots),
		cmocka_unit_test(congestion__a2tp_links),
		cmocka_unit_test(congestion__noise_is_borne),
		cmocka_unit_test(congestion__halves_once_a_window),
		cmocka_unit_test(congestion__floor_and_recovery),
		cmocka_unit_test(congestion__smallest_window),
		cmocka_unit_test(congestion__marks_count_once_a_window),
	};
	return RUN(tests);
}
