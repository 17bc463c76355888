/* SPDX-License-Identifier: Apache-2.0 */
/* routed.h - the switch where jobs have routes: which way a packet came, and which way it
 * goes on. */
#ifndef FAN_SWITCH_ROUTED_H
#define FAN_SWITCH_ROUTED_H

#include "switch_priv.h"

/* Does `f` come from above?  *above is left as it is where it has no route.  FAN_DROP_ROUTE: from
 * nowhere, or it has a route that is not known; otherwise -1. */
int fan_routed_direction(const struct fan_switch *sw, const fan_peer *from,
			 const struct fan_frag *f, bool *above);

/* The entry for what `from` says in the control message `f` of a rank, in an envelope
 * (`hops` > 0) or not; NULL: it is off the route. */
const struct fan_route_entry *fan_routed_control(const struct fan_switch *sw, const fan_peer *from,
						 const struct fan_frag *f, unsigned hops);

/* Has the route of `job` the messages of child `c` go to `from`, so that answers come from
 * there?  True if it has none.  Tokens of earlier lives may lead in a circle. */
bool fan_routed_is_back(const struct fan_switch *sw, const fan_peer *from, uint32_t job,
			const struct fan_child *c);

/* Which entry the part has, whose ranks are known.  -1, or why it is dropped. */
int fan_routed_part(const struct fan_switch *sw, const struct fan_switch_job *j,
		    const fan_peer *from, struct fan_part *p);

/* The same for what one rank says. */
int fan_routed_rank(const struct fan_switch *sw, const struct fan_switch_job *j,
		    const fan_peer *from, uint16_t rank, struct fan_part *p);

/* The hop below to which goes what `from`, above, has for one rank; none: it is not below, or has
 * not joined yet. */
fan_peer fan_routed_down(const struct fan_switch *sw, const struct fan_switch_job *j,
			 const fan_peer *from, uint16_t rank);

/* Nothing is known of the job of `f`, of which `from` has sent something. */
enum fan_verdict fan_routed_ask_who(struct fan_switch *sw, const fan_peer *from,
				    const struct fan_frag *f, struct fan_out *out);

/* From above: for all ranks, and for one. */
enum fan_verdict fan_routed_to_all(struct fan_switch *sw, const struct fan_switch_job *j,
				   const fan_peer *from, const struct fan_frag *f,
				   struct fan_out *out);

enum fan_verdict fan_routed_fragment(struct fan_switch *sw, const struct fan_switch_job *j,
				     const fan_peer *from, const struct fan_frag *f,
				     struct fan_out *out);

/* What of the job follows from its route. */
void fan_routed_install(const struct fan_switch *sw, struct fan_switch_job *j);

#endif
