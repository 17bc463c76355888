/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>

#include "plan/lp.h"

/* max 3a + 2b; a + b <= 4; a + 3b <= 6; a <= 3 */
static void fill(struct fan_lp *lp, bool whole)
{
	fan_lp_init(lp);
	int one = fan_lp_row(lp, -INFINITY, 4.5), two = fan_lp_row(lp, -INFINITY, 6);
	if (whole)
		fan_lp_whole(lp, 0, 3, 3);
	else
		fan_lp_col(lp, 0, 3, 3);
	fan_lp_put(lp, one, 1);
	fan_lp_put(lp, two, 1);
	if (whole)
		fan_lp_whole(lp, 0, INFINITY, 2);
	else
		fan_lp_col(lp, 0, INFINITY, 2);
	fan_lp_put(lp, one, 1);
	fan_lp_put(lp, two, 3);
}

static void lp__solves(void **state)
{
	(void)state;
	struct fan_lp lp;
	fill(&lp, false);
	assert_int_equal(fan_lp_solve(&lp), FAN_OK);
	assert_near(lp.best, 11, 1e-9);
	assert_near(lp.x[0], 3, 1e-9);
	assert_near(lp.x[1], 1, 1e-9);
	assert_near(fabs(lp.price[1]), 2.0 / 3, 1e-9);
	fan_lp_free(&lp);
}

static void lp__solves_whole_numbers(void **state)
{
	(void)state;
	struct fan_lp lp;
	fill(&lp, true);
	lp.row_high[1] = 5; /* b = 2/3 if it may be */
	assert_int_equal(fan_lp_solve_whole(&lp, FAN_EXACT_NODES_MAX), FAN_OK);
	assert_near(lp.best, 9, 1e-9);
	assert_near(lp.bound, 9, 1e-9);
	fan_lp_free(&lp);
}

static void lp__goes_on_with_more_columns(void **state)
{
	(void)state;
	struct fan_lp lp;
	uint64_t steps = 0;
	fill(&lp, false);
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 11, 1e-9);
	fan_lp_col(&lp, 0, INFINITY, 5);
	fan_lp_put(&lp, 1, 1);
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 30, 1e-9); /* 6 of the new one */
	assert_int_equal(fan_lp_solve_warm(&lp, &steps), FAN_OK);
	assert_near(lp.best, 30, 1e-9);
	fan_lp_free(&lp);
}

static void lp__says_when_there_is_no_solution(void **state)
{
	(void)state;
	struct fan_lp lp;
	fill(&lp, false);
	lp.row_low[0] = lp.row_high[0] = -1;
	assert_int_equal(fan_lp_solve(&lp), FAN_E_INVALID);
	fan_lp_free(&lp);
	fan_lp_init(&lp);
	fan_lp_row(&lp, 0, INFINITY);
	fan_lp_col(&lp, 0, INFINITY, 1);
	fan_lp_put(&lp, 0, 1);
	assert_int_equal(fan_lp_solve(&lp), FAN_E_INVALID);
	fan_lp_free(&lp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lp__solves),
		cmocka_unit_test(lp__solves_whole_numbers),
		cmocka_unit_test(lp__goes_on_with_more_columns),
		cmocka_unit_test(lp__says_when_there_is_no_solution),
	};
	return RUN(tests);
}
