/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - messages from one process to another over a TCP connection: ncclNet's point to point.
 *
 * The receiver tells each receive that is posted, and the sender sends what one waits for: so a
 * message never waits in front of one with another tag, and lands in its place without a copy.
 * There is no thread: calls move what can be moved and never block.  A process whose host is gone
 * is noticed by TCP after FANIN_ALIVE_MS (10000) of silence, one that has ended at once.
 *
 * On the wire, little-endian.  A receive that is posted, receiver to sender:
 *
 *     0  magic   "fanR"      8   pieces, 1 to FAN_NCCL_PIECES_MAX
 *     4  number              12  0
 *     16 for each piece: tag (4), 0 (4), its room in bytes (8)
 *
 * A message, sender to receiver, followed by its bytes:
 *
 *     0  magic   "fanM"      8   piece
 *     4  number of receive   12  0
 *                            16  bytes (8) */
#ifndef FAN_NCCL_LINK_H
#define FAN_NCCL_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"
#include "core/base/out.h"

#define FAN_NCCL_PIECES_MAX	  8	     /* of one receive */
#define FAN_NCCL_MESSAGE_MAX	  (1u << 30) /* bytes of a message */
#define FAN_NCCL_PEER_BYTES	  80	     /* of an address as text */
#define FAN_NCCL_ALIVE_MS_DEFAULT 10000

struct fan_nccl_link;

/* A link of the connected socket `fd`, which it owns from here on, to `peer`; it `sends`, or
 * receives.  NULL: no memory; `fd` is closed. */
struct fan_nccl_link *fan_nccl_link_new(int fd, bool sends, const fan_peer *peer);

/* Start to send, or to receive in `pieces` pieces.  The memory stays the caller's, and in use until
 * the request has ended.  `*request` NULL: not now, ask again.  An enum fan_nccl_result. */
int fan_nccl_link_send(struct fan_nccl_link *l, const void *data, size_t bytes, int tag,
		       void **request);
int fan_nccl_link_recv(struct fan_nccl_link *l, int pieces, void *const *data, const size_t *room,
		       const int *tag, void **request);

/* Has it ended?  Then its memory is the caller's again, `sizes`, unless NULL, gets the bytes of
 * each piece, and `request` is no longer valid; so it is after an error. */
int fan_nccl_link_test(void *request, int *done, int *sizes);

/* Close it.  Requests that are open end with it: their memory is the caller's again. */
void fan_nccl_link_close(struct fan_nccl_link *l);

#endif
