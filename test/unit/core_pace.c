/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pace.h"

static struct fan_pace pace;

static int clear(void **state)
{
	(void)state;
	memset(&pace, 0, sizeof pace);
	return 0;
}

static void pace__notes_the_highest(void **state)
{
	(void)state;
	fan_pace_note(&pace, 0, 7);
	fan_pace_note(&pace, 0, 3); /* sent again */
	fan_pace_note(&pace, 1, 9);
	assert_int_equal(pace.next[0], 8);
	assert_int_equal(pace.front, 10);
	assert_int_equal(fan_pace_slowest(&pace, 2), 8);
	assert_int_equal(fan_pace_slowest(&pace, 3), 0); /* nothing of rank 2 yet */
}

static void pace__answer_and_what_it_says(void **state)
{
	(void)state;
	for (uint16_t r = 0; r < 3; r++)
		fan_pace_note(&pace, r, 100 + 50 * r);
	const struct fan_frag asked = {
		.job = 0x100, .epoch = 9, .frag = 150, .sender = 1, .type = FAN_TYPE_DATA};
	struct fan_frag f = fan_pace_answer(&pace, 3, &asked), got;
	uint8_t head[FAN_HEAD_BYTES];
	fan_wire_put(head, &f);
	assert_int_equal(fan_wire_get(&got, head, sizeof head), -1);
	assert_int_equal(got.type, FAN_TYPE_PACE);
	assert_int_equal(got.sender, FAN_RANK_NONE);
	assert_int_equal(got.frag, 150);
	assert_int_equal(got.count, 50);
	assert_int_equal(got.exponent, 50);
	assert_int_equal(fan_pace_heard(&got), 101);
}

/* The slowest may be before the one who asks, or too far behind for the field. */
static void pace__ends_of_the_range(void **state)
{
	(void)state;
	fan_pace_note(&pace, 0, 500);
	fan_pace_note(&pace, 1, 400000);
	struct fan_frag asked = {.frag = 10};
	struct fan_frag f = fan_pace_answer(&pace, 2, &asked);
	assert_int_equal(f.count, 0);
	assert_int_equal((uint16_t)f.exponent, UINT16_MAX);
	assert_int_equal(fan_pace_heard(&f), 11);
	asked.frag = 400000;
	f = fan_pace_answer(&pace, 2, &asked);
	assert_int_equal(f.count, UINT16_MAX);
	assert_int_equal(fan_pace_heard(&f), 400001 - UINT16_MAX);
	f.frag = 7; /* more behind than there are fragments: a lie */
	assert_int_equal(fan_pace_heard(&f), 0);
}

static void pace__how_a_rank_stands(void **state)
{
	(void)state;
	struct fan_standing s = {.flags = 0};
	fan_pace_note(&pace, 0, 99);
	fan_pace_note(&pace, 1, 20); /* heard of for the first time: it may have begun late */
	fan_pace_standing(&pace, 1, &s);
	assert_int_equal(s.behind, 79);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, FAN_RANK_STRAGGLES);
	fan_pace_note(&pace, 1, 97);
	fan_pace_note(&pace, 1, 60); /* sent again */
	s.flags = 0;
	fan_pace_standing(&pace, 1, &s);
	assert_int_equal(s.behind, 2);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, 0);
	fan_pace_note(&pace, 0, 200000);
	fan_pace_standing(&pace, 1, &s);
	assert_int_equal(s.behind, UINT16_MAX);
	fan_pace_standing(&pace, 0, &s);
	assert_int_equal(s.behind, 0);
	assert_int_equal(s.most, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pace__notes_the_highest, clear),
		cmocka_unit_test_setup(pace__answer_and_what_it_says, clear),
		cmocka_unit_test_setup(pace__ends_of_the_range, clear),
		cmocka_unit_test_setup(pace__how_a_rank_stands, clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
