/* SPDX-License-Identifier: Apache-2.0 */
/* phase.h - the relaxed program of an instance, made small enough and solved. */
#ifndef FAN_PLAN_PHASE_H
#define FAN_PLAN_PHASE_H

#include "algorithm.h"
#include "relax.h"

/* Candidates whose program has at most FAN_PHASE_COLUMNS columns: with all switches and
 * o->paths routes where that is so, else with fewer of both.  As fan_cands_open. */
int fan_phase_cands(struct fan_cands *c, const struct fan_topo *t,
		    const struct fan_plan_options *o);

/* Open and solve, by the solver that is asked for.  `split` as fan_relax_open has it. */
int fan_phase_solve(struct fan_relax *r, const struct fan_cands *c,
		    const struct fan_plan_options *o, const double *split);

/* With the split given (by job and server): relax, solve, round; how->bound_gbps, if it is not set,
 * is the program's.  As fan_round_all; on error `*p` is empty. */
int fan_phase_plan(struct fan_plan *p, const struct fan_topo *t, const struct fan_plan_options *o,
		   const double *split, struct fan_planned *how);

#endif
