/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/envelope.h"
#include "unit/unit.h"

static uint8_t packet[2 * FAN_CTL_BYTES_MAX];

/* The envelope `v` of a BEAT, as a datagram; its length. */
static size_t encode(const struct fan_envelope *v)
{
	uint8_t scratch[512], body[FAN_CTL_BYTES_MAX];
	struct fan_out_item item, *it = &item;
	struct fan_out out;
	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	struct fan_frag h = {.nonce = 77, .job = 5, .epoch = 6, .sender = 1, .type = FAN_TYPE_BEAT};
	const struct fan_beat m = {.flags = 1};
	struct fan_out_item beat;
	fan_ctl_finish(&beat, &h, body, fan_beat_put(body, &m));
	fan_envelope_put(it, &out, v, 5, 6, beat.head, beat.payload, beat.payload_bytes);
	return fan_out_item_copy(it, packet);
}

static void envelope__round_trip(void **state)
{
	(void)state;
	const struct fan_envelope v = {.token = 2048,
				       .hops = 3,
				       .rank = 255,
				       .ranks = 256,
				       .window = FAN_WINDOW_MAX,
				       .payload_bytes = FAN_PAYLOAD_MAX};
	size_t len = encode(&v);
	struct fan_frag f, inner;
	struct fan_envelope w;
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	assert_int_equal(f.job, 5);
	assert_int_equal(fan_envelope_get(&w, &f), FAN_OK);
	assert_true(w.token == v.token && w.hops == 3 && w.rank == 255 && w.ranks == 256);
	assert_true(w.window == v.window && w.payload_bytes == v.payload_bytes);
	assert_int_equal(fan_wire_get(&inner, w.inner, w.inner_bytes), -1);
	struct fan_beat m;
	assert_int_equal(fan_beat_get(&m, &inner), FAN_OK);
	assert_int_equal(m.flags, 1);
	assert_int_equal(inner.nonce, 77);
}

static void envelope__nothing_known(void **state)
{
	(void)state;
	const struct fan_envelope v = {.token = 1};
	size_t len = encode(&v);
	struct fan_frag f;
	struct fan_envelope w;
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	assert_int_equal(fan_envelope_get(&w, &f), FAN_OK);
	assert_int_equal(w.ranks, 0);
}

static void envelope__drops_by_field(void **state)
{
	(void)state;
	struct fan_frag f;
	struct fan_envelope good = {.token = 1, .ranks = 4, .window = 2, .payload_bytes = 64}, v, w;
	size_t len = encode(&good);
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	f.payload_bytes = FAN_HEAD_BYTES - 1;
	assert_int_equal(fan_envelope_get(&w, &f), FAN_E_SHORT);
	const struct fan_envelope bad[] = {
		{.token = 0},
		{.token = 1, .hops = FAN_ENVELOPE_HOPS_MAX + 1},
		{.token = 1, .ranks = 4, .rank = 4, .window = 2, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = 0, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = FAN_AHEAD_MAX + 1, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = 2, .payload_bytes = FAN_PAYLOAD_MIN - 1},
		{.token = 1, .ranks = 4, .window = 2, .payload_bytes = FAN_PAYLOAD_MAX + 8},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		v = bad[i];
		len = encode(&v);
		assert_int_equal(fan_wire_get(&f, packet, len), -1);
		assert_int_equal(fan_envelope_get(&w, &f), FAN_E_FORMAT);
	}
}

static void envelope__addresses(void **state)
{
	(void)state;
	const fan_peer hop = {.addr = {1, 2}, .port = 0xffff, .scope = 3};
	fan_peer p = fan_peer_behind(&hop, 0xfffe);
	assert_int_equal(fan_peer_token(&p), 0xfffe);
	assert_int_equal(fan_peer_token(&hop), 0);
	assert_false(fan_peer_equal(&p, &hop));
	assert_true(fan_peer_same_hop(&p, &hop));
	fan_peer back = fan_peer_hop(&p);
	assert_true(fan_peer_equal(&back, &hop));
	fan_peer other = fan_peer_behind(&p, 7); /* a token takes the place of one */
	assert_int_equal(fan_peer_token(&other), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(envelope__round_trip),
		cmocka_unit_test(envelope__nothing_known),
		cmocka_unit_test(envelope__drops_by_field),
		cmocka_unit_test(envelope__addresses),
	};
	return RUN(tests);
}
