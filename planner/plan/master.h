/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - the program that says how much each of many trees carries.
 *
 * A column a tree, and a row a link, switch or host that trees load.  Of thousands of rows a
 * few dozen matter.  So the program begins with few of them, and gets those that its
 * solution overloads, until there are none. */
#ifndef FAN_PLAN_MASTER_H
#define FAN_PLAN_MASTER_H

#include "lp.h"
#include "plan.h"

/* What one tree needs, of each Gb/s that it carries. */
struct fan_master_need {
	uint32_t resource;
	float gbps; /* a whole number */
};

struct fan_master {
	const struct fan_topo *t;
	struct fan_lp lp; /* column 0: the rate; tree i: i + 1; row j: job j */
	int *row;	  /* by resource; -1: none so far */
	uint32_t trees, tree_room;
	uint32_t *job;	 /* by tree */
	uint32_t *first; /* by tree, and one more: where its needs begin, by resource */
	struct fan_master_need *need;
	uint32_t needs, need_room;
	double *of_tree, *load; /* by resource; of_tree is zero but while a tree is added */
	bool *seen;		/* by arc: results pass it */
	uint64_t steps;		/* of the simplex */
};

/* No rate is above `most_gbps`.  FAN_E_NOMEM: `*m` is empty. */
int fan_master_open(struct fan_master *m, const struct fan_topo *t, double most_gbps);
void fan_master_close(struct fan_master *m);

/* The plan may change afterwards.  FAN_E_NOMEM */
int fan_master_add(struct fan_master *m, const struct fan_tree *tree);

/* The best rate, m->lp.best, with all trees so far.  As fan_lp_solve. */
int fan_master_solve(struct fan_master *m);

/* Of the last solution: what tree `i` carries in Gb/s (0 if it was added since); what one more Gb/s
 * of a resource is worth; what one Gb/s of a tree of the job costs at most. */
double fan_master_gbps(const struct fan_master *m, uint32_t i);
double fan_master_price(const struct fan_master *m, uint32_t resource);
double fan_master_job_price(const struct fan_master *m, uint32_t job);

#endif
