/* SPDX-License-Identifier: Apache-2.0 */
/* hatch.h - datagrams between a rank and the aggregator in its own process, past the kernel.
 *
 * A hatch has a ring up, from the rank's thread to the aggregator's, and one down.  Datagrams are
 * copied into a ring, and read where they lie: one copy in place of two and a system call.  The
 * reader sleeps in epoll on an eventfd of the ring, edge-triggered, which nobody has to read, and
 * is woken only if it has said that it sleeps.  What finds no room goes by the socket (ADR 40).
 *
 * A hatch belongs to both threads; each closes it. */
#ifndef FAN_HATCH_H
#define FAN_HATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/out.h"

#define FAN_HATCH_PLACES 512 /* datagrams in a ring: a power of two */

enum fan_hatch_way { FAN_HATCH_UP, FAN_HATCH_DOWN };

struct fan_hatch;

/* For the rank that the aggregator knows by the address `rank`, and datagrams of at most
 * `most_bytes`.  NULL: no memory, or no file descriptors. */
struct fan_hatch *fan_hatch_new(const fan_peer *rank, size_t most_bytes);

/* One of the two has done with it, and wakes the other; the second frees it. */
void fan_hatch_close(struct fan_hatch *h);

/* The other has: there is nothing but what is in the ring. */
bool fan_hatch_is_closed(const struct fan_hatch *h);

const fan_peer *fan_hatch_rank(const struct fan_hatch *h);

/* ---- the writer of a ring ---- */

/* Put a datagram, gathered from `vectors` pieces.  False: no room, too long, or closed. */
bool fan_hatch_put(struct fan_hatch *h, enum fan_hatch_way way, const struct iovec *iov,
		   unsigned vectors);

/* Is there room for `count` datagrams? */
bool fan_hatch_fits(struct fan_hatch *h, enum fan_hatch_way way, unsigned count);

/* Let the reader have all that was put, and wake it if it sleeps. */
void fan_hatch_show(struct fan_hatch *h, enum fan_hatch_way way);

/* ---- its reader ---- */

/* The next datagram, which the reader may change, until fan_hatch_let_go; NULL: none. */
uint8_t *fan_hatch_next(struct fan_hatch *h, enum fan_hatch_way way, size_t *bytes);

/* The places of all that has been read may be written again. */
void fan_hatch_let_go(struct fan_hatch *h, enum fan_hatch_way way);

/* Before it sleeps, and once it is awake.  False: there is something to read, or to close. */
bool fan_hatch_may_sleep(struct fan_hatch *h, enum fan_hatch_way way);
void fan_hatch_awake(struct fan_hatch *h, enum fan_hatch_way way);

/* Of epoll, edge-triggered. */
int fan_hatch_fd(const struct fan_hatch *h, enum fan_hatch_way way);

#endif
