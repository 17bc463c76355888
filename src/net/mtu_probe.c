/* SPDX-License-Identifier: Apache-2.0 */
#include "mtu_probe.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "netlink.h"

#define BODY_MIN_BYTES (FAN_MTU_PROBE_MTU_MIN - 48 - FAN_HEAD_BYTES)

/* A time of `ms`, or that part of the stall time if it is less. */
static uint64_t within_ns(unsigned ms, uint32_t stall_ms, unsigned part)
{
	assert(part > 0);
	uint64_t ns = ms * FAN_MS, most_ns = stall_ms * FAN_MS / part;
	return stall_ms && most_ns < ns ? most_ns : ns;
}

void fan_mtu_probe_sent(struct fan_mtu_probe *t, uint32_t bytes, uint64_t now_ns, uint32_t stall_ms)
{
	if (bytes <= t->bytes || bytes <= FAN_HEAD_BYTES + BODY_MIN_BYTES || t->rounds)
		return;
	t->bytes = bytes;
	t->next_ns = now_ns + within_ns(FAN_MTU_PROBE_AFTER_MS, stall_ms, FAN_MTU_PROBE_PART);
}

void fan_mtu_probe_result(struct fan_mtu_probe *t)
{
	*t = (struct fan_mtu_probe){.next_ns = 0};
}

static void pass(struct fan_mtu_probe *t, uint64_t now_ns)
{
	t->rounds = 0;
	t->next_ns = now_ns + FAN_MTU_PROBE_AGAIN_MS * FAN_MS;
}

/* A long ECHO has been answered: the test is passed, unless the path behind loses such
 * datagrams. */
static void long_heard(struct fan_mtu_probe *t, const struct fan_echoed *who, uint64_t now_ns)
{
	bool loses = who->behind_loses > FAN_HEAD_BYTES && who->behind_loses <= t->bytes;
	t->behind_bytes = loses ? who->behind_loses : 0;
	if (!loses)
		pass(t, now_ns);
}

bool fan_mtu_probe_heard(struct fan_mtu_probe *t, const uint8_t *pkt, size_t len, uint64_t now_ns)
{
	struct fan_echoed who;
	unsigned i = 0;
	while (i < FAN_MTU_PROBE_ECHOS && fan_echo_heard(&t->echo[i], pkt, len, &who) < 0)
		i++;
	if (i == FAN_MTU_PROBE_LONG && t->rounds && len >= t->bytes)
		long_heard(t, &who, now_ns);
	t->short_heard += i == FAN_MTU_PROBE_SHORT;
	t->told_heard |= i == FAN_MTU_PROBE_TOLD && len >= t->told_bytes;
	return i < FAN_MTU_PROBE_ECHOS;
}

static void begin(struct fan_mtu_probe *t)
{
	memset(t->echo, 0, sizeof t->echo);
	t->short_heard = 0;
	t->told_heard = false;
	t->told_bytes = t->behind_bytes = 0;
}

/* The MTU that the kernel has by ICMP meanwhile, if it could be the cause. */
static void follow_router(struct fan_mtu_probe *t, const struct fan_udp *udp, const fan_peer *to)
{
	const uint32_t lower = udp->family == AF_INET ? 28 : 48;
	struct fan_next_hop path;
	fan_next_hop_read(&path, to);
	if (path.told_mtu < FAN_MTU_PROBE_MTU_MIN || (uint32_t)path.told_mtu - lower >= t->bytes)
		return;
	t->told_mtu = path.told_mtu;
	t->told_bytes = (uint32_t)path.told_mtu - lower;
}

bool fan_mtu_probe_turn(struct fan_mtu_probe *t, struct fan_udp *udp, const fan_peer *to,
			bool connected, uint32_t stall_ms, uint64_t now_ns)
{
	if (!t->next_ns || now_ns < t->next_ns)
		return false;
	if (!t->rounds)
		begin(t);
	if (t->rounds >= FAN_MTU_PROBE_ROUNDS) {
		if (t->short_heard >= FAN_MTU_PROBE_ANSWERS)
			return true;
		pass(t, now_ns); /* nothing passes: the cause is another */
		return false;
	}
	t->rounds++;
	t->next_ns = now_ns + within_ns(FAN_MTU_PROBE_STEP_MS, stall_ms, FAN_MTU_PROBE_PARTS);
	if (!t->told_bytes)
		follow_router(t, udp, to);
	const fan_peer *at = connected ? NULL : to;
	fan_echo_ask(&t->echo[FAN_MTU_PROBE_SHORT], udp, at, FAN_ECHO_BYTES, now_ns);
	if (t->told_bytes)
		fan_echo_ask(&t->echo[FAN_MTU_PROBE_TOLD], udp, at, t->told_bytes, now_ns);
	fan_echo_ask(&t->echo[FAN_MTU_PROBE_LONG], udp, at, t->bytes, now_ns);
	return false;
}

uint64_t fan_mtu_probe_deadline(const struct fan_mtu_probe *t)
{
	return t->next_ns ? t->next_ns : UINT64_MAX;
}
