/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/world.h"

/* An actor that notes what it hears. */
struct ear {
	struct fan_sim *sim;
	unsigned heard;
	uint64_t last_ns, alarm_ns;
	uint8_t bytes[64], flags;
	uint16_t len;
};

static void ear_recv(void *self, const struct fan_sim_packet *p)
{
	struct ear *e = self;
	e->heard++;
	e->last_ns = e->sim->now_ns;
	e->flags = p->flags;
	e->len = p->len;
	if (p->body)
		memcpy(e->bytes, p->body->bytes, p->len < 64 ? p->len : 64);
}

static void ear_tick(void *self)
{
	struct ear *e = self;
	e->alarm_ns = FAN_SIM_NEVER;
	e->last_ns = e->sim->now_ns;
}

static uint64_t ear_deadline(void *self)
{
	return ((struct ear *)self)->alarm_ns;
}

static const struct fan_actor_ops ear_ops = {ear_recv, ear_tick, ear_deadline};

/* 1 Gb/s and 1 us each; 950 bytes and 50 of overhead take 8 us. */
static const struct fan_link_config cable = {
	.bps = 1000000000, .delay_ns = 1000, .queue_bytes = 100000, .overhead_bytes = 50};

static void join(struct fan_sim *s, uint32_t a, uint32_t b, const struct fan_link_config *c)
{
	assert_int_not_equal(fan_sim_add_link(s, a, b, c), FAN_SIM_NONE);
	assert_int_not_equal(fan_sim_add_link(s, b, a, c), FAN_SIM_NONE);
}

/* a - s - t - b, and a longer way round; `a` and `b` have an actor each. */
static void make(struct fan_sim *s, struct ear *ear, const struct fan_link_config *c, uint64_t bps)
{
	fan_sim_init(s, 1, 1500);
	uint32_t a = fan_sim_add_node(s, false, 0, 0), b = fan_sim_add_node(s, false, 0, 0);
	uint32_t mid = fan_sim_add_node(s, true, bps, 0), end = fan_sim_add_node(s, true, 0, 0);
	uint32_t detour = fan_sim_add_node(s, true, 0, 0);
	join(s, a, mid, c);
	join(s, mid, detour, c);
	join(s, detour, end, c);
	join(s, mid, end, c);
	join(s, end, b, c);
	assert_true(fan_sim_index(s));
	for (unsigned i = 0; i < 2; i++) {
		ear[i] = (struct ear){.sim = s, .alarm_ns = FAN_SIM_NEVER};
		assert_int_equal(fan_sim_add_actor(s, i ? b : a, &ear[i], &ear_ops), i);
	}
}

static void send(struct fan_sim *s, uint16_t len)
{
	static const uint8_t payload[1500];
	const struct fan_out_item it = {
		.head = {1, 1}, .payload = payload, .payload_bytes = len - FAN_HEAD_BYTES};
	struct fan_sim_packet p = {.from = 0, .to = 1, .len = len};
	p.body = fan_sim_body(s, &it);
	assert_non_null(p.body);
	fan_sim_send(s, &p, true);
	fan_body_put(&s->pool, p.body);
}

static void drain(struct fan_sim *s)
{
	while (fan_sim_step(s, FAN_SIM_NEVER))
		;
	assert_int_equal(s->in_flight, 0);
	assert_int_equal(s->pool.used, 0);
}

TEST(world__shortest_path_hop_by_hop)
{
	struct fan_sim s;
	struct ear ear[2];
	make(&s, ear, &cable, 0);
	send(&s, 950);
	drain(&s);
	assert_int_equal(ear[1].heard, 1);
	assert_int_equal(ear[1].last_ns, 3 * 9000);
	assert_int_equal(s.hops, 3);
	fan_sim_free(&s);
}

/* Two hosts, and three switches side by side between their own: flows are spread, each keeps to its
 * path. */
TEST(world__flows_by_hash)
{
	struct fan_sim s;
	struct ear ear[2][32] = {0};
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
			actor[host][i] = fan_sim_add_actor(&s, host, &ear[host][i], &deaf);
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
	struct ear ear = {.sim = &s, .alarm_ns = FAN_SIM_NEVER};
	uint32_t actor[3];
	fan_sim_init(&s, 1, 1500);
	for (unsigned i = 0; i < 3; i++)
		fan_sim_add_node(&s, false, 0, 0);
	join(&s, 0, 1, &cable);
	join(&s, 1, 2, &cable);
	assert_true(fan_sim_index(&s));
	for (unsigned i = 0; i < 3; i++)
		actor[i] = fan_sim_add_actor(&s, i, &ear, &ear_ops);
	assert_int_equal(fan_sim_hop(&s, 0, actor[0], actor[1]), 0);
	assert_int_equal(fan_sim_hop(&s, 0, actor[0], actor[2]), FAN_SIM_NONE);
	fan_sim_free(&s);
}

