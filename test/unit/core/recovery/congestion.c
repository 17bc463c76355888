/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/recovery/congestion.h"

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

/* Losses in plenty say that queues overflow, until the window is whole again; marks do not. */
static void congestion__crowded(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 64);
	fan_congestion_marked(&c);
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

/* A collision halves the window at once; from then on each result makes it larger. */
static void congestion__collisions(void **state)
{
	(void)state;
	struct fan_congestion c;
	fan_congestion_init(&c, 64);
	run(&c, 3, 0);
	fan_congestion_collided(&c);
	assert_int_equal(c.cwnd, 32);
	assert_false(c.crowded); /* queues are not full */
	for (unsigned i = 0; i < 8; i++)
		fan_congestion_done(&c);
	assert_int_equal(c.cwnd, 40);
	fan_congestion_collided(&c);
	fan_congestion_collided(&c);
	assert_int_equal(c.cwnd, 10);
	run(&c, 20, 0);
	assert_int_equal(c.cwnd, 64);
	for (unsigned i = 0; i < 10; i++)
		fan_congestion_collided(&c);
	assert_int_equal(c.cwnd, 2);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(congestion__collisions),
		cmocka_unit_test(congestion__starts_with_the_grant),
		cmocka_unit_test(congestion__noise_is_borne),
		cmocka_unit_test(congestion__halves_once_a_window),
		cmocka_unit_test(congestion__crowded),
		cmocka_unit_test(congestion__floor_and_recovery),
		cmocka_unit_test(congestion__smallest_window),
		cmocka_unit_test(congestion__marks_count_once_a_window),
	};
	return RUN(tests);
}
