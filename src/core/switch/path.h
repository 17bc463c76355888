/* SPDX-License-Identifier: Apache-2.0 */
/* next_hop.h - previous and next hops of a job's contributions.
 *
 * A job without a route has one next hop, the aggregator or a switch in front of it, and each
 * rank's hop is where it has joined.  A job with a route has the hops of its entries (routed.h).
 * Slot policies use this interface for both. */
#ifndef FAN_SWITCH_PATH_H
#define FAN_SWITCH_PATH_H

#include "relay.h"
#include "routed.h"

/* Set `*above` if `f` comes from a next hop, and clear it if from a child.  -1; FAN_DROP_ROUTE: it
 * comes from neither, or its route is not known. */
static inline int fan_path_direction(const struct fan_switch *sw, const fan_peer *from,
				     const struct fan_frag *f, bool *above)
{
	*above = fan_peer_equal(from, &sw->cfg.aggregator);
	return sw->cfg.routes ? fan_routed_direction(sw, from, f, above) : -1;
}

/* Check that `from` is where each rank of a contribution has joined, and fill in its next hop. */
static inline int fan_path_without_route(const struct fan_switch *sw,
					 const struct fan_switch_job *j, const fan_peer *from,
					 struct fan_contribution *p)
{
	p->sums = true;
	p->next = &j->up;
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r)) {
		fan_peer hop = fan_relay_hop(sw, j, (uint16_t)r);
		if (!fan_peer_equal(&hop, from))
			return FAN_DROP_SENDER;
	}
	return -1;
}

/* Fill in p->next and p->sums of a contribution with known ranks that `from` has sent.  -1, or the
 * reason to drop it. */
static inline int fan_path_contribution(const struct fan_switch *sw, const struct fan_switch_job *j,
					const fan_peer *from, struct fan_contribution *p)
{
	return j->route ? fan_routed_contribution(sw, j, from, p)
			: fan_path_without_route(sw, j, from, p);
}

/* As fan_path_contribution, for a message of rank `rank` from `from`, about itself or others: `p`
 * may have any ranks. */
int fan_path_rank(const struct fan_switch *sw, const struct fan_switch_job *j, const fan_peer *from,
		  uint16_t rank, struct fan_contribution *p);

/* The hop below towards `rank`; none: it is not below. */
fan_peer fan_path_down(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank);

/* Do the contributions of all ranks of the job meet here? */
bool fan_path_has_all(const struct fan_switch_job *j);

#endif
