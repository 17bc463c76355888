/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/copy.h"

/* Any alignment, any length, and nothing around it. */
static void copy__past_the_cache(void **state)
{
	(void)state;
	static _Alignas(64) uint8_t from[600], to[600];
	for (unsigned i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 31 + 7);
	for (unsigned at = 0; at < 70; at++) {
		for (unsigned bytes = 0; bytes < 400; bytes += 1 + bytes % 13) {
			unsigned source = (at * 5 + bytes) % 64;
			memset(to, 0xa5, sizeof to);
			fan_copy_prefetch(from + source, bytes);
			fan_copy_past(to + at, from + source, bytes);
			fan_copy_fence();
			assert_memory_equal(to + at, from + source, bytes);
			for (unsigned i = 0; i < sizeof to; i++)
				if (i < at || i >= at + bytes)
					assert_int_equal(to[i], 0xa5);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__past_the_cache),
	};
	return RUN(tests);
}
