/* SPDX-License-Identifier: Apache-2.0 */
#include "core/worker/priority.h"
#include "unit/unit.h"

static uint8_t of(uint64_t left, uint64_t busy, uint64_t idle, uint32_t layer)
{
	const struct fan_priority_view v = {
		.left_frags = left, .busy_ns = busy, .idle_ns = idle, .layer = layer};
	return fan_priority_default(NULL, &v);
}

static void priority__a_doubling_is_eight(void **state)
{
	(void)state;
	assert_int_equal(of(100, 0, 0, 0) - of(200, 0, 0, 0), 8);
	assert_int_equal(of(100, 2000, 1000, 0) - of(100, 1000, 1000, 0), 8);
	assert_int_equal(of(100, 0, 0, 3) - of(100, 0, 0, 6), 8);
}

static void priority__order(void **state)
{
	(void)state;
	for (uint64_t left = 1; left < 100000; left = left * 3 / 2 + 1)
		assert_true(of(left, 5, 5, 1) >= of(left + left / 2 + 1, 5, 5, 1));
	assert_true(of(64, 9000, 1000, 4) > of(64, 1000, 9000, 4)); /* waits for the network */
	assert_true(of(64, 1, 1, 1) > of(64, 1, 1, 50));	    /* the first layers */
}

static void priority__range(void **state)
{
	(void)state;
	assert_int_equal(of(UINT64_MAX, 1, UINT64_MAX, UINT32_MAX), 1);
	assert_int_equal(of(1, UINT64_MAX, 1, 1), 255);
	assert_in_range(of(0, 0, 0, 0), 1, 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(priority__a_doubling_is_eight),
		cmocka_unit_test(priority__order),
		cmocka_unit_test(priority__range),
	};
	return RUN(tests);
}
