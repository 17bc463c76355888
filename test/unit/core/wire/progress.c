/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/wire/progress.h"

static struct fan_progress progress;

static int clear(void **state)
{
	(void)state;
	memset(&progress, 0, sizeof progress);
	return 0;
}

static void progress__notes_the_highest(void **state)
{
	(void)state;
	fan_progress_note(&progress, 0, 7);
	fan_progress_note(&progress, 0, 3); /* sent again */
	fan_progress_note(&progress, 1, 9);
	assert_int_equal(progress.next[0], 8);
	assert_int_equal(progress.front, 10);
	assert_int_equal(fan_progress_slowest(&progress, 2), 8);
	assert_int_equal(fan_progress_slowest(&progress, 3), 0); /* nothing of rank 2 yet */
}

/* There is no fragment behind the last number: it turns nothing back. */
static void progress__the_last_number(void **state)
{
	(void)state;
	fan_progress_note(&progress, 0, 7);
	fan_progress_note(&progress, 1, UINT64_MAX);
	assert_int_equal(progress.front, 8);
	assert_int_equal(progress.next[1], 0);
	fan_progress_note(&progress, 1, UINT64_MAX - 1);
	assert_true(progress.front == UINT64_MAX && progress.next[1] == UINT64_MAX);
	assert_int_equal(fan_progress_behind(&progress, 0), UINT16_MAX);
}

static void progress__answer_and_what_it_says(void **state)
{
	(void)state;
	for (uint16_t r = 0; r < 3; r++)
		fan_progress_note(&progress, r, 100 + 50 * r);
	const struct fan_frag asked = {
		.job = 0x100, .epoch = 9, .frag = 150, .sender = 1, .type = FAN_TYPE_DATA};
	struct fan_frag f = fan_progress_answer(&progress, 3, &asked), got;
	uint8_t head[FAN_HEAD_BYTES];
	fan_wire_put(head, &f);
	assert_int_equal(fan_wire_get(&got, head, sizeof head), -1);
	assert_int_equal(got.type, FAN_TYPE_PROGRESS);
	assert_int_equal(got.sender, FAN_RANK_NONE);
	assert_int_equal(got.frag, 150);
	assert_int_equal(got.behind, 50);
	assert_int_equal(got.before, 50);
	assert_int_equal(fan_progress_heard(&got), 101);
}

/* The slowest may be before the one who asks, or too far behind for the field. */
static void progress__ends_of_the_range(void **state)
{
	(void)state;
	fan_progress_note(&progress, 0, 500);
	fan_progress_note(&progress, 1, 400000);
	struct fan_frag asked = {.frag = 10};
	struct fan_frag f = fan_progress_answer(&progress, 2, &asked);
	assert_int_equal(f.behind, 0);
	assert_int_equal(f.before, UINT16_MAX);
	assert_int_equal(fan_progress_heard(&f), 11);
	asked.frag = 400000;
	f = fan_progress_answer(&progress, 2, &asked);
	assert_int_equal(f.behind, UINT16_MAX);
	assert_int_equal(fan_progress_heard(&f), 400001 - UINT16_MAX);
	f.frag = 7; /* more behind than there are fragments: a lie */
	assert_int_equal(fan_progress_heard(&f), 0);
}

static void progress__how_a_rank_stands(void **state)
{
	(void)state;
	struct fan_standing s = {.flags = 0};
	fan_progress_note(&progress, 0, 99);
	fan_progress_note(&progress, 1,
			  20); /* heard of for the first time: it may have begun late */
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, 79);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, FAN_RANK_STRAGGLES);
	fan_progress_note(&progress, 1, 97);
	fan_progress_note(&progress, 1, 60); /* sent again */
	s.flags = 0;
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, 2);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, 0);
	fan_progress_note(&progress, 0, 200000);
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, UINT16_MAX);
	fan_progress_standing(&progress, 0, &s);
	assert_int_equal(s.behind, 0);
	assert_int_equal(s.most, 0);
}

static void progress__who_straggles(void **state)
{
	(void)state;
	fan_progress_note(&progress, 0, 0);
	fan_progress_note(&progress, 1, FAN_LAG_FRAGS - 1);
	assert_false(fan_progress_straggles(&progress, 0));
	fan_progress_note(&progress, 1, FAN_LAG_FRAGS);
	assert_true(fan_progress_straggles(&progress, 0));
	assert_false(fan_progress_straggles(&progress, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(progress__notes_the_highest, clear),
		cmocka_unit_test_setup(progress__the_last_number, clear),
		cmocka_unit_test_setup(progress__answer_and_what_it_says, clear),
		cmocka_unit_test_setup(progress__ends_of_the_range, clear),
		cmocka_unit_test_setup(progress__how_a_rank_stands, clear),
		cmocka_unit_test_setup(progress__who_straggles, clear),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
