/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what the files of `fanin plan` share: a plan that was made, its table, and plan_serve.c.
 */
#ifndef FAN_CMD_PLAN_H
#define FAN_CMD_PLAN_H

#include "plan/algorithm.h"
#include "plan/eval.h"

/* One algorithm's plan. */
struct plan_result {
	const struct fan_algorithm *algorithm;
	int err; /* error of making it; the rest is unset then */
	struct fan_plan plan;
	struct fan_eval eval;
	struct fan_planned how;
	double bound_gbps;
	double seconds;
	struct fan_why refused; /* why it cannot be installed; empty: it can be */
};

/* Print rate, bound, shares, sums and the fullest resources of one plan. */
void plan_print(const struct fan_topo *t, const struct plan_result *r);

/* Print a line for each plan. */
void plan_print_all(const struct plan_result *r, unsigned count);

/* Answer requests of `fanin controller`, a line each, from standard input to standard output until
 * its end.  Returns the exit status. */
int plan_serve(const struct fan_algorithm *algorithm, const struct fan_plan_options *options);

#endif
