/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - local search on whole flows: one worker or one sum at a time to where it
 * loads the fullest resources least.
 *
 * What is made small is the sum over all resources of load / capacity to a high power: the
 * fullest counts most, and still there is a slope where the fullest cannot be helped.  Results
 * count where the topology's `results` says so. */
#ifndef FAN_PLAN_SEARCH_H
#define FAN_PLAN_SEARCH_H

#include "cands.h"
#include "plan.h"

enum fan_moves {
	FAN_MOVE_ROUTE, /* other routes to the same places */
	FAN_MOVE_PLACE, /* and other switches that send a sum, or the server */
	FAN_MOVE_OPEN,	/* and switches that send none so far */
};

/* At most `passes` over all flows; fewer when nothing moves any more.  Shares stay, and so do
 * flows of trees that sum on two levels.
 * FAN_E_NOMEM: `*p` may be changed, and is whole. */
int fan_search(const struct fan_cands *c, struct fan_plan *p, enum fan_moves moves,
	       uint32_t passes);

/* Place the workers whose flow leads to FAN_NODE_NONE: where the tree has a sum, or the server.
 * FAN_E_INVALID: there is no path for one. */
int fan_search_mend(const struct fan_cands *c, struct fan_plan *p);

/* Fill tree number `i` of the plan, which has no flows so far: its workers one by one to
 * the place that is best then, among the `count` switches of `open` (numbers of
 * candidates) and, if `direct`, the server. */
int fan_search_fill(const struct fan_cands *c, struct fan_plan *p, uint32_t i, const uint32_t *open,
		    uint32_t count, bool direct);

#endif
