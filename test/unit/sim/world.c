/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/world.h"

/* An actor that counts what it hears. */
static void count(void *heard, const struct fan_sim_packet *p)
{
	(void)p;
	++*(unsigned *)heard;
}

static uint64_t never(void *heard)
{
	(void)heard;
	return FAN_SIM_NEVER;
}

static const struct fan_actor_ops counts = {count, NULL, never};

/* 1 Gb/s and 1 us each; 950 bytes and 50 of overhead take 8 us. */
static const struct fan_link_config cable = {
	.bps = 1000000000, .delay_ns = 1000, .queue_bytes = 100000, .overhead_bytes = 50};

static void join(struct fan_sim *s, uint32_t a, uint32_t b, const struct fan_link_config *c)
{
	assert_int_not_equal(fan_sim_add_link(s, a, b, c), FAN_SIM_NONE);
	assert_int_not_equal(fan_sim_add_link(s, b, a, c), FAN_SIM_NONE);
}

/* a - s - t - b, and a longer way round; `a` and `b` have an actor each. */
static void make(struct fan_sim *s, unsigned *heard, const struct fan_link_config *c)
{
	fan_sim_init(s, 1, 1500);
	uint32_t a = fan_sim_add_node(s, false, 0, 0), b = fan_sim_add_node(s, false, 0, 0);
	uint32_t mid = fan_sim_add_node(s, true, 0, 0), end = fan_sim_add_node(s, true, 0, 0);
	uint32_t detour = fan_sim_add_node(s, true, 0, 0);
	join(s, a, mid, c);
	join(s, mid, detour, c);
	join(s, detour, end, c);
	join(s, mid, end, c);
	join(s, end, b, c);
	assert_true(fan_sim_index(s));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fan_sim_add_actor(s, i ? b : a, &heard[i], &counts), i);
}

/* Two hosts, and three switches side by side between their own: flows are spread, each keeps to its
 * path. */
TEST(world__flows_by_hash)
{
	struct fan_sim s;
	unsigned heard[2][32] = {0};
	static const struct fan_actor_ops deaf = {0};
	uint32_t taken[8] = {0}, actor[2][32];
	fan_sim_init(&s, 1, 1500);
	s.ecmp = true;
	for (unsigned i = 0; i < 7; i++)
		fan_sim_add_node(&s, i >= 2, 0, 0);
	join(&s, 0, 2, &cable);
	join(&s, 1, 3, &cable);
	for (uint32_t middle = 4; middle < 7; middle++) {
		join(&s, 2, middle, &cable);
		join(&s, middle, 3, &cable);
	}
	assert_true(fan_sim_index(&s));
	for (unsigned i = 0; i < 32; i++)
		for (uint32_t host = 0; host < 2; host++)
			actor[host][i] = fan_sim_add_actor(&s, host, &heard[host][i], &deaf);
	for (unsigned i = 0; i < 32; i++) {
		uint32_t link = fan_sim_hop(&s, 2, actor[0][i], actor[1][i]);
		assert_int_equal(fan_sim_hop(&s, 2, actor[0][i], actor[1][i]), link);
		taken[s.link[link].to]++;
	}
	for (uint32_t middle = 4; middle < 7; middle++)
		assert_in_range(taken[middle], 4, 20);
	assert_int_equal(taken[4] + taken[5] + taken[6], 32);
	fan_sim_free(&s);
}

TEST(world__hosts_forward_nothing)
{
	struct fan_sim s;
	unsigned heard = 0;
	uint32_t actor[3];
	fan_sim_init(&s, 1, 1500);
	for (unsigned i = 0; i < 3; i++)
		fan_sim_add_node(&s, false, 0, 0);
	join(&s, 0, 1, &cable);
	join(&s, 1, 2, &cable);
	assert_true(fan_sim_index(&s));
	for (unsigned i = 0; i < 3; i++)
		actor[i] = fan_sim_add_actor(&s, i, &heard, &counts);
	assert_int_equal(fan_sim_hop(&s, 0, actor[0], actor[1]), 0);
	assert_int_equal(fan_sim_hop(&s, 0, actor[0], actor[2]), FAN_SIM_NONE);
	fan_sim_free(&s);
}

/* Of 100 bytes each. */
static unsigned heard_with(const struct fan_sim_fault *f, unsigned sent)
{
	static const uint8_t payload[100 - FAN_HEAD_BYTES];
	const struct fan_out_item it = {
		.head = {1, 1}, .payload = payload, .payload_bytes = sizeof payload};
	struct fan_sim s;
	unsigned heard[2] = {0};
	struct fan_link_config c = cable;
	c.fault = *f;
	c.queue_bytes = FAN_LINK_QUEUE_MAX;
	make(&s, heard, &c);
	for (unsigned i = 0; i < sent; i++) {
		struct fan_sim_packet p = {.from = 0, .to = 1, .len = 100};
		p.body = fan_sim_body(&s, &it, false);
		fan_sim_send(&s, &p, true);
		fan_body_put(&s.pool, p.body);
	}
	while (fan_sim_step(&s, FAN_SIM_NEVER))
		;
	assert_int_equal(s.in_flight, 0);
	assert_int_equal(s.pool.used, 0);
	fan_sim_free(&s);
	return heard[1];
}

TEST(world__faults_in_their_share)
{
	const struct fan_sim_fault loss = {.loss = 100000}, twice = {.duplicate = 100000},
				   late = {.reorder = 500000, .reorder_ns = 5000000},
				   none = {.jitter_ns = 1000}, damaged = {.corrupt = 1000000};
	/* three links each */
	assert_in_range(heard_with(&loss, 10000), 7290 - 150, 7290 + 150);
	assert_in_range(heard_with(&twice, 10000), 13310 - 250, 13310 + 250);
	assert_int_equal(heard_with(&late, 1000), 1000);
	assert_int_equal(heard_with(&none, 1000), 1000);
	assert_int_equal(heard_with(&damaged, 1000), 0); /* damage upon damage is a loss */
}

UNIT_MAIN
