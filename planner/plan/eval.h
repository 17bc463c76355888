/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h - the rate that a plan gives, computed from the topology and the plan's flows alone.
 *
 * The evaluation does not depend on how the plan was made.  It follows every route, adds up what
 * each link, switch and server carries, and raises the rates of all jobs together, in proportion to
 * their weights, until a resource is full; jobs that do not use it grow on.
 *
 * The papers count only what goes up.  Results come back over the same links, over each once for a
 * tree; where servers are on both sides of a link, they compete there with the gradients of other
 * trees.  So there are two rates; the one that counts results is the one that a network gives. */
#ifndef FAN_PLAN_EVAL_H
#define FAN_PLAN_EVAL_H

#include "plan.h"

/* Results count in what says nothing of it if the topology's `results` is set. */
struct fan_eval {
	double gbps;		  /* the least rate of a job, divided by its weight */
	double gradients_gbps;	  /* as `gbps`, results not counted */
	double with_results_gbps; /* as `gbps`, with results counted */
	uint32_t binding;	  /* the first resource to be full; UINT32_MAX: none is limited */
	double *job_gbps;	  /* by job: what each of its workers sends */
	double *job_results_gbps; /* as `job_gbps`, with results counted */
	double *load_gbps;	  /* by resource, without background load, at the rates job_gbps */
};

/* FAN_E_CONFIG  the plan does not fit the topology; `why` (may be NULL) has the cause
 * FAN_E_NOMEM
 * On error `*e` is empty. */
int fan_eval(struct fan_eval *e, const struct fan_topo *t, const struct fan_plan *p,
	     struct fan_why *why);
void fan_eval_free(struct fan_eval *e);

/* The least rate, fan_eval's `gbps`; negative: an error. */
double fan_eval_gbps(const struct fan_topo *t, const struct fan_plan *p);

#endif
