/* SPDX-License-Identifier: Apache-2.0 */
#include "net/echo.h"

#include <poll.h>

#include "net/clock.h"
#include "net/udp.h"
#include "unit/unit.h"

#define NOW (1000 * FAN_MS)

static const struct fan_echoed SWITCH = {.payload_bytes = 1408, .shards = 1, .window = 16};
static struct fan_echo_asker asker;
static struct fan_udp udp, peer; /* connected; and who is asked */
static fan_peer at;

static fan_peer loopback(void)
{
	fan_peer p;
	assert_true(fan_peer_read(&p, "127.0.0.1:0"));
	return p;
}

static int open_both(void **state)
{
	const struct fan_udp_options bound = {.bind = loopback(), .buffer_bytes = 65536};
	(void)state;
	asker = (struct fan_echo_asker){.asked = 0};
	assert_false(fan_udp_open(&peer, &bound));
	at = fan_udp_local(&peer);
	const struct fan_udp_options to = {.connect = at, .buffer_bytes = 65536};
	assert_false(fan_udp_open(&udp, &to));
	return 0;
}

static int close_both(void **state __attribute__((unused)))
{
	fan_udp_close(&udp);
	fan_udp_close(&peer);
	return 0;
}

/* The next question that has come to `peer`: its nonce and whole length. */
static uint64_t question(fan_peer *from, size_t *bytes)
{
	static uint8_t in[FAN_UDP_RECV_BYTES];
	struct pollfd p = {peer.fd, POLLIN, 0};
	struct fan_udp_batch b;
	struct fan_frag f;
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(fan_udp_recv(&peer, in, &b), 1);
	assert_true(fan_wire_get(&f, in, b.bytes) < 0);
	assert_int_equal(f.type, FAN_TYPE_QUERY);
	assert_int_equal(f.topic, FAN_TOPIC_ECHO);
	*from = b.from;
	*bytes = b.bytes;
	return f.nonce;
}

static void item_of(struct fan_out_item *it, uint64_t nonce, enum fan_type type,
		    enum fan_topic topic, const struct fan_echoed *who)
{
	static uint8_t body[FAN_ECHO_MAX];
	struct fan_frag h = {.type = (uint8_t)type,
			     .topic = (uint8_t)topic,
			     .sender = FAN_RANK_NONE,
			     .nonce = nonce};
	fan_ctl_put(body, who);
	fan_ctl_finish(it, &h, body, FAN_ECHO_MIN);
}

static int64_t hears(uint64_t nonce, enum fan_type type, enum fan_topic topic,
		     const struct fan_echoed *who)
{
	uint8_t pkt[FAN_ECHO_BYTES];
	struct fan_out_item it;
	struct fan_echoed got;
	item_of(&it, nonce, type, topic, who);
	return fan_echo_heard(&asker, pkt, fan_out_item_copy(&it, pkt), &got);
}

static void ask(void)
{
	fan_echo_ask(&asker, &udp, NULL, FAN_ECHO_BYTES, NOW);
}

TEST_WITH(echo__nonces_follow_each_other_and_the_next_is_due, open_both, close_both)
{
	fan_peer from;
	size_t bytes;
	assert_true(fan_echo_due(&asker) == UINT64_MAX);
	fan_echo_ask(&asker, &udp, NULL, 1000, NOW);
	assert_true(fan_echo_due(&asker) == NOW + FAN_ECHO_MS * FAN_MS);
	const uint64_t first = question(&from, &bytes);
	assert_int_equal(bytes, 1000);
	ask();
	assert_true(question(&from, &bytes) == first + 1);
	assert_int_equal(bytes, FAN_ECHO_BYTES);
	assert_int_equal(asker.asked, 2);
}

TEST_WITH(echo__unconnected_asks_the_one_it_names, open_both, close_both)
{
	const struct fan_udp_options bound = {.bind = loopback(), .buffer_bytes = 65536};
	struct fan_udp any;
	fan_peer from;
	size_t bytes;
	assert_false(fan_udp_open(&any, &bound));
	fan_echo_ask(&asker, &any, &at, FAN_ECHO_BYTES, NOW);
	assert_true(question(&from, &bytes) == asker.nonce);
	const fan_peer local = fan_udp_local(&any);
	assert_true(fan_peer_equal(&from, &local));
	fan_udp_close(&any);
}

TEST_WITH(echo__late_answers_count_and_tell_which, open_both, close_both)
{
	for (unsigned i = 0; i < 3; i++)
		ask();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(hears(asker.nonce + i, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH),
				 i);
}

TEST_WITH(echo__other_messages_are_no_answers, open_both, close_both)
{
	const struct fan_echoed none = {.payload_bytes = 1408, .shards = 0, .window = 16};
	assert_int_equal(hears(0, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH), -1); /* none asked */
	ask();
	const uint64_t n = asker.nonce;
	assert_int_equal(hears(n - 1, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH), -1);
	assert_int_equal(hears(n + 1, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH), -1);
	assert_int_equal(hears(n, FAN_TYPE_QUERY, FAN_TOPIC_ECHO, &SWITCH), -1);
	assert_int_equal(hears(n, FAN_TYPE_REPORT, FAN_TOPIC_JOB, &SWITCH), -1);
	assert_int_equal(hears(n, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &none), -1);
	assert_int_equal(hears(n, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH), 0);
}

TEST_WITH(echo__no_byte_may_be_missing_and_no_bit_another, open_both, close_both)
{
	uint8_t pkt[FAN_ECHO_BYTES];
	struct fan_out_item it;
	ask();
	item_of(&it, asker.nonce, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH);
	const size_t bytes = fan_out_item_copy(&it, pkt);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(fan_echo_heard(&asker, pkt, i, NULL), -1);
	for (size_t i = 0; i < bytes * 8; i++) {
		pkt[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(fan_echo_heard(&asker, pkt, bytes, NULL), -1);
		pkt[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	assert_int_equal(fan_echo_heard(&asker, pkt, bytes, NULL), 0);
}

static void reply(uint64_t nonce, const fan_peer *to)
{
	struct fan_out_item it;
	struct fan_out out;
	fan_out_init(&out, &it, 1, NULL, 0);
	fan_out_add(&out, FAN_TO_PEER)->peer = *to;
	item_of(&it, nonce, FAN_TYPE_REPORT, FAN_TOPIC_ECHO, &SWITCH);
	fan_udp_send(&peer, &out, false);
}

TEST_WITH(echo__receive_finds_the_answer_behind_others, open_both, close_both)
{
	struct pollfd p = {udp.fd, POLLIN, 0};
	fan_peer from;
	size_t bytes;
	assert_false(fan_echo_receive(&asker, &udp));
	ask();
	const uint64_t n = question(&from, &bytes);
	reply(n + 7, &from);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_false(fan_echo_receive(&asker, &udp));
	reply(n + 7, &from);
	reply(n, &from); /* over the loopback both have come */
	reply(n + 8, &from);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_true(fan_echo_receive(&asker, &udp));
	assert_int_equal(poll(&p, 1, 0), 0); /* all is read */
}

UNIT_MAIN
