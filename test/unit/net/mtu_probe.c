/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict itself, against paths that lose large datagrams: test/net/icmp.sh. */
#include "unit/unit.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "core/wire/ctlmsg.h"
#include "net/mtu_probe.h"
#include "net/netlink.h"
#include "net/udp.h"

#define NOW   (1000 * FAN_MS)
#define STALL 30000
#define LONG  1472

/* The nonces of the last ECHOs of a test in progress. */
#define NONCE	  UINT64_C(0x1234567800000001)
#define SHORT_ONE UINT64_C(0x2234567800000001)
#define ROUTERS	  UINT64_C(0x3234567800000001)
#define ASKED                                                                                      \
	.echo = {{.nonce = NONCE, .asked = 1},                                                     \
		 {.nonce = SHORT_ONE, .asked = 1},                                                 \
		 {.nonce = ROUTERS, .asked = 1}}

static size_t answer_of(const struct fan_echoed *who, uint8_t *pkt, uint64_t nonce, size_t bytes)
{
	static uint8_t scratch[FAN_ECHO_MAX];
	static struct fan_out_item item;
	uint8_t body[FAN_ECHO_MAX] = {0};
	struct fan_frag h = {.nonce = nonce, .type = FAN_TYPE_REPORT, .topic = FAN_TOPIC_ECHO};
	struct fan_out out;

	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	fan_ctl_put(body, who);
	fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, bytes - FAN_HEAD_BYTES);
	memcpy(pkt, item.head, FAN_HEAD_BYTES);
	memcpy(pkt + FAN_HEAD_BYTES, body, bytes - FAN_HEAD_BYTES);
	return bytes;
}

static size_t answer(uint8_t *pkt, uint64_t nonce, size_t bytes)
{
	static const struct fan_echoed who = {.payload_bytes = 1408, .shards = 1, .window = 16};

	return answer_of(&who, pkt, nonce, bytes);
}

TEST(mtu_probe__waits_for_a_result_first)
{
	struct fan_mtu_probe t = {.next_ns = 0};

	assert_true(fan_mtu_probe_deadline(&t) == UINT64_MAX);
	fan_mtu_probe_sent(&t, LONG, NOW, STALL);
	assert_true(fan_mtu_probe_deadline(&t) == NOW + FAN_MTU_PROBE_AFTER_MS * FAN_MS);
	fan_mtu_probe_sent(&t, LONG, NOW + FAN_MS,
			   STALL); /* again: it has waited since the first */
	assert_true(fan_mtu_probe_deadline(&t) == NOW + FAN_MTU_PROBE_AFTER_MS * FAN_MS);
	fan_mtu_probe_result(&t);
	assert_true(fan_mtu_probe_deadline(&t) == UINT64_MAX);
}

TEST(mtu_probe__is_over_within_the_stall_time)
{
	struct fan_mtu_probe t = {.next_ns = 0};

	fan_mtu_probe_sent(&t, LONG, NOW, 800);
	assert_true(fan_mtu_probe_deadline(&t) == NOW + 100 * FAN_MS);
	assert_true(1.0 / FAN_MTU_PROBE_PART + (1.0 + FAN_MTU_PROBE_ROUNDS) / FAN_MTU_PROBE_PARTS <
		    0.6);
}

/* What every path takes says nothing. */
TEST(mtu_probe__short_datagrams_begin_none)
{
	struct fan_mtu_probe t = {.next_ns = 0};

	fan_mtu_probe_sent(&t, 528, NOW, STALL);
	assert_true(fan_mtu_probe_deadline(&t) == UINT64_MAX);
	fan_mtu_probe_sent(&t, 529, NOW, STALL);
	assert_true(fan_mtu_probe_deadline(&t) != UINT64_MAX);
}

TEST(mtu_probe__long_answer_passes_it)
{
	struct fan_mtu_probe t = {ASKED, .bytes = LONG, .rounds = 3, .next_ns = NOW};
	uint8_t pkt[FAN_HEAD_BYTES + FAN_ECHO_MAX];

	assert_true(fan_mtu_probe_heard(&t, pkt, answer(pkt, NONCE, LONG - 8), NOW));
	assert_int_equal(t.rounds, 3); /* not as long as what was sent */
	assert_true(fan_mtu_probe_heard(&t, pkt, answer(pkt, NONCE, LONG), NOW));
	assert_int_equal(t.rounds, 0);
	assert_true(fan_mtu_probe_deadline(&t) == NOW + FAN_MTU_PROBE_AGAIN_MS * FAN_MS);
}

