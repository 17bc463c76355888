/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - what the rules without a program share: which switch sums for a host, shortest
 * routes, and trees whose workers send to a switch by name. */
#ifndef FAN_PLAN_RULES_H
#define FAN_PLAN_RULES_H

#include "algorithm.h"
#include "cands.h"
#include "plan.h"

/* Shortest routes between all that a rule may use.  Where several are equally short, each pair
 * of nodes has one of them by a hash, as switches spread flows. */
struct fan_rules {
	struct fan_cands c;
	uint64_t seed;	   /* of the hash */
	uint32_t *sums_at; /* by node: the switch that sums for this host; FAN_NODE_NONE */
};

/* With o->paths equally short routes to choose from at most, and hosts' switches as o->sums_at
 * says.  As fan_cands_open. */
int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, const struct fan_plan_options *o);
void fan_rules_close(struct fan_rules *r);

/* Worker `w` of the tree sends to `node`, a switch that sums, or the server; the sum's
 * flow is added when it is the first.  To the server if the switch cannot be reached, or
 * cannot reach it. */
void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node);

/* The sum of `from` goes to switch `to`, which sums it again, if there is a route. */
void fan_rules_stack(const struct fan_rules *r, struct fan_tree *tree, uint32_t from, uint32_t to);

/* As fan_rules_stack, for all sums of the tree. */
void fan_rules_stack_all(const struct fan_rules *r, struct fan_tree *tree, uint32_t to);

#endif
