/* SPDX-License-Identifier: Apache-2.0 */
/* ring_pair.h - datagrams between a rank and the aggregator in its own process, past the kernel.
 *
 * A ring pair has a ring up, from the rank's thread to the aggregator's, and one down.  Datagrams
 * are copied into a ring, and read where they lie: one copy in place of two and a system call.  The
 * reader sleeps in epoll on an eventfd of the ring, edge-triggered, which nobody has to read, and
 * is woken only if it has set its flag.  A datagram without room goes by the socket (ADR 40).
 *
 * A ring pair belongs to both threads; each closes it. */
#ifndef FAN_RING_PAIR_H
#define FAN_RING_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/out.h"

#define FAN_RING_PAIR_PLACES 512 /* datagrams in a ring: a power of two */

enum fan_ring_pair_way { FAN_RING_PAIR_UP, FAN_RING_PAIR_DOWN };

struct fan_ring_pair;

/* For the rank that the aggregator knows by the address `rank`, and datagrams of at most
 * `most_bytes`.  NULL: no memory, or no file descriptors. */
struct fan_ring_pair *fan_ring_pair_new(const fan_peer *rank, size_t most_bytes);

/* One of the two has done with it, and wakes the other; the second frees it. */
void fan_ring_pair_close(struct fan_ring_pair *h);

/* Has the other closed it?  Then only the ring's items are left. */
bool fan_ring_pair_is_closed(const struct fan_ring_pair *h);

const fan_peer *fan_ring_pair_rank(const struct fan_ring_pair *h);

/* ---- the writer of a ring ---- */

/* Put a datagram, gathered from `vectors` pieces.  False: no room, too long, or closed. */
bool fan_ring_pair_put(struct fan_ring_pair *h, enum fan_ring_pair_way way, const struct iovec *iov,
		       unsigned vectors);

/* Is there room for `count` datagrams? */
bool fan_ring_pair_fits(struct fan_ring_pair *h, enum fan_ring_pair_way way, unsigned count);

/* Let the reader have all that was put, and wake it if it sleeps. */
void fan_ring_pair_show(struct fan_ring_pair *h, enum fan_ring_pair_way way);

/* ---- its reader ---- */

/* The next datagram, which the reader may change, until fan_ring_pair_release; NULL: none. */
uint8_t *fan_ring_pair_next(struct fan_ring_pair *h, enum fan_ring_pair_way way, size_t *bytes);

/* The places of all that has been read may be written again. */
void fan_ring_pair_release(struct fan_ring_pair *h, enum fan_ring_pair_way way);

/* Before it sleeps, and once it is awake.  False: there is something to read, or to close. */
bool fan_ring_pair_may_sleep(struct fan_ring_pair *h, enum fan_ring_pair_way way);
void fan_ring_pair_awake(struct fan_ring_pair *h, enum fan_ring_pair_way way);

/* Return the descriptor for epoll, edge-triggered. */
int fan_ring_pair_fd(const struct fan_ring_pair *h, enum fan_ring_pair_way way);

#endif
