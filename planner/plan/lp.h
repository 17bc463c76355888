/* SPDX-License-Identifier: Apache-2.0 */
/* lp.h - a linear program, column by column, and the solvers that know what to do with it:
 * CLP, CBC where some columns are whole numbers, or HiGHS for both.  Always a maximum. */
#ifndef FAN_PLAN_LP_H
#define FAN_PLAN_LP_H

#include <stdbool.h>
#include <stdint.h>

struct fan_lp {
	int cols, rows, entries;
	int col_room, row_room, entry_room;
	double *col_low, *col_high, *objective; /* by column */
	bool *whole;				/* by column */
	double *row_low, *row_high;		/* by row */
	int *start, *row; /* entries of a column: start[c] .. start[c + 1] - 1 */
	double *value;
	int err; /* of any call since init; all do nothing after it */

	const struct fan_lp_solver *solver;
	void *warm; /* its model, kept by fan_lp_solve_warm */
	int warm_cols, warm_rows;

	/* Filled by a solver */
	double best;   /* objective */
	double bound;  /* no solution is better; equal to `best` for a linear program */
	double *x;     /* by column */
	double *price; /* by row: what one more on the right side is worth; not of whole numbers */
};

/* Solve all programs that are begun from now on by "clp", as without this, or by "highs".
 * FAN_E_INVALID: this planner was built without it. */
int fan_lp_use(const char *name);

void fan_lp_init(struct fan_lp *lp);
void fan_lp_free(struct fan_lp *lp);

/* Its number.  INFINITY: no limit.  Rows first or columns first, as it suits. */
int fan_lp_row(struct fan_lp *lp, double low, double high);
int fan_lp_col(struct fan_lp *lp, double low, double high, double objective);
int fan_lp_whole(struct fan_lp *lp, double low, double high, double objective);

/* An entry of the newest column; each row once. */
void fan_lp_put(struct fan_lp *lp, int row, double value);

/* FAN_E_INVALID   it has no solution, or no finite one
 * FAN_E_STALLED   not solved in as many steps as sizes.h allows
 * FAN_E_NOMEM
 * The whole-number solver looks at so many nodes of its tree and may end with a solution
 * that is not proven best: then `bound` is above `best`.  No clock is asked. */
int fan_lp_solve(struct fan_lp *lp);
int fan_lp_solve_whole(struct fan_lp *lp, uint32_t nodes);

/* As fan_lp_solve; a further call starts from the last solution.  Between two calls columns were
 * added, or rows by fan_lp_rows_warm, or objective, lower bounds of columns and bounds of rows were
 * changed, which the last solution should still fulfil.  `*steps` is raised by the simplex's. */
int fan_lp_solve_warm(struct fan_lp *lp, uint64_t *steps);

/* The newest rows, which fan_lp_row made after the last fan_lp_solve_warm, have these entries in
 * columns that there were then.  FAN_E_NOMEM, or of a call before. */
struct fan_lp_rows {
	int count, entries;
	int *start, *col; /* entries of row r: start[r] .. start[r + 1] - 1 */
	double *value;
};
int fan_lp_rows_warm(struct fan_lp *lp, const struct fan_lp_rows *rows);

#endif