/* By length. */
static enum fan_sim_need need_by_length(const void *arg, const struct fan_sim_packet *p)
{
	(void)arg;
	return p->len == 950   ? FAN_NEED_CAPACITY
	       : p->len == 450 ? FAN_NEED_ORDER
			       : FAN_NEED_NOTHING;
}

TEST(world__what_keeps_its_order_waits_for_capacity)
{
	struct fan_sim s;
	struct ear ear[2];
	make(&s, ear, &cable, 1000000); /* 950 bytes: 7.6 ms in the node */
	fan_sim_choose(&s, 2, need_by_length, NULL);
	send(&s, 950);
	send(&s, 450);
	send(&s, 250);
	while (ear[1].heard < 1)
		assert_true(fan_sim_step(&s, FAN_SIM_NEVER));
	assert_int_equal(ear[1].len, 250); /* it overtakes both */
	while (ear[1].heard < 2)
		assert_true(fan_sim_step(&s, FAN_SIM_NEVER));
	assert_int_equal(ear[1].len, 950);
	assert_true(ear[1].last_ns > 7600000);
	drain(&s);
	assert_int_equal(ear[1].len, 450);
	assert_true(ear[1].last_ns < 7700000); /* and took none of it */
	fan_sim_free(&s);
}

TEST(world__capacity_of_a_node)
{
	struct fan_sim s;
	struct ear ear[2];
	make(&s, ear, &cable, 100000000); /* the middle takes 76 us for 950 bytes */
	send(&s, 950);
	send(&s, 950);
	drain(&s);
	assert_int_equal(ear[1].heard, 2);
	assert_int_equal(ear[1].last_ns, 9000 + 2 * 76000 + 2 * 9000);
	assert_int_equal(s.hops, 6);
	fan_sim_free(&s);
}

TEST(world__alarm_of_an_actor)
{
	struct fan_sim s;
	struct ear ear[2];
	make(&s, ear, &cable, 0);
	ear[0].alarm_ns = 700;
	fan_sim_wake(&s, 0);
	ear[0].alarm_ns = 300; /* earlier: the first wake-up is void */
	fan_sim_wake(&s, 0);
	assert_true(fan_sim_step(&s, 1000));
	assert_int_equal(ear[0].last_ns, 300);
	drain(&s);
	assert_int_equal(ear[0].last_ns, 300);
	fan_sim_free(&s);
}

TEST(world__new_rate_of_a_busy_link)
{
	struct fan_sim s;
	struct ear ear[2];
	make(&s, ear, &cable, 0);
	send(&s, 950);
	s.now_ns = 4000;
	fan_sim_set_rate(&s, 0, 500000000);
	drain(&s);
	assert_int_equal(ear[1].heard, 1);
	assert_int_equal(ear[1].last_ns, 4000 + 8000 + 1000 + 2 * 9000);
	fan_sim_free(&s);
}

static unsigned heard_with(const struct fan_sim_fault *f, unsigned sent, struct ear *last)
{
	struct fan_sim s;
	struct ear ear[2];
	struct fan_link_config c = cable;
	c.fault = *f;
	c.queue_bytes = FAN_LINK_QUEUE_MAX;
	make(&s, ear, &c, 0);
	for (unsigned i = 0; i < sent; i++)
		send(&s, 100);
	drain(&s);
	fan_sim_free(&s);
	*last = ear[1];
	return ear[1].heard;
}

TEST(world__faults_in_their_share)
{
	struct ear last;
	const struct fan_sim_fault loss = {.loss = 100000}, twice = {.duplicate = 100000},
				   late = {.reorder = 500000, .reorder_ns = 5000000},
				   none = {.jitter_ns = 1000};
	/* three links each */
	assert_in_range(heard_with(&loss, 10000, &last), 7290 - 150, 7290 + 150);
	assert_in_range(heard_with(&twice, 10000, &last), 13310 - 250, 13310 + 250);
	assert_int_equal(heard_with(&late, 1000, &last), 1000);
	assert_int_equal(heard_with(&none, 1000, &last), 1000);
}

