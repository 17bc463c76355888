/* SPDX-License-Identifier: Apache-2.0 */
/* replan.h - a plan for what has changed, from the plan that there was.
 *
 * A switch or link failed or is busier, a job came or went: flows that still can stay where
 * they are, others are placed anew one by one, jobs without trees get some, and the
 * program of shares balances them all.  Nothing is relaxed or rounded again. */
#ifndef FAN_PLAN_REPLAN_H
#define FAN_PLAN_REPLAN_H

#include "algorithm.h"

/* Mend `*p` for the topology as it is now: what failed has no capacity left (background
 * load as large as its rate, then fan_topo_refresh), or is not in it any more, and then
 * flows over it lead to FAN_NODE_NONE.  Numbers of nodes and jobs are those of `t`.
 *
 * As the algorithms; on error `*p` is empty. */
int fan_replan(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p);

/* As fan_replan, for trees whose workers are at work: each keeps its server and its share, and jobs
 * without trees get none.  Flows that lead over what is gone are placed anew; if there are any, or
 * if `look`, all of them are looked at again: other paths are taken where they give `worth` times
 * the rate. */
int fan_replan_paths(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		     double worth, bool look);

#endif
