/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/series.h"

static void series__bounded_and_nothing_lost(void **state)
{
	(void)state;
	struct fan_series *s = malloc(sizeof *s);
	fan_series_init(s, 0, 10);
	uint64_t sum = 0;
	for (uint64_t i = 0; i < 5000; i++) {
		const uint64_t figure[FAN_SERIES_FIGURES] = {i, 1, 0, 0};
		fan_series_add(s, figure);
		sum += i;
	}
	uint64_t kept = 0, ones = 0, weight = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		kept += s->sum[i][0];
		ones += s->sum[i][1];
		weight += s->weight[i];
	}
	assert_int_equal(kept, sum);
	assert_int_equal(ones, 5000);
	assert_int_equal(weight, 5000);
	free(s);
}

static void series__interval_doubles(void **state)
{
	(void)state;
	const uint64_t figure[FAN_SERIES_FIGURES] = {0};
	struct fan_series *s = malloc(sizeof *s);
	fan_series_init(s, 100, 10);
	assert_int_equal(s->next_ns, 110);
	for (unsigned i = 0; i < FAN_SERIES_MAX; i++)
		fan_series_add(s, figure);
	assert_int_equal(s->interval_ns, 10);
	fan_series_add(s, figure);
	assert_int_equal(s->interval_ns, 20);
	assert_int_equal(s->count, FAN_SERIES_MAX / 2 + 1);
	assert_int_equal(s->next_ns, 100 + (FAN_SERIES_MAX / 2 + 2) * 20);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(series__bounded_and_nothing_lost),
		cmocka_unit_test(series__interval_doubles),
	};
	return RUN(tests);
}
