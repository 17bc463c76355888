/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_agree.h - all ranks agree on which results they have, and go on from there: regroup.h. */
#ifndef FAN_LIB_RANK_REGROUP_AGREE_H
#define FAN_LIB_RANK_REGROUP_AGREE_H

#include <stdbool.h>

struct fanin_comm;
struct fan_regroup;

/* Begin.  All ranks have joined, and no operation is under way. */
void fan_regroup_agree(struct fanin_comm *c);

/* The all-reduce under way is done... */
void fan_regroup_arrived(struct fanin_comm *c);

/* ...so go on.  True: there may be something to start. */
bool fan_regroup_go_on(struct fanin_comm *c);

/* Free what only the agreement needs. */
void fan_regroup_forget(struct fan_regroup *g);

#endif