/* Bodies are shared: what one link damages, others must not see. */
TEST(world__damage_is_done_to_a_copy)
{
	struct fan_sim s;
	struct ear ear[2];
	static const uint8_t payload[68];
	const struct fan_out_item it = {
		.head = {1, 1}, .payload = payload, .payload_bytes = sizeof payload};
	make(&s, ear, &cable, 0);
	s.link[0].cfg.fault.corrupt = 1000000;
	s.link[0].faulty = true;
	struct fan_sim_packet p = {.from = 0, .to = 1, .len = 100};
	p.body = fan_sim_body(&s, &it);
	for (unsigned i = 0; i < 1000; i++)
		fan_sim_send(&s, &p, true);
	while (fan_sim_step(&s, FAN_SIM_NEVER))
		assert_memory_equal(p.body->bytes, it.head, sizeof it.head);
	assert_in_range(ear[1].heard, 700, 800); /* a quarter is noticed by lower layers */
	fan_body_put(&s.pool, p.body);
	assert_int_equal(s.pool.used, 0);
	fan_sim_free(&s);
}

struct reader {
	const struct fan_out_item *want;
	unsigned heard, alike, other; /* other: with another payload, whose bits no fault flips */
};

static void read_whole(void *self, const struct fan_sim_packet *p)
{
	struct reader *r = self;
	r->heard++;
	if (p->len < fan_out_item_bytes(r->want))
		return;
	bool other = memcmp(p->body->bytes + FAN_HEAD_BYTES, r->want->payload,
			    r->want->payload_bytes) != 0;
	r->other += other;
	r->alike += !other && p->len == fan_out_item_bytes(r->want) &&
		    memcmp(p->body->bytes, r->want->head, FAN_HEAD_BYTES) == 0;
}

static uint64_t read_never(void *self)
{
	(void)self;
	return FAN_SIM_NEVER;
}

static const struct fan_actor_ops reader_ops = {read_whole, NULL, read_never};

/* What is not copied to be sent is heard in one piece; damaged packets are copies. */
TEST(world__lent_payload_is_heard_whole)
{
	struct fan_sim s;
	struct ear ear[2];
	uint8_t payload[68];
	for (unsigned i = 0; i < sizeof payload; i++)
		payload[i] = (uint8_t)(7 * i);
	const struct fan_out_item it = {
		.head = {1, 1}, .payload = payload, .payload_bytes = sizeof payload};
	struct reader reader = {.want = &it};
	make(&s, ear, &cable, 0);
	s.actor[1].self = &reader;
	s.actor[1].ops = &reader_ops;
	struct fan_sim_packet p = {.from = 0, .to = 1, .len = 104};
	p.body = fan_sim_body_lent(&s, &it);
	assert_ptr_equal(fan_body_payload_apart(p.body), payload);
	for (unsigned corrupt = 0; corrupt < 2; corrupt++) {
		s.link[0].cfg.fault.corrupt = corrupt * 1000000;
		s.link[0].faulty = corrupt;
		for (unsigned i = 0; i < 100; i++)
			fan_sim_send(&s, &p, true);
		while (fan_sim_step(&s, FAN_SIM_NEVER))
			;
		assert_int_equal(reader.alike, 100);
	}
	assert_int_equal(reader.other, 0);
	assert_in_range(reader.heard, 150, 190);
	fan_body_put(&s.pool, p.body);
	assert_int_equal(s.pool.used, 0);
	fan_sim_free(&s);
}

TEST(world__damage_upon_damage_is_a_loss)
{
	struct ear last;
	const struct fan_sim_fault f = {.corrupt = 1000000};
	unsigned heard = heard_with(&f, 1000, &last);
	assert_int_equal(heard, 0); /* three links: damage upon damage is a loss */
}

static void trace(void *arg, enum fan_sight what, uint32_t link, const struct fan_sim_packet *p)
{
	uint64_t *sum = arg;
	*sum = fan_rng_mix(*sum + (uint64_t)what + link + p->len);
}

static uint64_t fingerprint(uint64_t seed)
{
	struct fan_sim s;
	struct ear ear[2];
	struct fan_link_config c = cable;
	c.fault = (struct fan_sim_fault){.loss = 50000,
					 .duplicate = 50000,
					 .reorder = 50000,
					 .corrupt = 50000,
					 .reorder_ns = 10000};
	uint64_t sum = 0;
	make(&s, ear, &c, 0);
	s.watch = (struct fan_watch){trace, &sum};
	for (uint32_t i = 0; i < s.links; i++)
		s.link[i].rng = fan_rng_stream(seed, i);
	for (unsigned i = 0; i < 200; i++)
		send(&s, (uint16_t)(100 + i));
	drain(&s);
	sum += s.now_ns;
	fan_sim_free(&s);
	return sum;
}

TEST(world__same_seed_same_run)
{
	assert_int_equal(fingerprint(1), fingerprint(1));
	assert_int_not_equal(fingerprint(1), fingerprint(2));
}

UNIT_MAIN
