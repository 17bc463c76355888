/* SPDX-License-Identifier: Apache-2.0 */
/* column.h - a rank that sums a share of what the ranks of its host do, with the other hosts. */
#ifndef FAN_LIB_RANK_COLUMN_H
#define FAN_LIB_RANK_COLUMN_H

#include "rank.h"

/* The rank of column `number` of those of `of`, at the same aggregators.  Texts name ranks as
 * `column` says, whose arrays outlive it. */
int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank);

#endif
