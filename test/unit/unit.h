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

#define RUN(tests) cmocka_run_group_tests(tests, NULL, NULL)

#endif
