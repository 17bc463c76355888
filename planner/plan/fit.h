/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - which plans can be installed: every algorithm chooses among these.
 *
 * The members of a shard, the parts of a job and the routes of a switch are bounded, and with them
 * the trees of a job on each server.  A switch, like the server, knows each worker of each tree
 * that passes it, and one switch may be on all trees: so the members of all trees count together.
 * Within a tree, no links may follow each other in a circle, whichever ranks use them (adr 11), no
 * path may pass more than 24 switches, and no switch may need more than 64 entries.  Algorithms fit
 * each tree to these bounds before they judge it. */
#ifndef FAN_PLAN_FIT_H
#define FAN_PLAN_FIT_H

#include "plan.h"
#include "topo.h"

/* How many trees a job may have on one of its servers: `most`, or as many as can be installed if
 * these are fewer; at least one. */
uint32_t fan_fit_trees(const struct fan_topo *t, uint32_t job, uint32_t server, uint32_t most);

/* Memory for fitting trees of one topology. */
struct fan_fit {
	const struct fan_topo *t;
	struct fan_paths paths;
	uint32_t *twin;	 /* by arc: the first arc between the same nodes */
	uint32_t *first; /* by arc: 1 + number of its first step; 0: none */
	uint32_t *entry; /* by node: 1 + number of its first entry; 0: none */
	uint32_t *count; /* by node: how many entries it has */
	uint32_t *last;	 /* by node: 1 + the last worker whose own link leads there; 0: none */
	uint8_t *mark;	 /* by arc: visited */
	uint32_t *stack;
	struct fan_fit_step *step;   /* pairs of arcs that follow each other */
	struct fan_fit_entry *known; /* entries of switches */
	uint32_t steps, entries;
	uint32_t step_room, entry_room;
	struct fan_arcs route[FAN_PATHS_DEFAULT];
	uint32_t mended, given_up; /* trees that were changed; of these, trees without sums now */
};

/* FAN_E_NOMEM */
int fan_fit_open(struct fan_fit *f, const struct fan_topo *t);
void fan_fit_close(struct fan_fit *f);

/* Give flows of the tree other routes, or other places among its sums, until it can be installed;
 * flows that break no bound stay.  If that fails, all workers send straight to the server, by
 * routes that cannot form a circle.  On FAN_E_NOMEM the tree is still valid. */
int fan_fit_tree(struct fan_fit *f, struct fan_tree *tree);

/* Fit all trees of a plan, with memory of its own.  Errors are those of fan_fit_open. */
int fan_fit_plan(const struct fan_topo *t, struct fan_plan *p);

#endif
