/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>

#include "clock.h"
#include "core/base/err.h"
#include "shard_priv.h"

static void receive_ring(struct fan_shard *s, struct fan_ring_pair **pair)
{
	struct fan_ring_pair *h = *pair;
	const bool closed = fan_ring_pair_is_closed(h);
	const uint64_t now = fan_clock_ns();
	size_t bytes;
	uint8_t *pkt;
	unsigned i = 0;

	for (; i < FAN_RING_PAIR_PLACES && (pkt = fan_ring_pair_next(h, FAN_RING_PAIR_UP, &bytes));
	     i++) {
		fan_shard_give(s, now, fan_ring_pair_rank(h), pkt, bytes, false);
		s->udp[0].bytes_in += bytes;
	}
	s->udp[0].datagrams_in += i;
	if (i)
		fan_ring_pair_release(h, FAN_RING_PAIR_UP);
	fan_shard_flush(s);
	if (closed && i < FAN_RING_PAIR_PLACES) { /* that was the last */
		fan_ring_pair_close(h);
		*pair = NULL;
	}
}

void fan_shard_receive_rings(struct fan_shard *s)
{
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++) {
		if (!s->udp[0].pair[i])
			continue;
		fan_ring_pair_awake(s->udp[0].pair[i], FAN_RING_PAIR_UP);
		receive_ring(s, &s->udp[0].pair[i]);
	}
}

bool fan_shard_may_sleep(struct fan_shard *s)
{
	bool may = true;

	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		if (s->udp[0].pair[i])
			may &= fan_ring_pair_may_sleep(s->udp[0].pair[i], FAN_RING_PAIR_UP);
	return may;
}

int fan_shard_take_rings(struct fan_shard *s, struct fan_ring_pair *h, const fan_peer *local)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u32 = FAN_SHARD_RING_PAIRES};
	unsigned i = 0;

	while (i < FAN_UDP_RING_PAIRS && s->udp[0].pair[i])
		i++;
	if (s->slots || i == FAN_UDP_RING_PAIRS)
		return FAN_E_BUSY;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fan_ring_pair_fd(h, FAN_RING_PAIR_UP), &ev))
		return FAN_E_SYSTEM;
	if (s->udp[0].locals) /* for what has no room in it */
		fan_locals_put(s->udp[0].locals, fan_ring_pair_rank(h), local->addr);
	s->udp[0].pair[i] = h;
	return FAN_OK;
}
