/* SPDX-License-Identifier: Apache-2.0 */
/* lp.h - a linear program, built column by column and solved by CLP, or by CBC if some columns are
 * integers.  The objective is always maximised. */
#ifndef FAN_PLAN_LP_H
#define FAN_PLAN_LP_H

#include <stdbool.h>
#include <stdint.h>

/* Empty: {0}. */
struct fan_lp {
	int cols, rows, entries;
	int col_room, row_room, entry_room;
	double *col_low, *col_high, *objective; /* by column */
	bool *whole;				/* by column */
	double *row_low, *row_high;		/* by row */
	int *start, *row; /* entries of column c: start[c] .. start[c + 1] - 1 */
	double *value;
	int err; /* the first error; later calls do nothing */

	void *warm; /* CLP's model, kept by fan_lp_solve_warm */
	int warm_cols, warm_rows;

	/* The solution. */
	double best;   /* objective */
	double bound;  /* no solution exceeds it; equal to `best` for a linear program */
	double *x;     /* by column */
	double *price; /* by row: gain from one more on the right side; not with integers */
};

void fan_lp_free(struct fan_lp *lp);

/* Add a row, a column, or a column that is an integer; return its number.  INFINITY means no limit.
 * Rows and columns may be added in any order. */
int fan_lp_row(struct fan_lp *lp, double low, double high);
int fan_lp_col(struct fan_lp *lp, double low, double high, double objective);
int fan_lp_whole(struct fan_lp *lp, double low, double high, double objective);

/* Set an entry of the newest column; at most once for each row. */
void fan_lp_put(struct fan_lp *lp, int row, double value);

/* FAN_E_INVALID   the program is infeasible or unbounded
 * FAN_E_STALLED   not solved within the number of steps in topo.h
 * FAN_E_NOMEM
 * fan_lp_solve_whole visits at most `nodes` nodes of its search tree, so its solution need not be
 * proven best: then `bound` exceeds `best`.  No limit depends on time. */
int fan_lp_solve(struct fan_lp *lp);
int fan_lp_solve_whole(struct fan_lp *lp, uint32_t nodes);

/* As fan_lp_solve, but a further call starts from the last solution.  Between two calls the caller
 * may add columns, add rows with fan_lp_rows_warm, and change the objective, lower bounds of
 * columns and bounds of rows; the last solution should stay feasible.  Adds the steps of the
 * simplex to `*steps`. */
int fan_lp_solve_warm(struct fan_lp *lp, uint64_t *steps);

/* Entries of the newest rows, which fan_lp_row made after the last fan_lp_solve_warm, in the
 * columns of that call.  FAN_E_NOMEM, or the error of an earlier call. */
struct fan_lp_rows {
	int count, entries;
	int *start, *col; /* entries of row r: start[r] .. start[r + 1] - 1 */
	double *value;
};
int fan_lp_rows_warm(struct fan_lp *lp, const struct fan_lp_rows *rows);

#endif
