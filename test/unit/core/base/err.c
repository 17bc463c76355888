/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/err.h"

static void err__each_has_a_text_of_its_own(void **state)
{
	(void)state;
	for (int a = 0; a >= -27; a--) {
		assert_string_not_equal(fan_err_text(a), "unknown error");
		for (int b = 0; b > a; b--) {
			assert_string_not_equal(fan_err_text(a), fan_err_text(b));
			assert_string_not_equal(fan_err_name(a), fan_err_name(b));
		}
	}
	assert_string_equal(fan_err_name(FAN_E_RANK_LOST), "rank_lost");
}

static void err__unknown_values(void **state)
{
	(void)state;
	assert_string_equal(fan_err_text(1), "unknown error");
	assert_string_equal(fan_err_text(FAN_E_STOPPED - 1), "unknown error");
	assert_string_equal(fan_err_name(-128), "unknown");
	assert_string_equal(fan_err_name(-31), "unknown");
	for (int err = -127; err <= -32; err++) {
		assert_string_equal(fan_err_name(err), err > -64 ? "moved" : "rank_lost");
		assert_non_null(strstr(fan_err_text(err), "rank"));
	}
	assert_string_equal(fan_drop_text(FAN_DROP_COUNT), "unknown");
}

static void err__each_drop_has_a_word(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		assert_true(strlen(fan_drop_text(i)) > 0);
	assert_string_equal(fan_drop_text(FAN_DROP_STALE), "stale");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err__each_has_a_text_of_its_own),
		cmocka_unit_test(err__unknown_values),
		cmocka_unit_test(err__each_drop_has_a_word),
	};
	return RUN(tests);
}
