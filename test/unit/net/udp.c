/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets on the loopback: what one end sends in runs, the other gets as datagrams.
 * Loopback delivers before send returns, so nothing here waits or depends on time. */
#include "unit/unit.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include "udp_rig.h"

static void runs(bool laid, const char *at, bool plain_sender, bool plain_receiver, unsigned count)
{
	UDP a, b;
	struct fan_out out;

	open_at(&a, at, plain_sender);
	open_at(&b, at, plain_receiver);
	start(&out);
	for (unsigned i = 0; i < count; i++)
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b);
	lay(&out, laid ? count : 0);
	fan_udp_send(&a, &out, false);
	assert_int_equal(out.count, 0);
	unsigned calls = drain(&b, count);
	assert_got(count, 0, FAN_HEAD_BYTES + PAYLOAD);
	assert_int_equal(a.datagrams_out, count);
	assert_int_equal(b.datagrams_in, count);
	assert_int_equal(a.send_drops, 0);
	/* 65000 / 1440 = 45 datagrams a call */
	if (a.segment)
		assert_int_equal(a.sends, (count + 44) / 45);
	if (a.segment && b.gro)
		assert_int_equal(calls, (count + 44) / 45);
}

static void run_arrives(const char *at, bool plain_sender, bool plain_receiver, unsigned count)
{
	runs(false, at, plain_sender, plain_receiver, count);
	runs(true, at, plain_sender, plain_receiver, count);
}

TEST(run__arrives_split)
{
	run_arrives("127.0.0.1:0", false, false, 44);
	run_arrives("127.0.0.1:0", false, false, 100);
	run_arrives("127.0.0.1:0", false, false, 1);
	run_arrives("[::1]:0", false, false, 100);
}

TEST(run__plain_on_either_side_gives_the_same)
{
	run_arrives("127.0.0.1:0", true, true, 100);
	run_arrives("127.0.0.1:0", true, false, 100);
	run_arrives("127.0.0.1:0", false, true, 100);
	run_arrives("[::1]:0", true, true, 100);
}

/* A run ends with the first shorter datagram, or before a longer one. */
TEST(run__sizes_change_within)
{
	const size_t sizes[] = {1408, 1408, 700, 700, 1408, 0, 0, 64, 0, 1408, 8};
	const unsigned count = sizeof sizes / sizeof sizes[0];
	struct fan_udp a, b;
	struct fan_out out;

	for (int plain = 0; plain < 2; plain++) {
		open_at(&a, "127.0.0.1:0", plain);
		open_at(&b, "127.0.0.1:0", false);
		start(&out);
		for (unsigned i = 0; i < count; i++)
			add(&out, FAN_TO_PEER, sizes[i])->peer = fan_udp_local(&b);
		fan_udp_send(&a, &out, false);
		drain(&b, count);
		assert_int_equal(got.count, count);
		for (unsigned i = 0; i < count; i++) {
			assert_int_equal(got.number[i], i);
			assert_int_equal(got.bytes[i], FAN_HEAD_BYTES + sizes[i]);
			assert_true(got.whole[i]);
		}
		/* 1408 1408 700 | 700 | 1408 0 | 0 | 64 0 | 1408 8 */
		if (a.segment)
			assert_int_equal(a.sends, 6);
		fan_udp_close(&a);
		fan_udp_close(&b);
	}
}

TEST(run__connected_ignores_peers)
{
	UDP a, b;
	struct fan_out out;

	open_at(&b, "127.0.0.1:0", false);
	struct fan_udp_options o = {.connect = fan_udp_local(&b), .buffer_bytes = BUFFER_BYTES};
	assert_int_equal(fan_udp_open(&a, &o), 0);
	start(&out);
	for (unsigned i = 0; i < 50; i++)
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = peer("127.0.0.1:9");
	fan_udp_send(&a, &out, true);
	drain(&b, 50);
	assert_got(50, 0, FAN_HEAD_BYTES + PAYLOAD);
}

