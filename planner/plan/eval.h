/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h - what a plan really gives, from nothing but the topology and its flows.
 *
 * Independent of how the plan was made: it follows every route, adds up what each link,
 * switch and server carries, and lets all jobs' rates grow together, each by its weight,
 * until something is full; jobs that do not need what is full go on growing.
 *
 * The papers count what goes up.  Results come back over the same links, once over each
 * for a tree, and where servers are on both sides of a link they meet the gradients
 * of other trees there: so there is a second rate, which is what a network really gives. */
#ifndef FAN_PLAN_EVAL_H
#define FAN_PLAN_EVAL_H

#include "plan.h"

struct fan_eval {
	double gbps;	  /* the least rate of a job, divided by its weight */
	uint32_t binding; /* the resource that was full first; UINT32_MAX: none is limited */
	double with_results_gbps; /* as `gbps`, if results count, too */
	double *job_gbps;	  /* what each worker of a job sends; by job */
	double *job_results_gbps; /* as `job_gbps`, if results count, too */
	double *load_gbps;	  /* by resource, without background load, at those rates */
};

/* FAN_E_CONFIG  the plan does not fit the topology; `why` (may be NULL) says what is wrong
 * FAN_E_NOMEM
 * On error `*e` is empty. */
int fan_eval(struct fan_eval *e, const struct fan_topo *t, const struct fan_plan *p,
	     struct fan_why *why);
void fan_eval_free(struct fan_eval *e);

/* Only the least rate, with results where the topology's `results` says so; negative: the
 * error. */
double fan_eval_gbps(const struct fan_topo *t, const struct fan_plan *p);

#endif