TEST(mtu_probe__short_answers_count)
{
	struct fan_mtu_probe t = {ASKED, .bytes = LONG, .rounds = 3, .told_bytes = 1372,
				  .next_ns = NOW};
	uint8_t pkt[FAN_HEAD_BYTES + FAN_ECHO_MAX];

	assert_true(fan_mtu_probe_heard(&t, pkt, answer(pkt, SHORT_ONE, 100), NOW));
	assert_int_equal(t.short_heard, 1);
	assert_true(fan_mtu_probe_heard(&t, pkt, answer(pkt, ROUTERS, 1371), NOW));
	assert_false(t.told_heard);
	assert_true(fan_mtu_probe_heard(&t, pkt, answer(pkt, ROUTERS, 1372), NOW));
	assert_true(t.told_heard);
	assert_int_equal(t.rounds, 3);
}

/* A switch whose own path to the server is too narrow stands for nothing longer than that. */
TEST(mtu_probe__long_answer_of_one_who_loses_them_behind_passes_nothing)
{
	struct fan_mtu_probe t = {ASKED, .bytes = LONG, .rounds = 3, .next_ns = NOW};
	struct fan_echoed who = {
		.payload_bytes = 1408, .shards = 1, .window = 16, .behind_loses = LONG};
	uint8_t pkt[FAN_HEAD_BYTES + FAN_ECHO_MAX];

	assert_true(fan_mtu_probe_heard(&t, pkt, answer_of(&who, pkt, NONCE, LONG), NOW));
	assert_int_equal(t.rounds, 3);
	assert_int_equal(t.behind_bytes, LONG);
	who.behind_loses = LONG + 1; /* longer than what is sent */
	assert_true(fan_mtu_probe_heard(&t, pkt, answer_of(&who, pkt, NONCE, LONG), NOW));
	assert_int_equal(t.rounds, 0);
	assert_int_equal(t.behind_bytes, 0);
}

/* Who sees no packet does not know the nonce. */
TEST(mtu_probe__strangers_answer_nothing)
{
	struct fan_mtu_probe t = {ASKED, .bytes = LONG, .rounds = 3, .next_ns = NOW};
	struct fan_mtu_probe none = {.next_ns = 0};
	uint8_t pkt[FAN_HEAD_BYTES + FAN_ECHO_MAX];

	assert_false(fan_mtu_probe_heard(&t, pkt, answer(pkt, NONCE - 1, LONG), NOW));
	assert_false(fan_mtu_probe_heard(&t, pkt, answer(pkt, NONCE + 1, LONG), NOW));
	size_t len = answer(pkt, NONCE, LONG);
	assert_false(fan_mtu_probe_heard(&t, pkt, FAN_HEAD_BYTES - 1, NOW));
	pkt[len - 1] ^= 1; /* its check does not hold */
	assert_false(fan_mtu_probe_heard(&t, pkt, len, NOW));
	assert_int_equal(t.rounds, 3);
	assert_false(fan_mtu_probe_heard(&none, pkt, answer(pkt, 0, LONG), NOW));
}

/* ---- what the kernel says of a path ---- */

TEST(path__of_the_loopback)
{
	static const char *const at[] = {"127.0.0.1:5000", "127.0.0.1:0", "[::1]:5000"};

	for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
		fan_peer to;
		struct fan_next_hop p;
		assert_true(fan_peer_read(&to, at[i]));
		fan_next_hop_read(&p, &to);
		assert_int_equal(p.interface, if_nametoindex("lo"));
		assert_int_equal(p.mtu, 65535);
		assert_int_equal(p.told_mtu, 0);
		assert_false(p.by_gateway);
		assert_false(p.redirected);
	}
}

TEST(path__of_no_route)
{
	fan_peer to;
	struct fan_next_hop p;

	assert_true(fan_peer_read(&to, "240.0.0.1:5000"));
	fan_next_hop_read(&p, &to);
	if (!p.interface) { /* a machine may have one */
		assert_int_equal(p.mtu, 0);
		assert_int_equal(p.told_mtu, 0);
	}
}

TEST(told__what_icmp_can_say)
{
	static const int can[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, ENOPROTOOPT,
				  EOPNOTSUPP,	EHOSTDOWN,    ENONET,	   EPROTO,   EACCES};
	static const int cannot[] = {0, EAGAIN, EBADF, EINVAL, EIO, ENOBUFS, ENOTCONN, EFAULT};

	for (unsigned i = 0; i < sizeof can / sizeof *can; i++)
		assert_true(fan_udp_is_told(can[i]));
	for (unsigned i = 0; i < sizeof cannot / sizeof *cannot; i++)
		assert_false(fan_udp_is_told(cannot[i]));
}

UNIT_MAIN
