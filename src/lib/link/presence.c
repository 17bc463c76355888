/* SPDX-License-Identifier: Apache-2.0 */
#include "presence.h"

#include <assert.h>

#include "connection.h"
#include "core/wire/ctlmsg.h"
#include "net/clock.h"

/* That part of alive_ms; before a WELCOME has told it, FAN_PRESENCE_JOIN_MS. */
static uint64_t part_of_alive_ns(const struct fan_connection *cn, unsigned parts)
{
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	assert(parts > 0);
	return m ? m->alive_ms * FAN_MS / parts : FAN_PRESENCE_JOIN_MS * FAN_MS;
}

void fan_presence_came(struct fan_connection *cn, uint64_t now_ns)
{
	const uint64_t wait_ns = part_of_alive_ns(cn, FAN_PRESENCE_AFTER);
	cn->presence = (struct fan_presence){.next_ns = wait_ns ? now_ns + wait_ns : 0};
}

bool fan_presence_heard(struct fan_presence *p, const uint8_t *pkt, size_t len)
{
	struct fan_frag f;
	if (!p->nonce || len < FAN_HEAD_BYTES || fan_wire_nonce(pkt) != p->nonce ||
	    fan_wire_get(&f, pkt, len) >= 0 || f.type != FAN_TYPE_REPORT ||
	    f.topic != FAN_TOPIC_ECHO)
		return false;
	p->answered = true;
	return true;
}

uint64_t fan_presence_deadline(const struct fan_connection *cn)
{
	const bool asks = fan_worker_phase(cn->w) == FAN_W_READY || !fan_worker_welcome(cn->w);
	return asks && cn->presence.next_ns ? cn->presence.next_ns : UINT64_MAX;
}

void fan_presence_turn(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_presence *p = &cn->presence;
	if (now_ns < fan_presence_deadline(cn))
		return;
	if (!p->nonce)
		p->nonce = fan_clock_nonce() | 1;
	p->next_ns = now_ns + part_of_alive_ns(cn, FAN_PRESENCE_AGAIN);
	fan_path_ask(&cn->udp, NULL, p->nonce, FAN_HEAD_BYTES + FAN_ECHO_MIN);
}