/* Nor what goes to nobody. */
TEST(run__connected_passes_over_nobody)
{
	UDP a, b;
	struct fan_out out;

	open_at(&b, "127.0.0.1:0", false);
	struct fan_udp_options o = {.connect = fan_udp_local(&b), .buffer_bytes = BUFFER_BYTES};
	assert_int_equal(fan_udp_open(&a, &o), 0);
	start(&out);
	for (unsigned i = 0; i < 50; i++)
		add(&out, i % 25 ? FAN_TO_NOBODY : FAN_TO_PEER, PAYLOAD);
	fan_udp_send(&a, &out, true);
	drain(&b, 2);
	assert_int_equal(got.count, 2);
	assert_int_equal(got.number[1], 25);
	if (a.segment)
		assert_int_equal(a.sends, 1);
}

TEST(run__largest_payload_fits_the_loopback)
{
	UDP a, b;
	struct fan_out out;

	open_at(&a, "127.0.0.1:0", false);
	open_at(&b, "127.0.0.1:0", false);
	start(&out);
	for (unsigned i = 0; i < 30; i++)
		add(&out, FAN_TO_PEER, FAN_PAYLOAD_MAX)->peer = fan_udp_local(&b);
	fan_udp_send(&a, &out, false);
	drain(&b, 30);
	assert_got(30, 0, FAN_HEAD_BYTES + FAN_PAYLOAD_MAX);
}

static void to_members(const char *at, bool plain)
{
	struct fan_udp a, b[MEMBERS];
	fan_peer peers[MEMBERS + 1];
	struct fan_out out;

	open_at(&a, at, plain);
	for (unsigned i = 0; i < MEMBERS; i++) {
		open_at(&b[i], at, plain);
		peers[i] = fan_udp_local(&b[i]);
	}
	peers[MEMBERS] = peers[0]; /* one has left */
	memset(&peers[0], 0, sizeof peers[0]);
	const struct fan_group g = {.peers = peers, .ranks = MEMBERS};
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	for (unsigned i = 0; i < MEMBERS; i++) {
		drain(&b[i], i ? 60 : 0);
		assert_got(i ? 60 : 0, 0, FAN_HEAD_BYTES + PAYLOAD);
		fan_udp_close(&b[i]);
	}
	assert_int_equal(a.datagrams_out, 60 * (MEMBERS - 1));
	if (a.segment)
		assert_int_equal(a.sends, 2 * (MEMBERS - 1));
	fan_udp_close(&a);
}

TEST(group__unicast_reaches_each_member_once)
{
	to_members("127.0.0.1:0", false);
	to_members("127.0.0.1:0", true);
	to_members("[::1]:0", false);
}

static unsigned shown(struct fan_ring_pair *h)
{
	unsigned n = 0;
	size_t bytes;
	while (fan_ring_pair_next(h, FAN_RING_PAIR_DOWN, &bytes)) {
		assert_int_equal(bytes, FAN_HEAD_BYTES + PAYLOAD);
		n++;
	}
	fan_ring_pair_release(h, FAN_RING_PAIR_DOWN);
	return n;
}

/* What was put into a ring pair before it was sealed goes to all others, and not there again; what
 * finds no room goes everywhere. */
