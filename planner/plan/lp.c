/* SPDX-License-Identifier: Apache-2.0 */
#include "lp.h"

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "topo.h"

/* OpenBLAS, if CLP uses it for linear algebra, gets one thread: its threads spin while they
 * wait, which doubled the run time on a busy machine, and the matrices here are small. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

/* Forget the model that it keeps, if there is one. */
static void drop_warm(struct fan_lp *lp)
{
	if (lp->warm)
		Clp_deleteModel(lp->warm);
	lp->warm = NULL;
}

void fan_lp_free(struct fan_lp *lp)
{
	drop_warm(lp);
	free(lp->col_low);
	free(lp->col_high);
	free(lp->objective);
	free(lp->whole);
	free(lp->row_low);
	free(lp->row_high);
	free(lp->start);
	free(lp->row);
	free(lp->value);
	free(lp->x);
	free(lp->price);
	*lp = (struct fan_lp){0};
}

/* The table with room for more; `at` if memory is exhausted. */
static void *more(struct fan_lp *lp, void *at, int room, size_t bytes)
{
	void *moved = realloc(at, (size_t)room * bytes);
	if (moved)
		return moved;
	lp->err = FAN_E_NOMEM;
	return at;
}

int fan_lp_row(struct fan_lp *lp, double low, double high)
{
	if (lp->rows == lp->row_room) {
		int room = lp->row_room ? lp->row_room * 2 : 256;
		lp->row_low = more(lp, lp->row_low, room, sizeof(double));
		lp->row_high = more(lp, lp->row_high, room, sizeof(double));
		if (!lp->err)
			lp->row_room = room;
	}
	if (lp->err)
		return 0;
	lp->row_low[lp->rows] = low;
	lp->row_high[lp->rows] = high;
	return lp->rows++;
}

int fan_lp_col(struct fan_lp *lp, double low, double high, double objective)
{
	if (lp->cols == lp->col_room) {
		int room = lp->col_room ? lp->col_room * 2 : 256;
		lp->col_low = more(lp, lp->col_low, room, sizeof(double));
		lp->col_high = more(lp, lp->col_high, room, sizeof(double));
		lp->objective = more(lp, lp->objective, room, sizeof(double));
		lp->whole = more(lp, lp->whole, room, sizeof(bool));
		lp->start = more(lp, lp->start, room + 1, sizeof(int));
		if (!lp->err)
			lp->col_room = room;
	}
	if (lp->err)
		return 0;
	lp->col_low[lp->cols] = low;
	lp->col_high[lp->cols] = high;
	lp->objective[lp->cols] = objective;
	lp->whole[lp->cols] = false;
	lp->start[lp->cols] = lp->entries;
	lp->start[lp->cols + 1] = lp->entries;
	return lp->cols++;
}

int fan_lp_whole(struct fan_lp *lp, double low, double high, double objective)
{
	int col = fan_lp_col(lp, low, high, objective);
	if (!lp->err)
		lp->whole[col] = true;
	return col;
}

void fan_lp_put(struct fan_lp *lp, int row, double value)
{
	if (lp->entries == lp->entry_room) {
		int room = lp->entry_room ? lp->entry_room * 2 : 1024;
		lp->row = more(lp, lp->row, room, sizeof(int));
		lp->value = more(lp, lp->value, room, sizeof(double));
		if (!lp->err)
			lp->entry_room = room;
	}
	if (lp->err)
		return;
	lp->row[lp->entries] = row;
	lp->value[lp->entries++] = value;
	lp->start[lp->cols] = lp->entries;
}

/* ---- solving, by CLP, and by CBC if some columns are integers ---- */

#define MAXIMISE     (-1.0)
#define NUMBER_BYTES 24

/* Prepare to solve: make room for the solution.  FAN_E_NOMEM, which is also in `lp->err`. */
static int make_room(struct fan_lp *lp)
{
	free(lp->x);
	free(lp->price);
	lp->x = calloc((size_t)lp->cols + 1, sizeof *lp->x);
	lp->price = calloc((size_t)lp->rows + 1, sizeof *lp->price);
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	if (!lp->x || !lp->price)
		lp->err = FAN_E_NOMEM;
	return lp->err;
}

static Clp_Simplex *load(const struct fan_lp *lp)
{
	Clp_Simplex *m = Clp_newModel();
	if (!m)
		return NULL;
	Clp_setLogLevel(m, 0);
	Clp_loadProblem(m, lp->cols, lp->rows, lp->start, lp->row, lp->value, lp->col_low,
			lp->col_high, lp->objective, lp->row_low, lp->row_high);
	Clp_setOptimizationDirection(m, MAXIMISE);
	Clp_setMaximumIterations(m, FAN_LP_ITERATIONS);
	return m;
}

