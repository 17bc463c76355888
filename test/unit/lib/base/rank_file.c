/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank writes its metrics and its trace. */
#include "unit/unit.h"

#include <stdlib.h>

#include "lib/base/rank_file.h"

static char path[FAN_RANK_FILE_BYTES];

static void path__rank_and_job(void **state)
{
	(void)state;
	assert_true(fan_rank_file(path, sizeof path, "/run/%j.%r.prom", "a/b.c", 12));
	assert_string_equal(path, "/run/a_b_c.12.prom");
	assert_true(fan_rank_file(path, sizeof path, "x%%%q%r%", "j", 3));
	assert_string_equal(path, "x%%q3%");
}

static void path__without_rank_gets_one(void **state)
{
	(void)state;
	assert_true(fan_rank_file(path, sizeof path, "/run/fanin.prom", "j", 3));
	assert_string_equal(path, "/run/fanin-3.prom");
	assert_true(fan_rank_file(path, sizeof path, "/run.d/fanin", "j", 0));
	assert_string_equal(path, "/run.d/fanin-0");
}

static void path__too_long_is_refused(void **state)
{
	(void)state;
	assert_false(fan_rank_file(path, 8, "/run/fanin.prom", "j", 3));
	assert_true(fan_rank_file(path, 9, "a%j%r", "bcdef", 3));
	assert_false(fan_rank_file(path, 8, "a%j%r", "bcdef", 3));
}

static void pattern__only_with_a_file(void **state)
{
	(void)state;
	unsetenv("FANIN_METRICS");
	assert_null(fan_rank_file_pattern("FANIN_METRICS"));
	setenv("FANIN_METRICS", "", 1);
	assert_null(fan_rank_file_pattern("FANIN_METRICS"));
	setenv("FANIN_METRICS", "x", 1);
	assert_string_equal(fan_rank_file_pattern("FANIN_METRICS"), "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__rank_and_job),
		cmocka_unit_test(path__without_rank_gets_one),
		cmocka_unit_test(path__too_long_is_refused),
		cmocka_unit_test(pattern__only_with_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
