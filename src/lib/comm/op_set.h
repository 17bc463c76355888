/* SPDX-License-Identifier: Apache-2.0 */
/* op_set.h - an operation that consists of several, one for each rank: reduce-scatter, whose member
 * i is a reduction to rank i, and all-gather, whose member i is a broadcast from rank i.
 *
 * The caller holds the whole; it ends when its last member does, and frees them. */
#ifndef FAN_LIB_COMM_OP_SET_H
#define FAN_LIB_COMM_OP_SET_H

#include "lib/base/op.h"

/* Start a reduce-scatter: `args` has the elements of all ranks in `in`, those of one rank in `out`
 * and `count`.  Or an all-gather, FAN_BCAST: those of one rank in `in`, of all in `out`.  `wait`,
 * the errors and `*op` are as in fan_rank_submit. */
int fan_op_set_start(struct fanin_comm *c, const struct fan_op_args *args, bool wait,
		     struct fanin_op **op);

#endif
