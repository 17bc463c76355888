/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/daemon.c"
#include "sim/event.h"
#include "sim/link.h"

static struct fan_sim_link make(uint64_t bps, uint32_t queue_bytes, uint32_t ecn_bytes)
{
	const struct fan_link_config cfg = {
		.bps = bps,
		.delay_ns = 1000,
		.queue_bytes = queue_bytes,
		.ecn_bytes = ecn_bytes,
		.overhead_bytes = 50,
	};
	struct fan_sim_link l;
	fan_link_init(&l, &cfg, 0, 1, (struct fan_rng){1});
	return l;
}

TEST(link__picoseconds_add_up)
{
	bool marked;
	struct fan_sim_link l = make(100000000000, FAN_LINK_QUEUE_MAX, 0);
	uint64_t at_ns = 0;
	for (unsigned i = 0; i < 1000; i++) /* 118.56 ns each */
		at_ns = fan_link_take(&l, 0, 1432, false, &marked);
	assert_int_equal(at_ns, 118560 + 1000);
}

/* A link that takes no time, at the beginning of time. */
TEST(link__without_a_rate)
{
	bool marked;
	const struct fan_link_config cfg = {.bps = 0};
	struct fan_sim_link l;
	fan_link_init(&l, &cfg, 0, 1, (struct fan_rng){1});
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fan_link_take(&l, 0, 9000, false, &marked), 0);
	fan_link_set_rate(&l, 0, 1000000000);
	assert_int_equal(fan_link_take(&l, 0, 1000, true, &marked), 8000);
}

/* ---- event ---- */

#define EVENTS 3000

/* Near ones and far ones, and more while they happen. */
TEST(event__in_order_of_time)
{
	struct fan_events q = {.order = 0};
	struct fan_sim_event e, last = {.at_ns = 0};
	struct fan_rng rng = test_rng();
	uint32_t pushed = 0, popped = 0;
	for (; pushed < EVENTS; pushed++)
		assert_true(fan_event_push(&q, fan_rng_below(&rng, 3 * FAN_EVENT_NEAR), pushed));
	for (; fan_event_first(&q, &e); popped++) {
		uint64_t later_ns = e.at_ns + fan_rng_below(&rng, 2 * FAN_EVENT_NEAR);
		assert_true(e.at_ns > last.at_ns || (e.at_ns == last.at_ns && e.key > last.key));
		last = e;
		if (pushed == 3 * EVENTS || fan_rng_below(&rng, 2)) {
			fan_event_pop(&q, &e);
			continue;
		}
		pushed++;
		fan_event_pop(&q, &e);
		assert_true(fan_event_push(&q, later_ns, pushed));
	}
	assert_int_equal(popped, pushed);
	fan_events_free(&q);
}

TEST(event__same_time_in_order_of_push)
{
	struct fan_events q = {.order = 0};
	struct fan_sim_event e;
	for (uint64_t at_ns = 7; at_ns < 3 * FAN_EVENT_NEAR; at_ns += 2 * FAN_EVENT_NEAR) {
		for (uint32_t i = 0; i < 100; i++)
			assert_true(fan_event_push(&q, at_ns, 99 - i));
		for (uint32_t i = 0; i < 100; i++) {
			assert_true(fan_event_first(&q, &e));
			assert_int_equal(fan_event_source(e.key), 99 - i);
			fan_event_pop(&q, &e);
		}
	}
	assert_false(fan_event_first(&q, &e));
	fan_events_free(&q);
}

/* An event that was far stays before one of its time that is pushed when it is near. */
TEST(event__far_before_near)
{
	struct fan_events q = {.order = 0};
	struct fan_sim_event e;
	fan_event_push(&q, 10, 1);
	fan_event_push(&q, FAN_EVENT_NEAR + 5, 2);
	assert_true(fan_event_first(&q, &e));
	fan_event_pop(&q, &e);
	fan_event_push(&q, FAN_EVENT_NEAR + 5, 3);
	for (uint32_t i = 2; i <= 3; i++) {
		assert_true(fan_event_first(&q, &e));
		assert_int_equal(fan_event_source(e.key), i);
		fan_event_pop(&q, &e);
	}
	fan_events_free(&q);
}

/* ---- series ---- */

TEST(series__bounded_and_nothing_lost)
{
	struct fan_series *s = calloc(1, sizeof *s);
	s->interval_ns = 10;
	uint64_t sum = 0;
	for (uint64_t i = 0; i < 5000; i++) {
		const uint64_t figure[FAN_SERIES_FIGURES] = {i, 1, 0, 0};
		series_add(s, figure);
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

TEST(series__interval_doubles)
{
	const uint64_t figure[FAN_SERIES_FIGURES] = {0};
	struct fan_series *s = calloc(1, sizeof *s);
	s->start_ns = 100;
	s->interval_ns = 10;
	for (unsigned i = 0; i < FAN_SERIES_MAX; i++)
		series_add(s, figure);
	assert_int_equal(s->interval_ns, 10);
	series_add(s, figure);
	assert_int_equal(s->interval_ns, 20);
	assert_int_equal(s->count, FAN_SERIES_MAX / 2 + 1);
	assert_int_equal(s->next_ns, 100 + (FAN_SERIES_MAX / 2 + 2) * 20);
	free(s);
}

UNIT_MAIN
