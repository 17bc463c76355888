/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/log.h"

#include "unit/unit.h"

#define S UINT64_C(1000000000)

static void log__is_bounded(void **state)
{
	(void)state;
	struct log_bound b = {0};
	uint64_t omitted, written = 0, left_out = 0, now_ns = 5 * S;
	for (unsigned n = 0; n < 100000; n++, now_ns += S / 10000) { /* 10 s of them */
		if (log_takes(&b, now_ns, &omitted)) {
			written++;
			left_out += omitted;
		}
	}
	assert_in_range(written, LOG_BURST + 10 * LOG_LINES_A_S - 2,
			LOG_BURST + 10 * LOG_LINES_A_S + 2);
	assert_int_equal(left_out + written + b.omitted, 100000);
	now_ns += S * LOG_BURST / LOG_LINES_A_S;
	assert_true(log_takes(&b, now_ns, &omitted));
	assert_true(omitted > 0);
	for (unsigned n = 1; n < LOG_BURST; n++) {
		assert_true(log_takes(&b, now_ns, &omitted));
		assert_int_equal(omitted, 0);
	}
	assert_false(log_takes(&b, now_ns, &omitted));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(log__is_bounded)};
	return RUN(tests);
}
