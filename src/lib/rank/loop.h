/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - the progress thread of a rank with connections: the only one that runs the core. */
#ifndef FAN_LIB_RANK_LOOP_H
#define FAN_LIB_RANK_LOOP_H

/* Entry of the thread of `rank`: runs until its `closing` is set and all connections have left. */
void *fan_rank_loop(void *rank);

#endif
