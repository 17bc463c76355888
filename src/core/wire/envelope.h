/* SPDX-License-Identifier: Apache-2.0 */
/* envelope.h - RELAY, the envelope in which control messages pass switches.
 *
 * Upwards, a switch wraps a child's message in a RELAY with a token for the child; downwards,
 * the aggregator's answer comes in one with the same token.  Each further switch replaces the
 * token by its own.  To the aggregator, a switch and a token are an address: fan_peer holds the
 * token above the port.  doc/protocol/shared.md. */
#ifndef FAN_WIRE_ENVELOPE_H
#define FAN_WIRE_ENVELOPE_H

#include "ctlmsg.h"

#define FAN_PORT_BITS 16u

struct fan_envelope {
	uint16_t token; /* of the child; never 0 */
	uint8_t hops;	/* switches passed on the path up; 0 down */
	/* Downwards: the job, as far as a switch must know it.  ranks 0: there is no such job. */
	uint16_t rank; /* of the child */
	uint16_t ranks;
	uint16_t window;
	uint16_t payload_bytes;
	const uint8_t *inner; /* a control message, header and body */
	size_t inner_bytes;
};

/* The next hop towards the member of address `p`: the switch in front of it, or itself. */
static inline fan_peer fan_peer_hop(const fan_peer *p)
{
	fan_peer hop = *p;
	hop.port &= (1u << FAN_PORT_BITS) - 1;
	return hop;
}

/* The member's token at that switch; 0: there is no switch in front of it. */
static inline uint16_t fan_peer_token(const fan_peer *p)
{
	return (uint16_t)(p->port >> FAN_PORT_BITS);
}

/* The address of the child `token` of the switch at `hop`. */
static inline fan_peer fan_peer_behind(const fan_peer *hop, uint16_t token)
{
	fan_peer p = fan_peer_hop(hop);
	p.port |= (uint32_t)token << FAN_PORT_BITS;
	return p;
}

/* Have both the same next hop? */
static inline bool fan_peer_same_hop(const fan_peer *a, const fan_peer *b)
{
	fan_peer x = fan_peer_hop(a), y = fan_peer_hop(b);
	return fan_peer_equal(&x, &y);
}

/* Decode the RELAY whose header fan_wire_get has accepted.  Does not check the message inside.
 * FAN_OK, FAN_E_SHORT or FAN_E_FORMAT. */
enum fan_err fan_envelope_get(struct fan_envelope *v, const struct fan_frag *f);

/* Make `it` the envelope `v` of the message of `job` and `epoch` with header `head` and body
 * `body`, in scratch of `out`.  Ignores v->inner. */
void fan_envelope_put(struct fan_out_item *it, struct fan_out *out, const struct fan_envelope *v,
		      uint32_t job, uint32_t epoch, const uint8_t *head, const uint8_t *body,
		      size_t body_bytes);

#endif
