/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "unit/unit.h"

#include "sim/outcome.h"

/* A sweep of two variants, three seeds each; a job of b's last run failed. */
static json_t *make(void)
{
	json_t *o = json_loads(
		"{\"sweep\": [\"variant\", \"n.slots\", \"seed\"], \"runs\": ["
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 1}, \"avg_jct_s\": 2, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 2}, \"avg_jct_s\": 6, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"b\", \"n.slots\": 8, \"seed\": 1}, \"avg_jct_s\": 5, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 3}, \"avg_jct_s\": 1, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"b\", \"n.slots\": 8, \"seed\": 2}, \"avg_jct_s\": 1, \"failed_jobs\": 1, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 16, \"seed\": 1}, \"avg_jct_s\": null, \"failed_jobs\": 2, \"jobs\": [1, 2]}"
		"]}",
		0, NULL);
	assert_non_null(o);
	return o;
}

static void outcome__mean_least_and_most_of_the_seeds(void **state)
{
	(void)state;
	size_t count = 0;
	json_t *o = make();
	assert_true(fan_outcomes_wanted(o));
	struct fan_outcome *g = fan_outcomes_make(o, NULL, fan_outcome_jct, &count);
	assert_int_equal(count, 3);
	assert_string_equal(g[0].name, "a, slots=8");
	assert_int_equal(g[0].runs, 3);
	assert_int_equal(g[0].counted, 3);
	assert_float_equal(g[0].mean, 3, 1e-12);
	assert_float_equal(g[0].low, 1, 0);
	assert_float_equal(g[0].high, 6, 0);
	assert_int_equal(g[0].failed, 0);
	free(g);
	json_decref(o);
}

static void outcome__a_run_that_failed_has_no_figure(void **state)
{
	(void)state;
	size_t count = 0;
	json_t *o = make();
	struct fan_outcome *g = fan_outcomes_make(o, NULL, fan_outcome_jct, &count);
	assert_string_equal(g[1].name, "b, slots=8");
	assert_int_equal(g[1].runs, 2);
	assert_int_equal(g[1].counted, 1);
	assert_float_equal(g[1].mean, 5, 0);
	assert_int_equal(g[1].failed, 1);
	assert_int_equal(g[1].jobs, 4);
	assert_int_equal(g[2].counted, 0);
	assert_true(isnan(g[2].mean) && isnan(g[2].high));
	free(g);
	json_decref(o);
}

static void outcome__the_axis_is_not_in_the_name(void **state)
{
	(void)state;
	size_t count = 0;
	json_t *o = make();
	struct fan_outcome *g = fan_outcomes_make(o, "n.slots", fan_outcome_jct, &count);
	assert_int_equal(count, 3);
	assert_string_equal(g[0].name, "a");
	assert_float_equal(g[0].x, 8, 0);
	assert_string_equal(g[2].name, "a");
	assert_float_equal(g[2].x, 16, 0);
	free(g);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outcome__mean_least_and_most_of_the_seeds),
		cmocka_unit_test(outcome__a_run_that_failed_has_no_figure),
		cmocka_unit_test(outcome__the_axis_is_not_in_the_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
