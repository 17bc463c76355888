/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - where each gradient is summed, which route it takes, and how the model is split.
 *
 * A plan is a list of trees.  Each carries a share of one job's model to one server: every worker
 * of the job has a flow to the switch that sums its part, or to the server itself, and each of
 * these switches has one flow, its sum, to the server.  With two levels the sum may go first to
 * another of these switches, which sums it again and sends its own sum to the server.  Each flow is
 * a route hop by hop, as a controller installs it.  The shares of a job's trees add up to 1. */
#ifndef FAN_PLAN_PLAN_H
#define FAN_PLAN_PLAN_H

#include "topo.h"

struct fan_flow {
	uint32_t from, to; /* nodes; `to` is a switch that sums, or the tree's server */
	struct fan_arcs route;
};

struct fan_tree {
	uint32_t job, server; /* `server` is a node */
	double share;	      /* of the job's model */
	uint32_t workers;     /* flows of workers, first in `flow`, in the job's order */
	uint32_t sums;	      /* flows of sums, after these: to the server or a switch */
	struct fan_flow *flow;
};

/* Empty: {0}. */
struct fan_plan {
	struct fan_tree *tree;
	uint32_t trees, room;
};

void fan_plan_free(struct fan_plan *p);

/* Add a tree of a job.  Each worker has a flow without hops to FAN_NODE_NONE; there are no sums,
 * but room for as many as there are workers.  The pointer is valid until the next tree is added.
 * NULL: no memory, or more than FAN_TREES_MAX trees. */
struct fan_tree *fan_plan_add(struct fan_plan *p, const struct fan_topo *t, uint32_t job,
			      uint32_t server, double share);

/* Add a copy of `like`, a tree of a plan for `t`.  Returns as fan_plan_add. */
struct fan_tree *fan_plan_add_like(struct fan_plan *p, const struct fan_topo *t,
				   const struct fan_tree *like);

/* FAN_E_NOMEM: `*to` is empty. */
int fan_plan_copy(struct fan_plan *to, const struct fan_plan *from);

/* Move `*from` to `*to`; `*from` is empty afterwards. */
void fan_plan_move(struct fan_plan *to, struct fan_plan *from);

/* Do the flows of two workers take the same path apart from the workers' own links? */
bool fan_flows_are_twins(const struct fan_flow *a, const struct fan_flow *b);

/* The sum flow from `node`, or NULL if the tree has none. */
struct fan_flow *fan_tree_sum(const struct fan_tree *tree, uint32_t node);

/* The sum flow of a switch, or, if there is none, a new one to the server, without a route. */
struct fan_flow *fan_tree_add_sum(struct fan_tree *tree, uint32_t node);

/* Add the load of a tree's results.  Each link that flows of the tree pass carries them once, in
 * the other direction, whatever the number of flows.  Adds `load` to `need`, by arc; overwrites
 * `seen`, also by arc. */
void fan_tree_add_results(const struct fan_topo *t, const struct fan_tree *tree, double load,
			  bool *seen, double *need);

/* Remove sums of switches to which neither a worker nor another sum sends. */
void fan_tree_prune(struct fan_tree *tree);

#endif
