/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>

#include "clock.h"
#include "core/base/err.h"
#include "shard_priv.h"

static void receive_hatch(struct fan_shard *s, struct fan_hatch **hatch)
{
	struct fan_hatch *h = *hatch;
	const bool closed = fan_hatch_is_closed(h);
	const uint64_t now = fan_clock_ns();
	size_t bytes;
	uint8_t *pkt;
	unsigned i = 0;

	for (; i < FAN_HATCH_PLACES && (pkt = fan_hatch_next(h, FAN_HATCH_UP, &bytes)); i++) {
		fan_shard_give(s, now, fan_hatch_rank(h), pkt, bytes, false);
		s->udp[0].bytes_in += bytes;
	}
	s->udp[0].datagrams_in += i;
	if (i)
		fan_hatch_let_go(h, FAN_HATCH_UP);
	fan_shard_flush(s);
	if (closed && i < FAN_HATCH_PLACES) { /* that was the last */
		fan_hatch_close(h);
		*hatch = NULL;
	}
}

void fan_shard_receive_hatches(struct fan_shard *s)
{
	for (unsigned i = 0; i < FAN_UDP_HATCHES; i++) {
		if (!s->udp[0].hatch[i])
			continue;
		fan_hatch_awake(s->udp[0].hatch[i], FAN_HATCH_UP);
		receive_hatch(s, &s->udp[0].hatch[i]);
	}
}

bool fan_shard_may_sleep(struct fan_shard *s)
{
	bool may = true;

	for (unsigned i = 0; i < FAN_UDP_HATCHES; i++)
		if (s->udp[0].hatch[i])
			may &= fan_hatch_may_sleep(s->udp[0].hatch[i], FAN_HATCH_UP);
	return may;
}

int fan_shard_take_hatch(struct fan_shard *s, struct fan_hatch *h, const fan_peer *local)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u32 = FAN_SHARD_HATCHES};
	unsigned i = 0;

	while (i < FAN_UDP_HATCHES && s->udp[0].hatch[i])
		i++;
	if (s->slots || i == FAN_UDP_HATCHES)
		return FAN_E_BUSY;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fan_hatch_fd(h, FAN_HATCH_UP), &ev))
		return FAN_E_SYSTEM;
	if (s->udp[0].locals) /* for what has no room in it */
		fan_locals_put(s->udp[0].locals, fan_hatch_rank(h), local->addr);
	s->udp[0].hatch[i] = h;
	return FAN_OK;
}
