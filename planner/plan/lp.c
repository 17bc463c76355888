/* SPDX-License-Identifier: Apache-2.0 */
#include "lp.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "lp_solver.h"

static const struct fan_lp_solver *const solvers[] = {
	&fan_lp_clp,
#ifdef FAN_HAS_HIGHS
	&fan_lp_highs,
#endif
};
static const struct fan_lp_solver *chosen = &fan_lp_clp;

/* OpenBLAS, if the solvers use it for linear algebra, gets one thread: its threads spin while they
 * wait, which doubled the run time on a busy machine, and the matrices here are small. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

int fan_lp_use(const char *name)
{
	for (size_t i = 0; i < sizeof solvers / sizeof solvers[0]; i++)
		if (strcmp(solvers[i]->name, name) == 0) {
			chosen = solvers[i];
			return FAN_OK;
		}
	return FAN_E_INVALID;
}

void fan_lp_init(struct fan_lp *lp)
{
	memset(lp, 0, sizeof *lp);
	lp->solver = chosen;
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}

void fan_lp_free(struct fan_lp *lp)
{
	if (lp->warm)
		lp->solver->drop(lp->warm);
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
	fan_lp_init(lp);
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

int fan_lp_make_room(struct fan_lp *lp)
{
	free(lp->x);
	free(lp->price);
	lp->x = calloc((size_t)lp->cols + 1, sizeof *lp->x);
	lp->price = calloc((size_t)lp->rows + 1, sizeof *lp->price);
	if (!lp->x || !lp->price)
		lp->err = FAN_E_NOMEM;
	return lp->err;
}

int fan_lp_solve(struct fan_lp *lp)
{
	return lp->solver->solve(lp);
}

int fan_lp_solve_whole(struct fan_lp *lp, uint32_t nodes)
{
	return lp->solver->solve_whole(lp, nodes);
}

int fan_lp_solve_warm(struct fan_lp *lp, uint64_t *steps)
{
	return lp->solver->solve_warm(lp, steps);
}

int fan_lp_rows_warm(struct fan_lp *lp, const struct fan_lp_rows *rows)
{
	return lp->solver->rows_warm(lp, rows);
}
