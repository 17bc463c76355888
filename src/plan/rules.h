/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - what the rules without a program share: shortest routes, and trees whose
 * workers send to a switch by name. */
#ifndef FAN_PLAN_RULES_H
#define FAN_PLAN_RULES_H

#include "cands.h"
#include "plan.h"

/* Shortest routes between all that a rule may use.  Where several are equally short, each pair
 * of nodes has one of them by a hash, as switches spread flows. */
struct fan_rules {
	struct fan_cands c;
	uint64_t seed;	    /* of the hash */
	uint32_t *group_of; /* by job and worker (jobs one after the other) */
	uint32_t *first;    /* by job: its first worker in `group_of` */
};

/* `paths`: equally short routes to choose from, at most; 1: always the same.
 * As fan_cands_open. */
int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, uint32_t paths, uint64_t seed);
void fan_rules_close(struct fan_rules *r);

/* Worker `w` of the tree sends to `node`, a switch that sums, or the server; the sum's
 * flow is added when it is the first.  To the server if the switch cannot be reached, or
 * cannot reach it. */
void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node);

/* The switch by a host if it sums, or FAN_NODE_NONE. */
uint32_t fan_rules_rack(const struct fan_topo *t, uint32_t host);

#endif
