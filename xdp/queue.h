/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - the AF_XDP socket of one receive queue, and the memory that its frames lie in. */
#ifndef FAN_XDP_QUEUE_H
#define FAN_XDP_QUEUE_H

#include <xdp/xsk.h>

#include "level.h"
#include "net/frame.h"
#include "steer.h"

#define XDP_QUEUE_FRAMES XDP_LEVEL_ALL /* a power of 2: the rings have as many places */

struct xdp_queue {
	struct xsk_ring_cons rx, unused;
	struct xsk_ring_prod fill;
	struct xsk_umem *memory;
	struct xsk_socket *socket;
	uint8_t *area;
	size_t frame_bytes;
	unsigned interface;		 /* index */
	uint32_t taken;			 /* frames received and not released */
	uint64_t frame[FAN_PLANE_BATCH]; /* where these lie */
	uint64_t rest[XDP_QUEUE_FRAMES]; /* that the kernel does not have; last used, last */
	uint32_t rests;
	uint32_t given; /* frames that it has, with those that are filled and wait */
	struct xdp_level level;
	uint64_t faults[FAN_FRAME_FAULTS];
};

/* Bytes of the frames that hold datagrams of `datagram_bytes`; 0: none does. */
size_t xdp_frame_bytes(size_t datagram_bytes);

/* A socket for queue `index` of `interface`.  0 and `*q`, or -errno. */
int xdp_queue_open(struct xdp_queue **q, const char *interface, unsigned index, size_t frame_bytes);
void xdp_queue_close(struct xdp_queue *q); /* NULL is allowed */

/* Does the driver put frames right where they are read? */
bool xdp_queue_is_zero_copy(const struct xdp_queue *q);

/* As the calls of plane.h. */
unsigned xdp_queue_recv(struct xdp_queue *q, struct fan_plane_datagram *d, unsigned most);
void xdp_queue_release(struct xdp_queue *q);
unsigned xdp_queue_backlog_percent(const struct xdp_queue *q);
void xdp_queue_stats(const struct xdp_queue *q, struct fan_plane_stats *s);

#endif