static int take(struct fan_lp *lp, Clp_Simplex *m)
{
	int status = Clp_status(m);
	if (status != 0)
		return status == 3 ? FAN_E_STALLED : FAN_E_INVALID;
	lp->best = lp->bound = Clp_objectiveValue(m);
	memcpy(lp->x, Clp_primalColumnSolution(m), (size_t)lp->cols * sizeof *lp->x);
	memcpy(lp->price, Clp_dualRowSolution(m), (size_t)lp->rows * sizeof *lp->price);
	return FAN_OK;
}

int fan_lp_solve(struct fan_lp *lp)
{
	Clp_Simplex *m = lp->err || make_room(lp) ? NULL : load(lp);
	if (!m)
		return lp->err ? lp->err : FAN_E_NOMEM;
	Clp_initialSolve(m);
	int err = take(lp, m);
	Clp_deleteModel(m);
	return err;
}

/* Add the columns that the kept model does not have yet. */
static int add_columns(struct fan_lp *lp)
{
	int first = lp->warm_cols, count = lp->cols - first, base = lp->start[first];
	int *start = calloc((size_t)count + 1, sizeof *start);
	if (!start)
		return FAN_E_NOMEM;
	for (int i = 0; i <= count; i++)
		start[i] = lp->start[first + i] - base;
	Clp_addColumns(lp->warm, count, lp->col_low + first, lp->col_high + first,
		       lp->objective + first, start, lp->row + base, lp->value + base);
	free(start);
	lp->warm_cols = lp->cols;
	return FAN_OK;
}

/* Apply changes since the last solution to the kept model. */
static int update(struct fan_lp *lp)
{
	if (lp->warm_cols < lp->cols)
		return add_columns(lp);
	if (lp->warm_rows < lp->rows)
		return FAN_OK;
	Clp_chgObjCoefficients(lp->warm, lp->objective);
	Clp_chgColumnLower(lp->warm, lp->col_low);
	Clp_chgRowLower(lp->warm, lp->row_low);
	Clp_chgRowUpper(lp->warm, lp->row_high);
	return FAN_OK;
}

int fan_lp_solve_warm(struct fan_lp *lp, uint64_t *steps)
{
	int err = lp->err ? lp->err : make_room(lp);
	if (err)
		return err;
	if (!lp->warm) {
		lp->warm = load(lp);
		lp->warm_cols = lp->cols;
		if (!lp->warm)
			return FAN_E_NOMEM;
		Clp_initialSolve(lp->warm);
	} else {
		err = update(lp);
		if (err)
			return err;
		if (lp->warm_rows < lp->rows)
			Clp_dual(lp->warm, 0); /* still dual feasible, not primal */
		else
			Clp_primal(lp->warm, 0);
	}
	lp->warm_rows = lp->rows;
	*steps += (uint64_t)Clp_numberIterations(lp->warm);
	return take(lp, lp->warm);
}

int fan_lp_rows_warm(struct fan_lp *lp, const struct fan_lp_rows *rows)
{
	int first = lp->rows - rows->count;
	if (!lp->err)
		Clp_addRows(lp->warm, rows->count, lp->row_low + first, lp->row_high + first,
			    rows->start, rows->col, rows->value);
	return lp->err;
}

int fan_lp_solve_whole(struct fan_lp *lp, uint32_t node_limit)
{
	Cbc_Model *m = lp->err || make_room(lp) ? NULL : Cbc_newModel();
	char nodes[NUMBER_BYTES];
	if (!m)
		return lp->err ? lp->err : FAN_E_NOMEM;
	Cbc_loadProblem(m, lp->cols, lp->rows, lp->start, lp->row, lp->value, lp->col_low,
			lp->col_high, lp->objective, lp->row_low, lp->row_high);
	Cbc_setObjSense(m, MAXIMISE);
	for (int c = 0; c < lp->cols; c++)
		if (lp->whole[c])
			Cbc_setInteger(m, c);
	snprintf(nodes, sizeof nodes, "%" PRIu32, node_limit);
	Cbc_setParameter(m, "log", "0");
	Cbc_setParameter(m, "maxNodes", nodes);
	Cbc_setParameter(m, "ratioGap", "0");
	Cbc_setParameter(m, "allowableGap", "1e-9");
	Cbc_solve(m);
	int err = FAN_OK;
	if (Cbc_isProvenInfeasible(m) || !Cbc_bestSolution(m)) {
		err = Cbc_isProvenInfeasible(m) ? FAN_E_INVALID : FAN_E_STALLED;
	} else {
		lp->best = Cbc_getObjValue(m);
		lp->bound = Cbc_isProvenOptimal(m) ? lp->best : Cbc_getBestPossibleObjValue(m);
		memcpy(lp->x, Cbc_bestSolution(m), (size_t)lp->cols * sizeof *lp->x);
	}
	Cbc_deleteModel(m);
	return err;
}
