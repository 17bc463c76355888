/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - a switch's children: forwarding of control messages up, and of messages down. */
#ifndef FAN_SWITCH_RELAY_H
#define FAN_SWITCH_RELAY_H

#include "switch_priv.h"

/* The hop below towards the child of `rank`; none: it is not below. */
static inline fan_peer fan_relay_hop(const struct fan_switch *sw, const struct fan_switch_job *j,
				     uint16_t rank)
{
	const fan_peer none = {.port = 0};
	if (rank >= j->ranks || !j->child[rank])
		return none;
	return fan_peer_hop(&sw->children[j->child[rank] - 1].peer);
}

/* Answer `f` of an unknown child with WHO, and drop `f` for the reason `why`.  `depth`: hops that
 * the WHO goes down a route, beginning here; 0: without a route. */
enum fan_verdict fan_relay_ask_who(struct fan_switch *sw, const fan_peer *to,
				   const struct fan_frag *f, unsigned depth, enum fan_drop why,
				   struct fan_out *out);

/* Forget the job: it is silent, or its entry is needed. */
void fan_relay_end_job(struct fan_switch *sw, struct fan_switch_job *j);

/* Handle a control message from below, and one from above. */
enum fan_verdict fan_relay_up(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out);

enum fan_verdict fan_relay_down(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* Make `it` an unchanged copy of `f`. */
void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f);

/* Send a fragment's message from above to the children that it is for. */
enum fan_verdict fan_relay_fragment(struct fan_switch *sw, struct fan_switch_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out);

/* The only rank that a message from above is for; FAN_RANK_NONE: it is for all. */
uint16_t fan_relay_addressee(const struct fan_frag *f);

#endif
