/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - what can be installed: the plans among which every algorithm chooses.
 *
 * A shard has room for so many members, a job for so many parts, and a switch for so many routes;
 * that bounds the trees of a job on each server.  A switch knows each worker of each tree that
 * passes it, as the server does, and all trees may pass one: so the members of all trees count. And
 * within a tree no links may follow each other in a circle, whichever ranks they are for (adr 11),
 * no path may be longer than 24 switches, and no switch may need more than 64 entries.  Algorithms
 * fit each tree before they judge it. */
#ifndef FAN_PLAN_FIT_H
#define FAN_PLAN_FIT_H

#include "path.h"
#include "plan.h"

/* Trees that a job may have on one of its servers: `most`, or as many as can be installed, and at
 * least one. */
uint32_t fan_fit_trees(const struct fan_topo *t, uint32_t job, uint32_t server, uint32_t most);

/* Are the plan's trees within these bounds, for trees with a share? */
bool fan_fit_counts(const struct fan_topo *t, const struct fan_plan *p, uint32_t most);

/* Memory for fitting trees of one topology. */
struct fan_fit {
	const struct fan_topo *t;
	struct fan_paths paths;
	uint32_t *twin;	 /* by arc: the first arc between the same nodes */
	uint32_t *first; /* by arc: its first step, 1 + number; 0: none */
	uint32_t *entry; /* by node: its first entry, 1 + number; 0: none */
	uint32_t *count; /* by node: entries */
	uint32_t *last;	 /* by node: 1 + the last worker whose link leads there; 0: none */
	uint8_t *mark;	 /* by arc: looked at */
	uint32_t *stack;
	struct fan_fit_step *step;   /* an arc and what follows it */
	struct fan_fit_entry *known; /* entries of switches */
	uint32_t steps, entries;
	uint32_t step_room, entry_room;
	struct fan_route route[FAN_PATHS_DEFAULT];
	uint32_t mended, given_up; /* trees that were changed; those that only go straight */
};

/* FAN_E_NOMEM */
int fan_fit_open(struct fan_fit *f, const struct fan_topo *t);
void fan_fit_close(struct fan_fit *f);

/* Give flows of the tree other routes or other places among its sums, until it can be installed;
 * flows that are no cause of it stay.  At last all workers send straight to the server, by
 * routes that never meet in a circle.  FAN_E_NOMEM: the tree is whole. */
int fan_fit_tree(struct fan_fit *f, struct fan_tree *tree);

/* All trees of a plan, with memory of its own. */
int fan_fit_plan(const struct fan_topo *t, struct fan_plan *p);

#endif