TEST(inside__members_of_this_process_have_it_once)
{
	UDP a, b;
	struct fan_out out;
	open_at(&a, "127.0.0.1:0", false);
	open_at(&b, "127.0.0.1:0", false);
	const fan_peer peers[] = {peer("127.0.0.1:9"), fan_udp_local(&b), peer("127.0.0.1:10")};
	const struct fan_group g = {.peers = peers, .ranks = 3},
			       others = {.peers = &peers[1], .ranks = 1};
	struct fan_ring_pair *h[] = {fan_ring_pair_new(&peers[0], FAN_HEAD_BYTES + PAYLOAD),
				     fan_ring_pair_new(&peers[2], FAN_HEAD_BYTES + PAYLOAD)};
	a.pair[0] = h[0];
	a.pair[3] = h[1];
	start(&out);
	for (unsigned i = 0; i < 30; i++) {
		struct fan_out_item *it = add(&out, FAN_TO_GROUP, PAYLOAD);
		it->group = &g;
		assert_true(i >= 20 || fan_udp_put_inside(&a, it, false));
	}
	struct fan_out_item *alone = add(&out, FAN_TO_PEER, PAYLOAD);
	alone->peer = peers[2];
	assert_true(fan_udp_put_inside(&a, alone, false));
	assert_int_equal(alone->dest, FAN_TO_NOBODY);
	add(&out, FAN_TO_GROUP, PAYLOAD)->group = &others;
	assert_false(fan_udp_put_inside(&a, &out.item[31], false));
	assert_int_equal(shown(h[0]) + shown(h[1]), 0);
	fan_udp_send(&a, &out, false);
	drain(&b, 31);
	assert_int_equal(got.count, 31);
	assert_int_equal(shown(h[0]), 30);
	assert_int_equal(shown(h[1]), 31);
	assert_int_equal(a.datagrams_out, 31 + 30 + 31);
	while (fan_ring_pair_put(h[1], FAN_RING_PAIR_DOWN, &(struct iovec){"x", 1}, 1))
		;
	start(&out);
	add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	assert_false(fan_udp_put_inside(&a, &out.item[0], false));
	assert_false(out.item[0].inside);
	assert_int_equal(shown(h[0]), 0);
	fan_ring_pair_close(h[0]);
	fan_ring_pair_close(h[1]);
}

/* False if this kernel has no route for the group on the loopback. */
static bool by_multicast(const char *at, const char *via, const char *group, bool plain,
			 enum fan_dest dest)
{
	struct fan_udp a, b[MEMBERS];
	fan_peer local = peer(via);
	struct fan_udp_options o = {.bind = peer(group),
				    .freebind_group = true,
				    .buffer_bytes = BUFFER_BYTES,
				    .interface = fan_udp_interface_to(&local, NULL)};
	const struct fan_group g = {
		.multicast = dest == FAN_TO_GROUP, .addr = o.bind, .via = local};
	struct fan_out out;
	bool routed;

