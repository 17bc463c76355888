/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h - what every unit test includes first. */
#ifndef TEST_UNIT_UNIT_H
#define TEST_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/draw.h"

/* Random numbers of a test.  The seed is printed, and FAN_TEST_SEED replays one. */
static inline struct fan_rng test_rng(void)
{
	const char *text = getenv("FAN_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
	print_message("FAN_TEST_SEED=%llu\n", (unsigned long long)seed);
	return (struct fan_rng){seed};
}

#define UNIT_TESTS_MAX 64

static struct CMUnitTest unit_tests[UNIT_TESTS_MAX];
static size_t unit_count;

static inline void unit_add(struct CMUnitTest test)
{
	if (unit_count == UNIT_TESTS_MAX)
		abort();
	unit_tests[unit_count++] = test;
}

/* Define a test.  Tests run in the order in which they stand; `setup` and `teardown`, or NULL, are
 * called before and after it. */
#define TEST_WITH(name, setup, teardown)                                                           \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void add_##name(void)                                  \
	{                                                                                          \
		unit_add((struct CMUnitTest){#name, name, setup, teardown, NULL});                 \
	}                                                                                          \
	static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

static inline int unit_run(void)
{
	return _cmocka_run_group_tests("tests", unit_tests, unit_count, NULL, NULL);
}

#define UNIT_MAIN                                                                                  \
	int main(void)                                                                             \
	{                                                                                          \
		return unit_run();                                                                 \
	}

#endif
