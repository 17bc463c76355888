/* SPDX-License-Identifier: Apache-2.0 */
/* routed.h - previous and next hops of a job's packets, by its route if it has one. */
#ifndef FAN_SWITCH_ROUTED_H
#define FAN_SWITCH_ROUTED_H

#include "switch_priv.h"

/* Set `*above` if `f` comes from a next hop of its route, and clear it if from a child; without a
 * route it is unchanged.  -1; FAN_DROP_ROUTE: it comes from neither, or its route is not known. */
int fan_routed_direction(const struct fan_switch *sw, const fan_peer *from,
			 const struct fan_frag *f, bool *above);

/* Fill in p->next and p->sums of a contribution with known ranks that `from` has sent.  -1, or the
 * reason to drop it. */
int fan_routed_contribution(const struct fan_switch *sw, const struct fan_switch_job *j,
			    const fan_peer *from, struct fan_contribution *p);

/* The hop below for a message of the next hop `from` to one rank; none: the rank is not below, or
 * has not joined yet. */
fan_peer fan_routed_down(const struct fan_switch *sw, const struct fan_switch_job *j,
			 const fan_peer *from, uint16_t rank);

/* Answer `f`, of an unknown job, with WHO. */
enum fan_verdict fan_routed_ask_who(struct fan_switch *sw, const fan_peer *from,
				    const struct fan_frag *f, struct fan_out *out);

/* Send on a message from above: to all ranks, or to the ones that it is for. */
enum fan_verdict fan_routed_to_all(struct fan_switch *sw, const struct fan_switch_job *j,
				   const fan_peer *from, const struct fan_frag *f,
				   struct fan_out *out);

/* ---- previous and next hops of a job's contributions ----
 *
 * A job without a route has one next hop, the aggregator or a switch in front of it, and each
 * rank's hop is where it has joined.  A job with a route has the hops of its entries.  Slot
 * policies use this interface for both. */

/* Fill in p->next and p->sums for a message of rank `rank` from `from`, about itself or others: `p`
 * may have any ranks. */
int fan_path_rank(const struct fan_switch *sw, const struct fan_switch_job *j, const fan_peer *from,
		  uint16_t rank, struct fan_contribution *p);

/* The hop below towards `rank`; none: it is not below. */
fan_peer fan_path_down(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank);

/* Do the contributions of all ranks of the job meet here? */
bool fan_path_has_all(const struct fan_switch_job *j);

#endif
