/* SPDX-License-Identifier: Apache-2.0 */
/* kept_name.h - where the ranks of a communicator have met, kept so that a second launch of its
 * name is noticed (core/aggregator/join.c).
 *
 * Ranks that share memory, or whose hosts sum, are at the switch under the number of their own
 * launch afterwards, or not at all, and the name would be free at once. */
#ifndef FAN_LIB_COMM_KEPT_NAME_H
#define FAN_LIB_COMM_KEPT_NAME_H

#include "comm.h"

/* The launch from here on: the ranks have met, and unless the launch has an id that no other has,
 * what rank 0 has drawn in the meeting `m` is that. */
uint64_t fan_comm_launch(const struct fanin_comm *c, const struct fan_meeting *m);

/* The ranks of `c` have met at `met`, which is no longer the caller's.  It ends; or it keeps the
 * name for FAN_CLAIMS_NS, and `c` fails as it does if two launches use the name. */
void fan_comm_keep_name(struct fanin_comm *c, struct fanin_comm *met);

/* Return what keeps the name of `c`, which begins to leave: for the caller to destroy.  NULL:
 * nothing. */
struct fanin_comm *fan_comm_drop_name(struct fanin_comm *c);

/* This process is about to join as `cfg` says: what it keeps of that name and rank itself ends. */
void fan_comm_drop_names_of(const struct fan_config *cfg);

#endif
