/* SPDX-License-Identifier: Apache-2.0 */
#include "path_test.h"

#include <assert.h>
#include <sys/socket.h>

#include "clock.h"
#include "core/wire/ctlmsg.h"
#include "path.h"

/* Which ECHO of a test: what its nonce has more. */
enum which {
	LONG,
	SHORT,
	TOLD, /* of the length that ICMP reports for a router */
	WHICH_COUNT
};

#define BODY_MIN_BYTES (FAN_PATH_TEST_MTU_MIN - 48 - FAN_HEAD_BYTES)

/* A time of `ms`, or that part of the stall time if it is less. */
static uint64_t within_ns(unsigned ms, uint32_t stall_ms, unsigned part)
{
	assert(part > 0);
	uint64_t ns = ms * FAN_MS, most_ns = stall_ms * FAN_MS / part;
	return stall_ms && most_ns < ns ? most_ns : ns;
}

void fan_path_test_sent(struct fan_path_test *t, uint32_t bytes, uint64_t now_ns, uint32_t stall_ms)
{
	if (bytes <= t->bytes || bytes <= FAN_HEAD_BYTES + BODY_MIN_BYTES || t->rounds)
		return;
	t->bytes = bytes;
	t->next_ns = now_ns + within_ns(FAN_PATH_TEST_AFTER_MS, stall_ms, FAN_PATH_TEST_PART);
}

void fan_path_test_result(struct fan_path_test *t)
{
	*t = (struct fan_path_test){.next_ns = 0};
}

static void pass(struct fan_path_test *t, uint64_t now_ns)
{
	t->rounds = 0;
	t->next_ns = now_ns + FAN_PATH_TEST_AGAIN_MS * FAN_MS;
}

/* A long ECHO has been answered: the test is passed, unless the path behind loses such
 * datagrams. */
static void long_heard(struct fan_path_test *t, const struct fan_frag *f, uint64_t now_ns)
{
	struct fan_echoed who;
	bool knows = fan_echoed_get(&who, f) == FAN_OK && who.behind_loses > FAN_HEAD_BYTES;
	t->behind_bytes = knows && who.behind_loses <= t->bytes ? who.behind_loses : 0;
	if (!t->behind_bytes)
		pass(t, now_ns);
}

bool fan_path_test_heard(struct fan_path_test *t, const uint8_t *pkt, size_t len, uint64_t now_ns)
{
	struct fan_frag f;
	if (!t->nonce || len < FAN_HEAD_BYTES || fan_wire_nonce(pkt) - t->nonce >= WHICH_COUNT ||
	    fan_wire_get(&f, pkt, len) >= 0 || f.type != FAN_TYPE_REPORT ||
	    f.topic != FAN_TOPIC_ECHO)
		return false;
	switch ((enum which)(f.nonce - t->nonce)) {
	case LONG:
		if (t->rounds && len >= t->bytes)
			long_heard(t, &f, now_ns);
		break;
	case SHORT: t->short_heard++; break;
	default: t->told_heard |= len >= t->told_bytes; break;
	}
	return true;
}

static void begin(struct fan_path_test *t)
{
	t->nonce = fan_clock_nonce() | 1;
	t->short_heard = 0;
	t->told_heard = false;
	t->told_bytes = t->behind_bytes = 0;
}

/* The MTU that ICMP has told the kernel meanwhile, if it could be the cause. */
static void heed_router(struct fan_path_test *t, const struct fan_udp *udp, const fan_peer *to)
{
	const uint32_t lower = udp->family == AF_INET ? 28 : 48;
	struct fan_path path;
	fan_path_read(&path, to);
	if (path.told_mtu < FAN_PATH_TEST_MTU_MIN || (uint32_t)path.told_mtu - lower >= t->bytes)
		return;
	t->told_mtu = path.told_mtu;
	t->told_bytes = (uint32_t)path.told_mtu - lower;
}

void fan_path_ask(struct fan_udp *udp, const fan_peer *to, uint64_t nonce, uint32_t bytes)
{
	assert(bytes >= FAN_HEAD_BYTES);
	const struct fan_echo m = {.body_bytes = (uint16_t)(bytes - FAN_HEAD_BYTES)};
	struct fan_frag h = {
		.nonce = nonce,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_QUERY,
		.topic = FAN_TOPIC_ECHO,
	};
	struct fan_out_item item;
	struct fan_out out;
	uint8_t body[FAN_ECHO_MAX];
	fan_out_init(&out, &item, 1, NULL, 0);
	fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, fan_echo_put(body, &m));
	if (to)
		item.peer = *to;
	fan_udp_send(udp, &out, !to);
}

bool fan_path_test_turn(struct fan_path_test *t, struct fan_udp *udp, const fan_peer *to,
			bool connected, uint32_t stall_ms, uint64_t now_ns)
{
	if (!t->next_ns || now_ns < t->next_ns)
		return false;
	if (!t->rounds)
		begin(t);
	if (t->rounds >= FAN_PATH_TEST_ROUNDS) {
		if (t->short_heard >= FAN_PATH_TEST_SHORT)
			return true;
		pass(t, now_ns); /* nothing passes: the cause is another */
		return false;
	}
	t->rounds++;
	t->next_ns = now_ns + within_ns(FAN_PATH_TEST_STEP_MS, stall_ms, FAN_PATH_TEST_PARTS);
	if (!t->told_bytes)
		heed_router(t, udp, to);
	fan_path_ask(udp, connected ? NULL : to, t->nonce + SHORT, FAN_HEAD_BYTES + FAN_ECHO_MIN);
	if (t->told_bytes)
		fan_path_ask(udp, connected ? NULL : to, t->nonce + TOLD, t->told_bytes);
	fan_path_ask(udp, connected ? NULL : to, t->nonce + LONG, t->bytes);
	return false;
}

uint64_t fan_path_test_deadline(const struct fan_path_test *t)
{
	return t->next_ns ? t->next_ns : UINT64_MAX;
}
