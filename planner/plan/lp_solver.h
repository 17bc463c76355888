/* SPDX-License-Identifier: Apache-2.0 */
/* lp_solver.h - a solver of linear programs as lp.c uses it; lp.h describes the functions. */
#ifndef FAN_PLAN_LP_SOLVER_H
#define FAN_PLAN_LP_SOLVER_H

#include "lp.h"

struct fan_lp_solver {
	const char *name;
	int (*solve)(struct fan_lp *lp);
	int (*solve_whole)(struct fan_lp *lp, uint32_t nodes);
	int (*solve_warm)(struct fan_lp *lp, uint64_t *steps);
	int (*rows_warm)(struct fan_lp *lp, const struct fan_lp_rows *rows);
	void (*drop)(void *warm); /* free the model that solve_warm keeps */
};

extern const struct fan_lp_solver fan_lp_clp, fan_lp_highs;

/* Make room for the solution.  FAN_E_NOMEM, which is also in `lp->err`. */
int fan_lp_make_room(struct fan_lp *lp);

#endif
