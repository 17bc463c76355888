/* SPDX-License-Identifier: Apache-2.0 */
/* envelope.h - the envelope in which control messages pass switches.
 *
 * Up, a switch puts a child's message into a RELAY with a token that stands for the child;
 * down, the aggregator's answer comes in one with the same token.  A switch on the way puts its
 * own token in place of the one that came.  The aggregator takes a switch and a token for an
 * address: fan_peer keeps the token above the port.  doc/protocol/shared.md. */
#ifndef FAN_WIRE_ENVELOPE_H
#define FAN_WIRE_ENVELOPE_H

#include "ctlmsg.h"

#define FAN_PORT_BITS 16u

struct fan_envelope {
	uint16_t token; /* of the child; never 0 */
	uint8_t hops;	/* switches passed; 0 on the way down */
	/* Down, if the job exists: what a switch must know of it.  ranks 0: it does not. */
	uint16_t rank; /* the child's */
	uint16_t ranks;
	uint16_t window;
	uint16_t payload_bytes;
	const uint8_t *inner; /* a control message, header and body */
	size_t inner_bytes;
};

/* Where the member of address `p` is reached: at the switch it is behind, or itself. */
static inline fan_peer fan_peer_hop(const fan_peer *p)
{
	fan_peer hop = *p;
	hop.port &= (1u << FAN_PORT_BITS) - 1;
	return hop;
}

/* The token that stands for it there; 0: it is behind nothing. */
static inline uint16_t fan_peer_token(const fan_peer *p)
{
	return (uint16_t)(p->port >> FAN_PORT_BITS);
}

static inline fan_peer fan_peer_behind(const fan_peer *hop, uint16_t token)
{
	fan_peer p = fan_peer_hop(hop);
	p.port |= (uint32_t)token << FAN_PORT_BITS;
	return p;
}

/* Are both reached at the same place? */
static inline bool fan_peer_same_hop(const fan_peer *a, const fan_peer *b)
{
	fan_peer x = fan_peer_hop(a), y = fan_peer_hop(b);
	return fan_peer_equal(&x, &y);
}

/* Read the RELAY whose header fan_wire_get accepted.  What is inside has not been
 * looked at.  FAN_OK, or FAN_E_SHORT, FAN_E_FORMAT. */
enum fan_err fan_envelope_get(struct fan_envelope *v, const struct fan_frag *f);

/* Make `it` the envelope `v` of a message of `job` and `epoch`: the header `head` and the
 * `body` behind it, in scratch of `out`.  v->inner is not looked at. */
void fan_envelope_put(struct fan_out_item *it, struct fan_out *out, const struct fan_envelope *v,
		      uint32_t job, uint32_t epoch, const uint8_t *head, const uint8_t *body,
		      size_t body_bytes);

#endif
