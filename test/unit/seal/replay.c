/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "seal/replay.h"

static struct fan_replay r;

static bool comes(uint64_t counter, uint64_t window)
{
	if (fan_replay_counter(&r, (uint32_t)counter) != counter)
		return false;
	if (!fan_replay_is_new(&r, counter, window))
		return false;
	fan_replay_note(&r, counter);
	return true;
}

static void replay__each_counter_comes_once(void **state)
{
	(void)state;
	memset(&r, 0, sizeof r);
	assert_false(comes(0, 1024)); /* is nobody's */
	for (uint64_t n = 1; n <= 3000; n++)
		assert_true(comes(n, 1024));
	for (uint64_t n = 1; n <= 3000; n++)
		assert_false(comes(n, 1024));
}

static void replay__late_ones_come_within_the_window(void **state)
{
	(void)state;
	const uint64_t window[] = {FAN_REPLAY_UP, FAN_REPLAY_DOWN};
	for (unsigned i = 0; i < 2; i++) {
		memset(&r, 0, sizeof r);
		assert_true(comes(10000, window[i]));
		assert_false(comes(10000 - window[i], window[i]));
		assert_true(comes(10000 - window[i] + 1, window[i]));
		assert_false(comes(10000 - window[i] + 1, window[i]));
		assert_true(comes(9999, window[i]));
	}
}

/* As a list of all that has come would say, whatever the order. */
static void replay__as_a_list_would_say(void **state)
{
	(void)state;
	enum { COUNT = 100000 };
	static bool has[COUNT];
	struct fan_rng rng = test_rng();
	uint64_t highest = 0;
	memset(&r, 0, sizeof r);
	memset(has, 0, sizeof has);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t back = fan_rng_below(&rng, 3000), jump = fan_rng_below(&rng, 40);
		if (fan_rng_below(&rng, 5000) == 0)
			jump = 5000;
		uint64_t n = rng.state & 1 || highest < back ? highest + jump : highest - back;
		if (n >= COUNT)
			break;
		bool want = n > highest || (n && highest - n < 1024 && !has[n]);
		assert_int_equal(comes(n, 1024), want);
		if (want)
			has[n] = true;
		highest = n > highest ? n : highest;
	}
	assert_in_range(highest, 50000, COUNT);
}

static void replay__upper_bits_follow_from_what_has_come(void **state)
{
	(void)state;
	memset(&r, 0, sizeof r);
	fan_replay_note(&r, UINT64_C(0xfffffffe));
	assert_true(comes(UINT64_C(0x100000001), 1024));
	assert_true(comes(UINT64_C(0xffffffff), 1024));
	assert_true(comes(UINT64_C(0x100000000), 1024));
	assert_false(comes(UINT64_C(0xffffffff), 1024));
	memset(&r, 0, sizeof r);
	assert_true(fan_replay_counter(&r, UINT32_MAX) == UINT32_MAX); /* none below 0 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay__each_counter_comes_once),
		cmocka_unit_test(replay__late_ones_come_within_the_window),
		cmocka_unit_test(replay__as_a_list_would_say),
		cmocka_unit_test(replay__upper_bits_follow_from_what_has_come),
	};
	return RUN(tests);
}
