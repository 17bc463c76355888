/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_agree.h - all ranks agree on which results they have, and go on from there: regroup.h. */
#ifndef FAN_LIB_RANK_REGROUP_AGREE_H
#define FAN_LIB_RANK_REGROUP_AGREE_H

#include <stdbool.h>

struct fan_rank;
struct fan_regroup;

/* Begin.  All ranks have joined, and no operation is under way. */
void fan_regroup_agree(struct fan_rank *c);

/* The all-reduce under way is done... */
void fan_regroup_arrived(struct fan_rank *c);

/* ...so go on.  True: there may be something to start. */
bool fan_regroup_go_on(struct fan_rank *c);

/* Free what only the agreement needs. */
void fan_regroup_forget(struct fan_regroup *g);

#endif
