/* SPDX-License-Identifier: Apache-2.0 */
/* completion.h - how operations end, and a rank with connections.  For the progress thread alone.
 */
#ifndef FAN_LIB_RANK_COMPLETION_H
#define FAN_LIB_RANK_COMPLETION_H

#include <stdbool.h>

struct fan_rank;
struct fanin_op;

/* `op` is over: make room, then tell.  It may be gone afterwards. */
void fan_rank_end_op(struct fan_rank *r, struct fanin_op *op, int result);

/* Take those running operations into `ops` that are done, of which there is room for FAN_OPS_MAX:
 * how many.  Those behind a measurement that is in progress stay. */
unsigned fan_rank_take_done(struct fan_rank *r,
			    bool (*is_done)(struct fan_rank *r, struct fanin_op *op),
			    struct fanin_op **ops);

/* `count` operations have their results: count them all, then end them, so that who has waited for
 * one finds it counted. */
void fan_rank_end_done(struct fan_rank *r, struct fanin_op *const *ops, unsigned count);

/* The rests of operation `whole` have ended, and it has not been counted yet. */
void fan_rank_end_whole(struct fan_rank *r, struct fanin_op *whole, int result);

/* End all operations that the thread has taken. */
void fan_rank_end_all(struct fan_rank *r, int result);

/* Leave the jobs of all connections, which touch no tensor after this.  `error`: FAN_OK, or why. */
void fan_rank_leave(struct fan_rank *r, int error);

/* End the rank and all its operations. */
void fan_rank_fail(struct fan_rank *r, int error, const char *sentence);

#endif
