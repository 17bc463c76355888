/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/prf.h"

/* The key of the paper, and words of the bytes 0, 1, 2, ... as it has them. */
static void prf__as_published(void **state)
{
	(void)state;
	const struct fan_secret s = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
	const uint64_t m[] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908),
			      UINT64_C(0x1716151413121110), UINT64_C(0x1f1e1d1c1b1a1918),
			      UINT64_C(0x2726252423222120)};
	assert_true(fan_prf(&s, m, 0) == UINT64_C(0x726fdb47dd0e0e31));
	assert_true(fan_prf(&s, m, 1) == UINT64_C(0x93f5f5799a932462));
	assert_true(fan_prf(&s, m, 2) == UINT64_C(0x3f2acc7f57c29bdb));
	assert_true(fan_prf(&s, m, 5) == UINT64_C(0x0e3ea96b5304a7d0));
}

static int ascending(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void prf_permute__no_number_twice(void **state)
{
	(void)state;
	enum { COUNT = 1 << 16 };
	static uint32_t v[COUNT];
	const struct fan_secret s = {{1, 2}};
	for (uint32_t i = 0; i < COUNT; i++)
		v[i] = fan_prf_permute(&s, i);
	qsort(v, COUNT, sizeof v[0], ascending);
	for (uint32_t i = 1; i < COUNT; i++)
		assert_true(v[i] != v[i - 1]);
}

/* Neighbours differ in about half of their bits, and so do two keys. */
static void prf_permute__neighbours_have_nothing_in_common(void **state)
{
	(void)state;
	const struct fan_secret a = {{1, 2}}, b = {{1, 3}};
	unsigned beside = 0, keys = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t x = fan_prf_permute(&a, i);
		beside += (unsigned)__builtin_popcount(x ^ fan_prf_permute(&a, i + 1));
		keys += (unsigned)__builtin_popcount(x ^ fan_prf_permute(&b, i));
	}
	assert_in_range(beside, 15500, 16500); /* 16000, standard deviation 90 */
	assert_in_range(keys, 15500, 16500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prf__as_published),
		cmocka_unit_test(prf_permute__no_number_twice),
		cmocka_unit_test(prf_permute__neighbours_have_nothing_in_common),
	};
	return RUN(tests);
}
