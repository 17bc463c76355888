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

struct fan_rank;
struct fanin_op;
struct fan_host_comm;
struct fan_meeting;

/* Share memory with the ranks of this host, and join this rank's column.  `r` becomes a rank of
 * that kind.  `together`: all ranks of the host get the segment, or none.  Blocks.  FAN_OK; or an
 * error, with which the rank has failed. */
int fan_host_comm_open(struct fan_rank *r, const struct fan_meeting *m, bool together);

/* The communicator of this rank's column; NULL: it has none. */
const struct fan_rank *fan_host_comm_net(const struct fan_host_comm *l);

#endif
