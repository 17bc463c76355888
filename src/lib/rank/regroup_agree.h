/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_agree.h - all ranks agree on which results they have, and go on from there: regroup.h. */
#ifndef FAN_LIB_RANK_REGROUP_AGREE_H
#define FAN_LIB_RANK_REGROUP_AGREE_H

#include <stdbool.h>

#define FAN_REGROUP_RESULTS 64 /* given to other ranks at a time */

struct fan_rank;
struct fan_regroup;

/* Begin.  All ranks have joined, and no operation is in progress. */
void fan_regroup_agree(struct fan_rank *r);

/* Go on, once the all-reduce in progress is done.  True: there may be something to start. */
bool fan_regroup_go_on(struct fan_rank *r);

/* Free what only the agreement needs. */
void fan_regroup_forget(struct fan_regroup *g);

#endif
