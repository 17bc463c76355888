/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - what the algorithms without a linear program share: which switch sums for a host,
 * shortest routes, and trees whose workers send to given switches. */
#ifndef FAN_PLAN_RULES_H
#define FAN_PLAN_RULES_H

#include "algorithm.h"
#include "cands.h"
#include "plan.h"

/* Shortest routes between all nodes that a rule may use.  Of several, a hash chooses one for each
 * pair of nodes, as in switches that spread flows. */
struct fan_rules {
	struct fan_cands c;
	uint64_t seed;	   /* of the hash */
	uint32_t *sums_at; /* by node: the switch that sums for this host, or FAN_NODE_NONE */
};

/* Find up to o->paths routes for each pair, and hosts' switches by o->sums_at.  Errors are those of
 * fan_cands_open. */
int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, const struct fan_plan_options *o);
void fan_rules_close(struct fan_rules *r);

/* Let worker `w` of the tree send to `node`, a switch that sums, or the server.  The first worker
 * at a switch adds the sum's flow.  If there is no route to the switch or from it to the server, or
 * the tree has as many sums as workers, the worker sends to the server. */
void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node);

/* Let switch `from` send its sum to switch `to`, which sums it again, if there is a route. */
void fan_rules_stack(const struct fan_rules *r, struct fan_tree *tree, uint32_t from, uint32_t to);

/* Do fan_rules_stack for all sums of the tree. */
void fan_rules_stack_all(const struct fan_rules *r, struct fan_tree *tree, uint32_t to);

#endif
