/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - where each gradient is summed, by which route it travels, and how the model is
 * split.
 *
 * A plan is a list of trees.  Each carries a share of one job's model to one server: every
 * worker of the job has a flow to the switch that sums its part, or to the server itself,
 * and each of these switches has one flow, of their sum, to the server.  With two levels
 * the sum may go to another of these switches first, which sums it again, and whose own sum
 * goes to the server.  Each flow is a route hop by hop, as a controller installs it.  The
 * shares of a job's trees add up to 1. */
#ifndef FAN_PLAN_PLAN_H
#define FAN_PLAN_PLAN_H

#include "path.h"
#include "topo.h"

struct fan_flow {
	uint32_t from, to; /* nodes; `to` sums: a switch, or the tree's server */
	struct fan_route route;
};

struct fan_tree {
	uint32_t job, server; /* `server` is a node */
	double share;	      /* of the job's model */
	uint32_t workers;     /* flows of workers, in the job's order; the first in `flow` */
	uint32_t sums;	      /* flows from switches, to the server or another one; behind them */
	struct fan_flow *flow;
};

struct fan_plan {
	struct fan_tree *tree;
	uint32_t trees, room;
};

void fan_plan_init(struct fan_plan *p);
void fan_plan_free(struct fan_plan *p);

/* A further tree of a job, with flows of no hops from each worker to nowhere, and no sums;
 * there is room for as many sums as there are workers.  Valid until the next is added.
 * NULL: no memory, or more than FAN_TREES_MAX. */
struct fan_tree *fan_plan_add(struct fan_plan *p, const struct fan_topo *t, uint32_t job,
			      uint32_t server, double share);

/* A further tree as `like`, of a plan for `t`.  As fan_plan_add. */
struct fan_tree *fan_plan_add_like(struct fan_plan *p, const struct fan_topo *t,
				   const struct fan_tree *like);

/* FAN_E_NOMEM: `*to` is empty. */
int fan_plan_copy(struct fan_plan *to, const struct fan_plan *from);

/* Take over `*from`, which is empty afterwards. */
void fan_plan_move(struct fan_plan *to, struct fan_plan *from);

/* Do flows of two workers take one path, but for the workers' own links? */
bool fan_flows_are_twins(const struct fan_flow *a, const struct fan_flow *b);

/* The sum flow from `node`, or NULL if the tree has none. */
struct fan_flow *fan_tree_sum(const struct fan_tree *tree, uint32_t node);

/* Add a sum flow to the server for a switch that workers send to; `route` may be empty for
 * now. */
struct fan_flow *fan_tree_add_sum(struct fan_tree *tree, uint32_t node);

/* The results of a tree: each link that a flow of the tree passes carries them once, in the other
 * direction, however many flows there are.  Adds `load` to `need`, by arc; `seen` is by arc, too,
 * and overwritten. */
void fan_tree_add_results(const struct fan_topo *t, const struct fan_tree *tree, double load,
			  bool *seen, double *need);

/* Remove the sums of switches to which neither a worker nor another sum goes. */
void fan_tree_prune(struct fan_tree *tree);

/* Does the sum of a switch go to another one? */
bool fan_tree_has_levels(const struct fan_tree *tree);

#endif
