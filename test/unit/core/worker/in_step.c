/* SPDX-License-Identifier: Apache-2.0 */
#include "core/worker/in_step.h"
#include "unit/unit.h"

#define WINDOW 512
#define PARTS  4

static void even(struct fan_in_step_part part[PARTS], double left)
{
	for (unsigned i = 0; i < PARTS; i++)
		part[i] = (struct fan_in_step_part){
			.share = 1.0 / PARTS, .left = left, .window = WINDOW};
}

static void in_step__all_have_as_much_left(void **state)
{
	struct fan_in_step_part part[PARTS];
	(void)state;
	even(part, 1000);
	fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS);
	for (unsigned i = 0; i < PARTS; i++)
		assert_int_equal(part[i].allow, FAN_IN_STEP_FRAGS);
}

static void in_step__who_is_ahead_has_less_in_flight(void **state)
{
	struct fan_in_step_part part[PARTS];
	(void)state;
	even(part, 1000);
	part[1].left -= 10;
	part[2].left -= FAN_IN_STEP_FRAGS + 1;
	fan_in_step_bound(part, PARTS, PARTS * FAN_IN_STEP_FRAGS);
	assert_int_equal(part[0].allow, FAN_IN_STEP_FRAGS);
	assert_int_equal(part[1].allow, FAN_IN_STEP_FRAGS - 10);
	assert_int_equal(part[2].allow, 0);
	assert_int_equal(part[3].allow, FAN_IN_STEP_FRAGS);
}

static void in_step__in_fragments_of_its_share(void **state)
{
	/* both have half of their shares left */
	struct fan_in_step_part part[2] = {
		{.share = 0.75, .left = 750, .window = WINDOW},
		{.share = 0.25, .left = 250, .window = WINDOW},
	};
	(void)state;
	fan_in_step_bound(part, 2, 48);
	assert_int_equal(part[0].allow, 36);
	assert_int_equal(part[1].allow, 12);
}

static void in_step__one_window_for_all(void **state)
{
	struct fan_in_step_part part[PARTS];
	(void)state;
	even(part, 1000);
	fan_in_step_bound(part, PARTS, 1e6);
	for (unsigned i = 0; i < PARTS; i++)
		assert_int_equal(part[i].allow, WINDOW / PARTS);
}

static void in_step__a_small_share_has_the_least_bound(void **state)
{
	struct fan_in_step_part part[2] = {
		{.share = 0.999, .left = 999, .window = WINDOW},
		{.share = 0.001, .left = 1, .window = WINDOW},
	};
	(void)state;
	fan_in_step_bound(part, 2, 48);
	assert_int_equal(part[1].allow, FAN_IN_STEP_LEAST);
}

static void in_step__without_others_a_window(void **state)
{
	struct fan_in_step_part part[2] = {
		{.share = 1, .left = 1000, .window = WINDOW},
		{.share = 0, .left = 5, .window = WINDOW}, /* of operations before */
	};
	(void)state;
	fan_in_step_bound(part, 2, 24);
	assert_int_equal(part[0].allow, WINDOW);
	assert_int_equal(part[1].allow, FAN_IN_STEP_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_step__all_have_as_much_left),
		cmocka_unit_test(in_step__who_is_ahead_has_less_in_flight),
		cmocka_unit_test(in_step__in_fragments_of_its_share),
		cmocka_unit_test(in_step__one_window_for_all),
		cmocka_unit_test(in_step__a_small_share_has_the_least_bound),
		cmocka_unit_test(in_step__without_others_a_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
