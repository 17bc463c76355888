/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - the linear program that decides how much each of many trees carries.
 *
 * It has a column for each tree, and a row for each link, switch or host that trees load.  Of
 * thousands of rows a few dozen matter, so the program begins with few, and is solved again with
 * rows for the resources that its solution overloads, until there are none. */
#ifndef FAN_PLAN_MASTER_H
#define FAN_PLAN_MASTER_H

#include "lp.h"
#include "plan.h"

/* The load that a tree puts on a resource for each Gb/s that it carries. */
struct fan_master_need {
	uint32_t resource;
	float gbps; /* an integer */
};

struct fan_master {
	const struct fan_topo *t;
	struct fan_lp lp; /* column 0: the rate; column i + 1: tree i; row j: job j */
	int *row;	  /* by resource: its row; -1: none yet */
	uint32_t trees, tree_room;
	uint32_t *job;	 /* by tree */
	uint32_t *first; /* by tree, and one more: index of its first in `need` */
	struct fan_master_need *need;
	uint32_t needs, need_room;
	double *of_tree, *load; /* by resource; of_tree is zero except while a tree is added */
	bool *seen;		/* by arc: the tree's results pass it */
	uint64_t steps;		/* of the simplex */
};

/* Begin a program whose rate is at most `most_gbps`.  On FAN_E_NOMEM `*m` is empty. */
int fan_master_open(struct fan_master *m, const struct fan_topo *t, double most_gbps);
void fan_master_close(struct fan_master *m);

/* Add a tree, of which nothing is kept but its loads.  FAN_E_NOMEM */
int fan_master_add(struct fan_master *m, const struct fan_tree *tree);

/* Find the best rate, m->lp.best, with all trees so far.  Errors are those of fan_lp_solve. */
int fan_master_solve(struct fan_master *m);

/* From the last solution: what tree `i` carries in Gb/s (0 if it was added since); the price of one
 * more Gb/s of a resource; the most that one Gb/s of a tree of the job may cost. */
double fan_master_gbps(const struct fan_master *m, uint32_t i);
double fan_master_price(const struct fan_master *m, uint32_t resource);
double fan_master_job_price(const struct fan_master *m, uint32_t job);

#endif
