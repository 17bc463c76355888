/* SPDX-License-Identifier: Apache-2.0 */
/* host_comm.h - a communicator whose ranks share memory with the others of their host (segment.h).
 *
 * With several hosts, number i of each host sums share i of each chunk, and adds the other hosts'
 * over a communicator of its own: column i, a job with a rank for each host.  So what leaves a
 * host is one tensor, not one for each rank.
 *
 * The work of a rank is done by whoever waits for it: the caller of a blocking operation, since it
 * is on a core already, otherwise a thread of the communicator.  One at a time: `drive`. */
#ifndef FAN_LIB_HOST_HOST_COMM_H
#define FAN_LIB_HOST_HOST_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "segment.h"

struct fanin_comm;
struct fanin_op;
struct fan_intra_comm;
struct fan_meeting;

/* Share memory with the ranks of this host, and join this rank's column.  Sets c->intra.  Blocks.
 * FAN_OK; or an error, with which the communicator has failed. */
int fan_intra_comm_open(struct fanin_comm *c, const struct fan_meeting *m);

/* Called every FAN_COMM_IDLE_MS while this rank waits for the others of its column: it lives, and
 * waits no longer when its host has failed.  `intra`: c->intra. */
void fan_intra_comm_join_on(void *intra);

/* Entry of the thread. */
void *fan_intra_comm_run(void *comm);

/* Do the work of this rank until `op`, which is queued, has ended, it is `until_ns` or the
 * communicator is being destroyed; at once, if another thread does it.  What is left after that is
 * the thread's. */
void fan_intra_comm_attend(struct fanin_comm *c, struct fanin_op *op, uint64_t until_ns);

/* Any thread: somebody shall look at the queue. */
void fan_intra_comm_wake(struct fan_intra_comm *l);

/* The communicator of this rank's column; NULL: it has none. */
const struct fanin_comm *fan_intra_comm_net(const struct fan_intra_comm *l);

/* NULL is allowed. */
void fan_intra_comm_free(struct fan_intra_comm *l);

#endif
