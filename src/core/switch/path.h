/* SPDX-License-Identifier: Apache-2.0 */
/* path.h - where the parts of a job come from, and where they go next.
 *
 * A job without a route has one next hop up, the aggregator or the switch before it, and its
 * ranks are where they have joined.  A job with a route has the hops of its entries (routed.h).
 * Slot policies ask here, and do not know the difference. */
#ifndef FAN_SWITCH_PATH_H
#define FAN_SWITCH_PATH_H

#include "relay.h"
#include "routed.h"

/* Is `f` from above?  Otherwise it is from below.  FAN_DROP_ROUTE: neither, or it has a route that
 * is not known; otherwise -1. */
int fan_path_direction(const struct fan_switch *sw, const fan_peer *from, const struct fan_frag *f,
		       bool *above);

/* Each rank of a part comes from where it has joined. */
static inline int fan_path_without_route(const struct fan_switch *sw,
					 const struct fan_switch_job *j, const fan_peer *from,
					 struct fan_part *p)
{
	p->sums = true;
	p->next = &j->up;
	for (unsigned r = p->first; r < j->ranks; r = fan_part_next(p, r)) {
		fan_peer hop = fan_relay_hop(sw, j, (uint16_t)r);
		if (!fan_peer_equal(&hop, from))
			return FAN_DROP_SENDER;
	}
	return -1;
}

/* Fill in p->next and p->sums of a part that came from `from`, and whose ranks are known.  -1, or
 * why it is dropped. */
static inline int fan_path_part(const struct fan_switch *sw, const struct fan_switch_job *j,
				const fan_peer *from, struct fan_part *p)
{
	return j->route ? fan_routed_part(sw, j, from, p) : fan_path_without_route(sw, j, from, p);
}

/* The same for what the one rank `rank` says at `from`, for itself or for others: `p` may have
 * any ranks. */
int fan_path_rank(const struct fan_switch *sw, const struct fan_switch_job *j, const fan_peer *from,
		  uint16_t rank, struct fan_part *p);

/* Where `rank` is reached; none: it is not below. */
fan_peer fan_path_down(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank);

/* Does each part of the job that is summed here meet those of all other ranks? */
bool fan_path_has_all(const struct fan_switch_job *j);

#endif
