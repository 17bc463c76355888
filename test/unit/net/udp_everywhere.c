/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that are bound to every interface: as whom they answer; several on one address; and
 * one that sends to several. */
#include "unit/unit.h"
#include <errno.h>
#include <net/if.h>

#include "udp_rig.h"

/* Whoever asked one of our addresses hears from that one: it would take no other. */
static void answer_from(const char *at, const char *asked, bool plain)
{
	UDP a, b;
	struct fan_udp_batch batch;
	struct fan_udp_options o = {.connect = peer(asked), .buffer_bytes = BUFFER_BYTES};
	struct fan_out out;

	open_at(&a, at, plain);
	o.connect.port = fan_udp_local(&a).port;
	assert_int_equal(fan_udp_open(&b, &o), 0);
	start(&out);
	add(&out, FAN_TO_PEER, PAYLOAD);
	fan_udp_send(&b, &out, true);
	assert_int_equal(recv_next(&a, &batch), 1);
	start(&out);
	for (unsigned i = 0; i < 100; i++)
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = batch.from;
	fan_udp_send(&a, &out, false);
	assert_int_equal(a.datagrams_out, 100);
	if (a.segment)
		assert_int_equal(a.sends, 3);
	drain(&b, 100);
	assert_got(100, 0, FAN_HEAD_BYTES + PAYLOAD);
}

TEST(everywhere__answers_from_where_it_was_asked)
{
	for (int plain = 0; plain < 2; plain++) {
		answer_from("0.0.0.0:0", "127.0.0.1:0", plain);
		answer_from("0.0.0.0:0", "127.0.1.1:0", plain);
		answer_from("0.0.0.0:0", "127.0.0.2:0", plain);
	}
}

TEST(everywhere__ipv6_serves_ipv4_too)
{
	for (int plain = 0; plain < 2; plain++) {
		answer_from("[::]:0", "[::1]:0", plain);
		answer_from("[::]:0", "127.0.0.1:0", plain);
		answer_from("[::]:0", "127.0.1.1:0", plain);
	}
}

/* As many bytes as came by the loopback, on a socket that is told to count them. */
TEST(inlets__are_counted_where_wanted)
{
	for (unsigned i = 0; i < 4; i++) {
		UDP a, b;
		struct fan_udp_options o = {.bind = peer(i < 2 ? "127.0.0.1:0" : "[::1]:0"),
					    .inlets = i % 2,
					    .buffer_bytes = BUFFER_BYTES};
		struct fan_udp_batch batch;
		struct fan_out out;
		assert_int_equal(fan_udp_open(&a, &o), 0);
		o = (struct fan_udp_options){.connect = fan_udp_local(&a),
					     .buffer_bytes = BUFFER_BYTES};
		assert_int_equal(fan_udp_open(&b, &o), 0);
		start(&out);
		add(&out, FAN_TO_PEER, PAYLOAD);
		fan_udp_send(&b, &out, true);
		assert_int_equal(recv_next(&a, &batch), 1);
		assert_int_equal(a.inlets.of[0].index, i % 2 ? if_nametoindex("lo") : 0);
		assert_int_equal(a.inlets.of[0].bytes, i % 2 ? FAN_HEAD_BYTES + PAYLOAD : 0);
		assert_int_equal(a.inlets.of[0].datagrams, i % 2);
		assert_int_equal(fan_udp_overflows(&a), 0);
	}
}

TEST(everywhere__a_single_address_remembers_nobody)
{
	struct fan_udp u;

	open_at(&u, "127.0.0.1:0", false);
	assert_null(u.locals);
	fan_udp_close(&u);
	open_at(&u, "[::1]:0", false);
	assert_null(u.locals);
	assert_false(u.dual);
	fan_udp_close(&u);
	struct fan_udp_options o = {.connect = peer("127.0.0.1:9")};
	assert_int_equal(fan_udp_open(&u, &o), 0);
	assert_null(u.locals);
	fan_udp_close(&u);
}

/* An address that the machine has lost costs one send, no more. */
TEST(everywhere__an_address_that_has_gone)
{
	UDP a, b;
	struct fan_out out;
	fan_peer lost = peer("192.0.2.1:0");

	open_at(&a, "0.0.0.0:0", false);
	open_at(&b, "127.0.0.1:0", false);
	fan_peer to = fan_udp_local(&b);
	fan_locals_put(a.locals, &to, lost.addr);
	for (unsigned drops = 1; drops <= 2; drops++) {
		start(&out);
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = to;
		fan_udp_send(&a, &out, false);
		assert_int_equal(a.send_drops, 1);
		assert_int_equal(a.datagrams_out, drops - 1);
	}
	drain(&b, 1);
	assert_got(1, 0, FAN_HEAD_BYTES + PAYLOAD);
}

/* Members that asked another address than the kernel prefers hear the group from it. */
TEST(everywhere__multicasts_from_where_it_was_asked)
{
	UDP a, b;
	struct fan_udp_batch batch;
	fan_peer member = peer("127.0.0.1:7"), asked = peer("127.0.1.1:0");
	struct fan_udp_options o = {.bind = peer(GROUP_V4),
				    .freebind_group = true,
				    .interface = fan_udp_interface_to(&member, NULL)};
	struct fan_group g = {.multicast = true, .addr = o.bind, .via = member};
	struct fan_out out;

	open_at(&a, "0.0.0.0:0", false);
	assert_int_equal(fan_udp_open(&b, &o), 0);
	fan_locals_put(a.locals, &member, asked.addr);
	asked.port = fan_udp_local(&a).port;
	start(&out);
	add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	assert_int_equal(recv_next(&b, &batch), 1);
	assert_true(fan_peer_equal(&batch.from, &asked));
}

