/* SPDX-License-Identifier: Apache-2.0 */
/* by_sockets.h - the kind of rank that has connections to aggregators. */
#ifndef FAN_LIB_RANK_BY_SOCKETS_H
#define FAN_LIB_RANK_BY_SOCKETS_H

#include "rank.h"

extern const struct fan_rank_kind fan_rank_by_sockets;

/* A rank that sums a share of what the ranks of its host do, with the other hosts: that of column
 * `number` of those of `of`, at the same aggregators.  Texts name ranks as `column` says, whose
 * arrays outlive it. */
int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank);

#endif