	assert_int_not_equal(o.interface, 0);
	open_at(&a, at, plain);
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(fan_udp_open(&b[i], &o), 0);
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		add(&out, dest, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	routed = a.datagrams_out > 0;
	for (unsigned i = 0; i < MEMBERS; i++) {
		drain(&b[i], routed ? 60 : 0);
		assert_got(routed ? 60 : 0, 0, FAN_HEAD_BYTES + PAYLOAD);
		fan_udp_close(&b[i]);
	}
	if (routed && a.segment)
		assert_int_equal(a.sends, 2);
	assert_int_equal(a.datagrams_out + a.send_drops, 60);
	fan_udp_close(&a);
	return routed;
}

TEST(group__multicast_reaches_each_member_once)
{
	assert_true(by_multicast("127.0.0.1:0", "127.0.0.1:0", GROUP_V4, false, FAN_TO_GROUP));
	assert_true(by_multicast("127.0.0.1:0", "127.0.0.1:0", GROUP_V4, true, FAN_TO_GROUP));
}

/* A socket on every interface sends by the one that leads to the members. */
TEST(group__multicast_from_the_wildcard)
{
	assert_true(by_multicast("0.0.0.0:0", "127.0.0.1:0", GROUP_V4, false, FAN_TO_GROUP));
}

TEST(group__test_goes_by_multicast_before_it_is_on)
{
	assert_true(by_multicast("127.0.0.1:0", "127.0.0.1:0", GROUP_V4, false, FAN_TO_MCAST));
}

/* Debian gives the loopback no route for ff00::/8; then members are reached one by one. */
TEST(group__multicast_over_ipv6)
{
	if (!by_multicast("[::1]:0", "[::1]:0", GROUP_V6, false, FAN_TO_GROUP))
		skip();
}

TEST(group__others_on_the_port_are_not_heard)
{
	UDP a, b;
	fan_peer local = peer("127.0.0.1:0");
	struct fan_udp_options o = {.bind = peer(GROUP_V4),
				    .freebind_group = true,
				    .interface = fan_udp_interface_to(&local, NULL)};
	struct fan_group g = {
		.multicast = true, .addr = peer(group_of(AF_INET, 196)), .via = local};
	struct fan_out out;

	open_at(&a, "127.0.0.1:0", false);
	assert_int_equal(fan_udp_open(&b, &o), 0);
	start(&out);
	add(&out, FAN_TO_GROUP, PAYLOAD)->group = &g;
	fan_udp_send(&a, &out, false);
	drain(&b, 0);
	assert_int_equal(got.count, 0);
}

/* A sender may make the receiver split a batch into single bytes. */
TEST(recv__hostile_segment_of_one_byte)
{
	UDP a, b;
	struct fan_udp_batch batch;
	struct sockaddr_storage ss;
	int one = 1;
	unsigned datagrams = 0;

	open_at(&a, "127.0.0.1:0", true);
	open_at(&b, "127.0.0.1:0", false);
	if (setsockopt(a.fd, IPPROTO_UDP, UDP_SEGMENT, &one, sizeof one))
		skip();
	fan_peer to = fan_udp_local(&b);
	socklen_t len = fan_peer_to_sockaddr(&to, AF_INET, &ss);
	assert_int_equal(sendto(a.fd, payload, 60, 0, (struct sockaddr *)&ss, len), 60);
	while (datagrams < 60 && recv_next(&b, &batch) == 1) {
		for (size_t at = 0; at < batch.bytes; at += fan_udp_datagram_bytes(&batch, at)) {
			assert_int_equal(fan_udp_datagram_bytes(&batch, at), 1);
			datagrams++;
		}
	}
	assert_int_equal(datagrams, 60);
	assert_int_equal(b.datagrams_in, 60);
}

/* What the sender's IP header says about congestion arrives, over either family and on a
 * socket for both. */
static void marked_between(const char *at, const char *to, const char *from, int level, int name)
{
	UDP a, b;
	struct fan_udp_batch batch;
	struct fan_out out;
	int ce = 3;

	open_at(&a, at, false);
	open_at(&b, from, false);
	for (unsigned i = 0; i < 2; i++) {
		fan_out_init(&out, item, ITEMS, NULL, 0);
		for (unsigned n = 0; n < 3; n++) {
			struct fan_out_item *it = add(&out, FAN_TO_PEER, 100);
			it->peer = peer(to);
			it->peer.port = fan_udp_local(&a).port;
		}
		fan_udp_send(&b, &out, false);
		assert_int_equal(recv_next(&a, &batch), 1);
		assert_int_equal(batch.marked, i);
		while (fan_udp_recv(&a, buffer, &batch) == 1)
			assert_int_equal(batch.marked, i);
		assert_int_equal(setsockopt(b.fd, level, name, &ce, sizeof ce), 0);
	}
}

TEST(recv__marks)
{
	marked_between("127.0.0.1:0", "127.0.0.1:1", "127.0.0.1:0", IPPROTO_IP, IP_TOS);
	marked_between("0.0.0.0:0", "127.0.0.1:1", "127.0.0.1:0", IPPROTO_IP, IP_TOS);
	marked_between("[::1]:0", "[::1]:1", "[::1]:0", IPPROTO_IPV6, IPV6_TCLASS);
	marked_between("[::]:0", "[::1]:1", "[::1]:0", IPPROTO_IPV6, IPV6_TCLASS);
	marked_between("[::]:0", "127.0.0.1:1", "127.0.0.1:0", IPPROTO_IP, IP_TOS);
}

/* Packets say that they may be marked: else no queue would. */
TEST(open__says_that_it_can_be_marked)
{
	struct fan_udp u;
	int field = 0;
	socklen_t len = sizeof field;

	open_at(&u, "127.0.0.1:0", false);
	assert_int_equal(getsockopt(u.fd, IPPROTO_IP, IP_TOS, &field, &len), 0);
	assert_int_equal(field & 3, 2); /* ECT(0) */
	fan_udp_close(&u);
	open_at(&u, "[::]:0", false);
	len = sizeof field;
	assert_int_equal(getsockopt(u.fd, IPPROTO_IPV6, IPV6_TCLASS, &field, &len), 0);
	assert_int_equal(field & 3, 2);
	fan_udp_close(&u);
}

/* A queue that nobody empties is full in the end, and one that is emptied is not. */
TEST(backlog__tells_how_full_the_queue_is)
{
	UDP a, b;
	struct fan_udp_batch batch;
	struct fan_out out;

	open_at(&a, "127.0.0.1:0", false);
	open_at(&b, "127.0.0.1:0", false);
	assert_int_equal(fan_udp_backlog_percent(&a), 0);
	for (unsigned i = 0; i < 64; i++) {
		fan_out_init(&out, item, ITEMS, NULL, 0);
		for (unsigned n = 0; n < 44; n++)
			add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&a);
		fan_udp_send(&b, &out, false);
	}
	assert_in_range(fan_udp_backlog_percent(&a), 75, 200);
	while (fan_udp_recv(&a, buffer, &batch) == 1)
		;
	assert_in_range(fan_udp_backlog_percent(&a), 0, 50); /* the kernel counts down in steps */
}