/* A member that came by IPv4 hears no group of IPv6. */
TEST(everywhere__no_group_of_the_other_family)
{
	UDP a;
	struct fan_group g = {
		.multicast = true, .addr = peer(GROUP_V6), .via = peer("127.0.0.1:7")};
	struct fan_out out;

	open_at(&a, "[::]:0", false);
	start(&out);
	add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	assert_int_equal(a.sends, 0);
	assert_int_equal(a.send_drops, 1);
}

/* The header's sender decides, from whatever port a datagram comes. */
TEST(share__a_sender_has_its_socket)
{
	enum { SOCKETS = 3, SENDERS = 8 };
	struct fan_udp from, u[SOCKETS];
	struct fan_out out;

	open_at(&from, "127.0.0.1:0", true);
	open_at(&u[0], "127.0.0.1:0", false);
	assert_int_equal(fan_udp_share(&u[0]), 0);
	struct fan_udp_options o = {.bind = fan_udp_local(&u[0]), .beside = true};
	for (unsigned i = 1; i < SOCKETS; i++)
		assert_int_equal(fan_udp_open(&u[i], &o), 0);
	assert_int_equal(fan_udp_spread(&u[0], SOCKETS), 0);
	start(&out);
	for (unsigned i = 0; i < SENDERS; i++) {
		struct fan_out_item *it = add(&out, FAN_TO_PEER, PAYLOAD);
		it->peer = fan_udp_local(&u[0]);
		it->head[12] = (uint8_t)i;
	}
	fan_udp_send(&from, &out, false);
	for (unsigned i = 0; i < SOCKETS; i++) {
		drain(&u[i], (SENDERS + SOCKETS - 1 - i) / SOCKETS);
		assert_int_equal(u[i].datagrams_in, (SENDERS + SOCKETS - 1 - i) / SOCKETS);
	}
	for (unsigned i = 0; i < SOCKETS; i++)
		fan_udp_close(&u[i]);
	fan_udp_close(&from);
}

/* Who does not say that it shares a port cannot have it, also if the other one does. */
TEST(share__others_find_the_port_in_use)
{
	struct fan_udp u, v;

	open_at(&u, "127.0.0.1:0", false);
	assert_int_equal(fan_udp_share(&u), 0);
	struct fan_udp_options o = {.bind = fan_udp_local(&u)};
	assert_int_equal(fan_udp_open(&v, &o), -EADDRINUSE);
	fan_udp_close(&u);
}

/* ---- several receivers, in turn: which datagrams leave by one call, and in which order ---- */

/* Who sends, and two who hear it. */
static void open_three(struct fan_udp *a, struct fan_udp *b, bool plain)
{
	open_at(a, "127.0.0.1:0", plain);
	open_at(&b[0], "127.0.0.1:0", plain);
	open_at(&b[1], "127.0.0.1:0", plain);
}

TEST(run__two_receivers_in_turn)
{
	struct fan_udp a, b[2];
	struct fan_out out;

	open_three(&a, b, false);
	start(&out);
	for (unsigned i = 0; i < 40; i++)
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b[i / 10 % 2]);
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 20);
		assert_int_equal(got.count, 20);
		for (unsigned i = 0; i < 20; i++) {
			assert_int_equal(got.number[i], i / 10 * 20 + r * 10 + i % 10);
			assert_true(got.whole[i]);
		}
		fan_udp_close(&b[r]);
	}
	fan_udp_close(&a);
}

/* As results of a reduce: each fragment has one without elements for the group, and the root's. */
static void between_others(bool plain)
{
	struct fan_udp a, b[2];
	fan_peer peers[1];
	struct fan_out out;

	open_three(&a, b, plain);
	peers[0] = fan_udp_local(&b[0]);
	const struct fan_group g = {.peers = peers, .ranks = 1};
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		if (i % 2)
			add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b[1]);
		else
			add(&out, FAN_TO_GROUP, 0)->group = &g;
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 30);
		assert_int_equal(got.count, 30);
		for (unsigned i = 0; i < 30; i++) {
			assert_int_equal(got.number[i], 2 * i + r);
			assert_int_equal(got.bytes[i], FAN_HEAD_BYTES + (r ? PAYLOAD : 0));
			assert_true(got.whole[i]);
		}
		fan_udp_close(&b[r]);
	}
	assert_int_equal(a.datagrams_out, 60);
	assert_int_equal(a.sends, 2);
	fan_udp_close(&a);
}

TEST(run__passes_over_others)
{
	between_others(false);
	between_others(true);
}

/* What is larger than a run's items does not overtake them. */
TEST(run__keeps_the_order_of_sizes)
{
	struct fan_udp a, b[2];
	struct fan_out out;

	open_three(&a, b, false);
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		add(&out, FAN_TO_PEER, i / 2 % 3 ? PAYLOAD : 0)->peer = fan_udp_local(&b[i % 2]);
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 30);
		assert_int_equal(got.count, 30);
		for (unsigned i = 0; i < 30; i++)
			assert_int_equal(got.number[i], 2 * i + r);
		fan_udp_close(&b[r]);
	}
	fan_udp_close(&a);
}

UNIT_MAIN
