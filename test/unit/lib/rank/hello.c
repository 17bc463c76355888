/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rank/hello.h"
#include "unit/unit.h"

#define S (1000 * FAN_MS)

/* Who is lost again soon waits twice as long each time, up to a bound; a long stay forgives. */
static void hello__waits_longer_each_time(void **state)
{
	(void)state;
	struct fan_hello h;
	uint64_t now_ns = S, wait_ns = FAN_HELLO_WAIT_NS;
	fan_hello_init(&h);
	for (unsigned n = 0; n < FAN_HELLO_WAITS + 4; n++) {
		fan_hello_lost(&h, 3, now_ns);
		assert_int_equal(h.part[3].from_ns - now_ns, wait_ns);
		assert_int_equal(h.part[3].heard_ns, 0);
		assert_int_equal(h.part[2].from_ns, 0);
		now_ns = h.part[3].from_ns;
		fan_hello_back(&h, 3, now_ns);
		now_ns += 5 * S;
		if (n < FAN_HELLO_WAITS)
			wait_ns *= 2;
	}
	assert_true(wait_ns == FAN_HELLO_WAIT_NS << FAN_HELLO_WAITS);
	now_ns += FAN_HELLO_CALM_NS;
	fan_hello_lost(&h, 3, now_ns);
	assert_int_equal(h.part[3].from_ns - now_ns, FAN_HELLO_WAIT_NS);
	fan_hello_free(&h);
}

/* What was heard of one before it was lost, or agreed about it, counts no more. */
static void hello__forgets_at_each_change(void **state)
{
	(void)state;
	struct fan_hello h;
	fan_hello_init(&h);
	h.back = 6;
	h.ops = 9;
	h.bytes = 9;
	h.part[1].heard_ns = S;
	fan_hello_lost(&h, 1, 2 * S);
	assert_true(h.back == 4 && !h.ops && !h.bytes && !h.part[1].heard_ns);
	h.ops = 3;
	fan_hello_back(&h, 1, 3 * S);
	assert_true(!h.back && !h.ops && h.part[1].back_ns == 3 * S);
	fan_hello_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello__waits_longer_each_time),
		cmocka_unit_test(hello__forgets_at_each_change),
	};
	return RUN(tests);
}
