/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/base/err.h"
#include "lib/base/sized.h"

/* The same options in three versions of a library; v2 is ours. */
struct v1 {
	size_t size;
	const char *name;
};
struct v2 {
	size_t size;
	const char *name;
	int a, b;
};
struct v3 {
	size_t size;
	const char *name;
	int a, b;
	const char *more;
	int c, reserved;
};

static const struct fan_sized kind = {sizeof(struct v2), sizeof(struct v1), "V2_INIT"};
static char why[256];

static struct v2 initial(void)
{
	return (struct v2){sizeof(struct v2), NULL, -1, -1};
}

static void sized__same_version(void **state)
{
	(void)state;
	struct v2 to = initial(), from = {sizeof from, "x", 3, 4};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_memory_equal(&to, &from, sizeof to);
}

/* What lies behind a smaller struct is not looked at. */
static void sized__smaller_keeps_the_initial_values(void **state)
{
	(void)state;
	struct v2 to = initial(), from = {sizeof(struct v1), "old", 77, 78};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_int_equal(to.size, sizeof to);
	assert_string_equal(to.name, "old");
	assert_int_equal(to.a, -1);
	assert_int_equal(to.b, -1);
}

static void sized__larger_with_zeros(void **state)
{
	(void)state;
	struct {
		struct v2 own;
		uint64_t guard;
	} to = {initial(), 0x1234567890abcdef};
	struct v3 from = {.size = sizeof from, .name = "new", .a = 5, .b = 6};
	assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_OK);
	assert_int_equal(to.own.size, sizeof to.own);
	assert_string_equal(to.own.name, "new");
	assert_int_equal(to.own.b, 6);
	assert_int_equal(to.guard, 0x1234567890abcdef);
}

/* The first byte of the tail, the last one, and one between. */
static void sized__larger_with_an_unknown_option(void **state)
{
	(void)state;
	static const size_t at[] = {sizeof(struct v2), offsetof(struct v3, c),
				    sizeof(struct v3) - 1};
	static const char *const told[] = {"byte 24 is set", "byte 32 is set", "byte 39 is set"};
	for (size_t i = 0; i < 3 && sizeof(void *) == 8; i++) {
		struct v2 to = initial();
		struct v3 from = {.size = sizeof from};
		((unsigned char *)&from)[at[i]] = 1;
		assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_E_INVALID);
		assert_non_null(strstr(why, "options.size: 40: "));
		assert_non_null(strstr(why, told[i]));
		assert_non_null(strstr(why, "knows 24 bytes"));
	}
}

/* Sizes of no version: never set, cut within a field, or whatever lay there. */
static void sized__impossible_sizes(void **state)
{
	(void)state;
	static const size_t sizes[] = {0,
				       1,
				       sizeof(size_t),
				       sizeof(struct v1) - 1,
				       sizeof(struct v1) + 4,
				       sizeof(struct v3) + 1,
				       FAN_SIZED_MAX + sizeof(size_t),
				       SIZE_MAX - sizeof(size_t) + 1};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct v2 to = initial();
		struct v3 from = {.size = sizes[i]};
		if (sizes[i] == sizeof(struct v1) + 4 && sizeof(size_t) == 4)
			continue;
		assert_int_equal(fan_sized_take(&to, &kind, &from, why, sizeof why), FAN_E_INVALID);
		assert_non_null(strstr(why, "set the options with V2_INIT"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sized__same_version),
		cmocka_unit_test(sized__smaller_keeps_the_initial_values),
		cmocka_unit_test(sized__larger_with_zeros),
		cmocka_unit_test(sized__larger_with_an_unknown_option),
		cmocka_unit_test(sized__impossible_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
