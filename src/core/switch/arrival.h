/* SPDX-License-Identifier: Apache-2.0 */
/* arrival.h - the sequence numbers of what comes from neighbours below (ADR 12): a gap between them
 * is a loss, and asked about by MISS.  sent.h has those of what goes up. */
#ifndef FAN_SWITCH_ARRIVAL_H
#define FAN_SWITCH_ARRIVAL_H

#include "switch_priv.h"

/* A contribution or PROBE of `rank` has come from `from`, where that is reached: next to us, so all
 * that it sends comes. */
void fan_arrival_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *from,
		      const struct fan_frag *f, uint16_t rank, struct fan_out *out);

/* Has a worker next to us sent it, and in order?  `from` has been checked. */
static inline bool fan_arrival_is_next(struct fan_switch *sw, const struct fan_switch_job *j,
				       const struct fan_frag *f)
{
	if (j->route || f->helper || f->type == FAN_TYPE_PARTIAL)
		return false;
	assert(f->sender < j->ranks && j->child[f->sender]);
	struct fan_child *c = &sw->children[j->child[f->sender] - 1];
	return !fan_peer_token(&c->peer) && fan_seq_gap_is_next(&c->gap, f->seq);
}

#endif
