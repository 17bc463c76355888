/* SPDX-License-Identifier: Apache-2.0 */
/* coll_meet.h - where the ranks of a communicator of ncclCollNet meet, and their job. */
#ifndef FAN_NCCL_COLL_MEET_H
#define FAN_NCCL_COLL_MEET_H

#include <fanin.h>

/* Join the job that the handles of all ranks say; `*job` is set on success alone.  An
 * enum fan_nccl_result, whose cause is in the log. */
int fan_nccl_coll_join(void *handles[], int ranks, int rank, void *listening, fanin_comm **job);

/* Leave it. */
void fan_nccl_coll_leave(fanin_comm *job);

#endif