TEST(recv__empty_datagram_is_a_batch)
{
	UDP a, b;
	struct fan_udp_batch batch = {.bytes = 99};
	struct sockaddr_storage ss;

	open_at(&a, "127.0.0.1:0", false);
	open_at(&b, "127.0.0.1:0", false);
	fan_peer to = fan_udp_local(&b), from = fan_udp_local(&a);
	socklen_t len = fan_peer_to_sockaddr(&to, AF_INET, &ss);
	assert_int_equal(sendto(a.fd, "", 0, 0, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(recv_next(&b, &batch), 1);
	assert_int_equal(batch.bytes, 0);
	assert_int_equal(batch.segment, 1);
	assert_true(fan_peer_equal(&batch.from, &from));
	assert_int_equal(fan_udp_recv(&b, buffer, &batch), 0);
}

TEST(recv__refused_is_told_once)
{
	struct fan_udp a, b;
	struct fan_udp_batch batch;
	struct fan_out out;

	open_at(&b, "127.0.0.1:0", false);
	struct fan_udp_options o = {.connect = fan_udp_local(&b)};
	assert_int_equal(fan_udp_open(&a, &o), 0);
	fan_udp_close(&b);
	start(&out);
	add(&out, FAN_TO_PEER, 8);
	fan_udp_send(&a, &out, true);
	assert_int_equal(recv_next(&a, &batch), -ECONNREFUSED);
	assert_int_equal(fan_udp_recv(&a, buffer, &batch), 0);
	fan_udp_close(&a);
}

/* The ICMP error of one datagram must not lose the next. */
TEST(send__goes_on_after_refused)
{
	struct fan_udp a, b;
	struct fan_out out;

	open_at(&b, "127.0.0.1:0", false);
	fan_peer at = fan_udp_local(&b);
	struct fan_udp_options o = {.connect = at}, again = {.bind = at};
	assert_int_equal(fan_udp_open(&a, &o), 0);
	fan_udp_close(&b);
	start(&out);
	add(&out, FAN_TO_PEER, 8);
	fan_udp_send(&a, &out, true);
	assert_int_equal(fan_udp_open(&b, &again), 0);
	add(&out, FAN_TO_PEER, 8);
	fan_udp_send(&a, &out, true);
	drain(&b, 1);
	assert_int_equal(got.count, 1);
	assert_int_equal(a.send_drops, 0);
	fan_udp_close(&a);
	fan_udp_close(&b);
}

/* Too long for the path: told, dropped, and segmenting goes on. */
TEST(send__beyond_the_mtu_is_dropped_and_told)
{
	static uint8_t big[66000];
	struct fan_udp a, b;
	struct fan_out out;
	for (int plain = 0; plain < 2; plain++) {
		open_at(&a, "127.0.0.1:0", plain);
		open_at(&b, "127.0.0.1:0", false);
		start(&out);
		struct fan_out_item *it = fan_out_add(&out, FAN_TO_PEER);
		it->peer = fan_udp_local(&b);
		it->payload = big;
		it->payload_bytes = sizeof big;
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b);
		fan_udp_send(&a, &out, false);
		drain(&b, 1);
		assert_got(1, 1, FAN_HEAD_BYTES + PAYLOAD);
		assert_int_equal(a.send_drops, 1);
		assert_int_equal(a.last_errno, EMSGSIZE);
		assert_int_equal(a.segment, !plain);
		fan_udp_close(&a);
		fan_udp_close(&b);
	}
}

/* What plain datagrams cannot reach either is no reason to stop segmenting. */
TEST(send__a_bad_address_keeps_segmenting)
{
	UDP a;
	struct fan_out out;
	open_at(&a, "127.0.0.1:0", false);
	bool had = a.segment;
	start(&out);
	for (unsigned i = 0; i < 5; i++)
		add(&out, FAN_TO_PEER, 64)->peer = peer("127.0.0.1:0");
	fan_udp_send(&a, &out, false);
	assert_int_equal(a.send_drops, 5);
	assert_int_equal(a.last_errno, EINVAL);
	assert_int_equal(a.segment, had);
}

/* An address of the other family cannot be sent to. */
TEST(send__to_the_other_family_is_dropped)
{
	UDP a;
	struct fan_out out;
	open_at(&a, "127.0.0.1:0", false);
	start(&out);
	add(&out, FAN_TO_PEER, 8)->peer = peer("[::1]:9");
	fan_udp_send(&a, &out, false);
	assert_int_equal(a.datagrams_out, 0);
	assert_int_equal(a.send_drops, 1);
}

/* What it sends is not cut, and may have the interface's length whatever ICMP messages say. */
TEST(open__believes_no_router)
{
	static const char *const at[] = {"127.0.0.1:0", "[::1]:0", "[::]:0"};
	struct fan_udp u;

	for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
		int how[2] = {-1, -1};
		socklen_t len = sizeof how[0];
		open_at(&u, at[i], false);
		getsockopt(u.fd, IPPROTO_IP, IP_MTU_DISCOVER, &how[0], &len);
		getsockopt(u.fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &how[1], &len);
		if (u.family == AF_INET || u.dual)
			assert_int_equal(how[0], IP_PMTUDISC_PROBE);
		if (u.family == AF_INET6)
			assert_int_equal(how[1], IPV6_PMTUDISC_PROBE);
		fan_udp_close(&u);
	}
}

TEST(open__port_in_use)
{
	struct fan_udp a, b;
	open_at(&a, "127.0.0.1:0", false);
	struct fan_udp_options o = {.bind = fan_udp_local(&a)};
	assert_int_equal(fan_udp_open(&b, &o), -EADDRINUSE);
	assert_int_equal(b.fd, -1);
	fan_udp_close(&a);
}

TEST(open__families_that_differ)
{
	struct fan_udp a;
	struct fan_udp_options o = {.bind = peer("127.0.0.1:0"), .connect = peer("[::1]:9")};
	assert_int_equal(fan_udp_open(&a, &o), -EAFNOSUPPORT);
}

UNIT_MAIN
