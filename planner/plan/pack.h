/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - which share of the model each of given trees is to carry. */
#ifndef FAN_PLAN_PACK_H
#define FAN_PLAN_PACK_H

#include "plan.h"

/* Shares that make the rate as large as these trees allow, by linear program; trees that
 * carry nothing are removed.  Every job needs a tree.  `price` (may be NULL): by resource,
 * what one more Gb/s of it would add to the rate; `job_price`: by job, what one Gb/s of a
 * tree of it costs at most.
 *
 * As fan_lp_solve; on error the plan is as it was. */
int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p, double *price, double *job_price);

/* How many trees of a job may stay on each of its servers: `most`, or as many as can be installed
 * if these are fewer; and of that so many tenths. */
struct fan_few {
	uint32_t most, tenths;
};

/* As fan_pack_shares, but keeps only `few` trees: those that carry most. */
int fan_pack_few(const struct fan_topo *t, struct fan_plan *p, struct fan_few few);

#endif
