/* SPDX-License-Identifier: Apache-2.0 */
#include "lp.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

/* OpenBLAS, if CLP uses it for linear algebra, gets one thread: its threads spin while they
 * wait, which doubled the run time on a busy machine, and the matrices here are small. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

void fan_lp_init(struct fan_lp *lp)
{
	memset(lp, 0, sizeof *lp);
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}

void fan_lp_free(struct fan_lp *lp)
{
	fan_lp_drop_warm(lp);
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
