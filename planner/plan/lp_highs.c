/* SPDX-License-Identifier: Apache-2.0 */
/* lp_highs.c - linear programs by HiGHS, with or without integers, if it is built in. */
#ifdef FAN_HAS_HIGHS
#include <interfaces/highs_c_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "lp_solver.h"
#include "sizes.h"

_Static_assert(sizeof(HighsInt) == sizeof(int), "numbers of columns and rows go as they are");

/* Use one thread, as CLP does, since other processes compute beside it. */
static void *load(const struct fan_lp *lp, bool whole)
{
	void *h = Highs_create();
	int *kinds = calloc((size_t)lp->cols + 1, sizeof *kinds);
	int status = kHighsStatusError;

	if (h && kinds) {
		Highs_setBoolOptionValue(h, "output_flag", 0);
		Highs_setIntOptionValue(h, "threads", 1);
		Highs_setStringOptionValue(h, "parallel", "off");
		Highs_setIntOptionValue(h, "simplex_iteration_limit", FAN_LP_ITERATIONS);
		for (int c = 0; c < lp->cols; c++)
			kinds[c] = lp->whole[c] ? kHighsVarTypeInteger : kHighsVarTypeContinuous;
		status =
			whole ? Highs_passMip(h, lp->cols, lp->rows, lp->entries,
					      kHighsMatrixFormatColwise, kHighsObjSenseMaximize, 0,
					      lp->objective, lp->col_low, lp->col_high, lp->row_low,
					      lp->row_high, lp->start, lp->row, lp->value, kinds)
			      : Highs_passLp(h, lp->cols, lp->rows, lp->entries,
					     kHighsMatrixFormatColwise, kHighsObjSenseMaximize, 0,
					     lp->objective, lp->col_low, lp->col_high, lp->row_low,
					     lp->row_high, lp->start, lp->row, lp->value);
	}
	free(kinds);
	if (h && status == kHighsStatusError) {
		Highs_destroy(h);
		h = NULL;
	}
	return h;
}

static bool is_limit(int status)
{
	return status == kHighsModelStatusIterationLimit ||
	       status == kHighsModelStatusSolutionLimit || status == kHighsModelStatusTimeLimit;
}

static int take(struct fan_lp *lp, void *h)
{
	int status = Highs_getModelStatus(h);
	double *by_col = calloc((size_t)lp->cols + 1, sizeof *by_col);
	double *by_row = calloc((size_t)lp->rows + 1, sizeof *by_row);
	int err = is_limit(status) ? FAN_E_STALLED : FAN_E_INVALID;

	if (!by_col || !by_row) {
		err = FAN_E_NOMEM;
	} else if (status == kHighsModelStatusOptimal) {
		Highs_getSolution(h, lp->x, by_col, by_row, lp->price);
		lp->best = lp->bound = Highs_getObjectiveValue(h);
		err = FAN_OK;
	}
	free(by_col);
	free(by_row);
	return err;
}

static int solve(struct fan_lp *lp)
{
	void *h = lp->err || fan_lp_make_room(lp) ? NULL : load(lp, false);

	if (!h)
		return lp->err ? lp->err : FAN_E_NOMEM;
	Highs_run(h);
	int err = take(lp, h);
	Highs_destroy(h);
	return err;
}

/* Add the columns that the kept model does not have yet. */
static int add_columns(struct fan_lp *lp)
{
	const int first = lp->warm_cols, count = lp->cols - first, base = lp->start[first];
	int *start = calloc((size_t)count + 1, sizeof *start);

	if (!start)
		return FAN_E_NOMEM;
	for (int i = 0; i < count; i++)
		start[i] = lp->start[first + i] - base;
	int status = Highs_addCols(lp->warm, count, lp->objective + first, lp->col_low + first,
				   lp->col_high + first, lp->entries - base, start, lp->row + base,
				   lp->value + base);
	free(start);
	lp->warm_cols = lp->cols;
	return status == kHighsStatusError ? FAN_E_NOMEM : FAN_OK;
}

/* Apply changes since the last solution to the kept model.  Bounds of rows go one by one: HiGHS
 * takes ranges only from 1.11 on. */
static int update(struct fan_lp *lp)
{
	if (lp->warm_cols < lp->cols)
		return add_columns(lp);
	if (lp->warm_rows < lp->rows)
		return FAN_OK;
	Highs_changeColsCostByRange(lp->warm, 0, lp->cols - 1, lp->objective);
	Highs_changeColsBoundsByRange(lp->warm, 0, lp->cols - 1, lp->col_low, lp->col_high);
	for (int r = 0; r < lp->rows; r++)
		Highs_changeRowBounds(lp->warm, r, lp->row_low[r], lp->row_high[r]);
	return FAN_OK;
}

static int solve_warm(struct fan_lp *lp, uint64_t *steps)
{
	int err = lp->err ? lp->err : fan_lp_make_room(lp), count = 0;

	if (err)
		return err;
	if (!lp->warm) {
		lp->warm = load(lp, false);
		lp->warm_cols = lp->cols;
		err = lp->warm ? FAN_OK : FAN_E_NOMEM;
	} else {
		err = update(lp);
	}
	if (err)
		return err;
	Highs_run(lp->warm);
	lp->warm_rows = lp->rows;
	if (Highs_getIntInfoValue(lp->warm, "simplex_iteration_count", &count) !=
		    kHighsStatusError &&
	    count > 0)
		*steps += (uint64_t)count;
	return take(lp, lp->warm);
}

static int rows_warm(struct fan_lp *lp, const struct fan_lp_rows *rows)
{
	const int first = lp->rows - rows->count;

	if (!lp->err &&
	    Highs_addRows(lp->warm, rows->count, lp->row_low + first, lp->row_high + first,
			  rows->entries, rows->start, rows->col, rows->value) == kHighsStatusError)
		lp->err = FAN_E_NOMEM;
	return lp->err;
}

static int solve_whole(struct fan_lp *lp, uint32_t nodes)
{
	void *h = lp->err || fan_lp_make_room(lp) ? NULL : load(lp, true);

	if (!h)
		return lp->err ? lp->err : FAN_E_NOMEM;
	Highs_setIntOptionValue(h, "mip_max_nodes", (int)nodes);
	Highs_setDoubleOptionValue(h, "mip_rel_gap", 0);
	Highs_setDoubleOptionValue(h, "mip_abs_gap", 1e-9);
	Highs_run(h);
	const int status = Highs_getModelStatus(h);
	const bool proven = status == kHighsModelStatusOptimal;
	int found = kHighsSolutionStatusNone, err = take(lp, h);

	Highs_getIntInfoValue(h, "primal_solution_status", &found);
	if (!proven && is_limit(status) && found == kHighsSolutionStatusFeasible) {
		double *rows = calloc((size_t)lp->rows + 1, sizeof *rows);
		err = rows ? FAN_OK : FAN_E_NOMEM;
		if (rows)
			Highs_getSolution(h, lp->x, NULL, rows, NULL);
		free(rows);
		lp->best = Highs_getObjectiveValue(h);
		Highs_getDoubleInfoValue(h, "mip_dual_bound", &lp->bound);
	}
	Highs_destroy(h);
	return err;
}

static void drop(void *warm)
{
	Highs_destroy(warm);
}

const struct fan_lp_solver fan_lp_highs = {
	.name = "highs",
	.solve = solve,
	.solve_whole = solve_whole,
	.solve_warm = solve_warm,
	.rows_warm = rows_warm,
	.drop = drop,
};
#endif
