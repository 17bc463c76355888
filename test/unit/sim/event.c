/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/event.h"

#define EVENTS 3000

static void event__in_order_of_time(void **state)
{
	(void)state;
	struct fan_event_heap h = {0};
	struct fan_rng rng = test_rng();
	for (uint32_t i = 0; i < EVENTS; i++)
		assert_true(fan_event_push(&h, fan_rng_below(&rng, 500), i));
	uint64_t last_ns = 0, last_key = 0;
	while (h.count) {
		struct fan_sim_event e = h.at[0];
		assert_true(e.at_ns > last_ns || (e.at_ns == last_ns && e.key > last_key));
		last_ns = e.at_ns;
		last_key = e.key;
		fan_event_pop(&h);
	}
	fan_event_heap_free(&h);
}

static void event__same_time_in_order_of_push(void **state)
{
	(void)state;
	struct fan_event_heap h = {0};
	for (uint32_t i = 0; i < 100; i++)
		assert_true(fan_event_push(&h, 7, 99 - i));
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(fan_event_source(h.at[0].key), 99 - i);
		fan_event_pop(&h);
	}
	assert_int_equal(h.count, 0);
	fan_event_heap_free(&h);
}

static void event__replace_keeps_the_source(void **state)
{
	(void)state;
	struct fan_event_heap h = {0};
	fan_event_push(&h, 10, 1);
	fan_event_push(&h, 20, 2);
	uint64_t key = fan_event_replace(&h, 20);
	assert_int_equal(fan_event_source(key), 1);
	assert_int_equal(fan_event_source(h.at[0].key), 2); /* was there before */
	fan_event_pop(&h);
	assert_int_equal(h.at[0].key, key);
	fan_event_heap_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event__in_order_of_time),
		cmocka_unit_test(event__same_time_in_order_of_push),
		cmocka_unit_test(event__replace_keeps_the_source),
	};
	return RUN(tests);
}
