/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif

size_t xdp_frame_bytes(size_t datagram_bytes)
{
	size_t needed = datagram_bytes + FAN_FRAME_HEAD_MAX + XDP_FRAME_SPARE;

	if (needed > XDP_FRAME_LARGE)
		return 0;
	return needed > XDP_FRAME_SMALL ? XDP_FRAME_LARGE : XDP_FRAME_SMALL;
}

/* Let the kernel have as many frames as it is to have. */
static void refill(struct xdp_queue *q)
{
	uint32_t at, count = q->given < q->level.frames ? q->level.frames - q->given : 0;

	if (count > q->rests)
		count = q->rests;
	if (!count || xsk_ring_prod__reserve(&q->fill, count, &at) != count)
		return; /* the ring has a place for every frame */
	for (uint32_t i = 0; i < count; i++)
		*xsk_ring_prod__fill_addr(&q->fill, at + i) = q->rest[--q->rests];
	xsk_ring_prod__submit(&q->fill, count);
	q->given += count;
}

static void refill_all(struct xdp_queue *q)
{
	for (uint64_t i = 0; i < XDP_QUEUE_FRAMES; i++)
		q->rest[q->rests++] = (XDP_QUEUE_FRAMES - 1 - i) * q->frame_bytes;
	xdp_level_init(&q->level);
	refill(q);
}

static uint32_t count_waiting(const struct xdp_queue *q)
{
	return __atomic_load_n(q->rx.producer, __ATOMIC_ACQUIRE) - *q->rx.consumer;
}

static int open_socket(struct xdp_queue *q, const char *interface, unsigned index)
{
	const struct xsk_umem_config memory = {
		.fill_size = XDP_QUEUE_FRAMES,
		.comp_size = XSK_RING_CONS__DEFAULT_NUM_DESCS,
		.frame_size = (uint32_t)q->frame_bytes,
	};
	const struct xsk_socket_config socket = {
		.rx_size = XDP_QUEUE_FRAMES,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP,
	};
	size_t bytes = q->frame_bytes * XDP_QUEUE_FRAMES;

	q->area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->area == MAP_FAILED) {
		q->area = NULL;
		return -ENOMEM;
	}
	int e = xsk_umem__create(&q->memory, q->area, bytes, &q->fill, &q->unused, &memory);
	if (!e)
		e = xsk_socket__create(&q->socket, interface, index, q->memory, &q->rx, NULL,
				       &socket);
	return e;
}

int xdp_queue_open(struct xdp_queue **out, const char *interface, unsigned index,
		   size_t frame_bytes)
{
	struct xdp_queue *q = calloc(1, sizeof *q);

	*out = NULL;
	if (!q)
		return -ENOMEM;
	q->frame_bytes = frame_bytes;
	q->interface = if_nametoindex(interface);
	int e = open_socket(q, interface, index);
	if (e) {
		xdp_queue_close(q);
		return e;
	}
	refill_all(q);
	*out = q;
	return 0;
}

void xdp_queue_close(struct xdp_queue *q)
{
	if (!q)
		return;
	if (q->socket)
		xsk_socket__delete(q->socket);
	if (q->memory)
		xsk_umem__delete(q->memory);
	if (q->area)
		munmap(q->area, q->frame_bytes * XDP_QUEUE_FRAMES);
	free(q);
}

bool xdp_queue_is_zero_copy(const struct xdp_queue *q)
{
	struct xdp_options o = {0};
	socklen_t len = sizeof o;

	if (getsockopt(xsk_socket__fd(q->socket), SOL_XDP, XDP_OPTIONS, &o, &len))
		return false;
	return o.flags & XDP_OPTIONS_ZEROCOPY;
}

/* Good frames alone are worth a look at their address. */
static bool read_frame(struct xdp_queue *q, struct fan_plane_datagram *d, const struct xdp_desc *f)
{
	enum fan_frame_fault fault = fan_frame_read(d, q->area + f->addr, f->len);

	q->faults[fault]++;
	if (fault)
		return false;
	if (IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)d->from.addr))
		d->from.scope = q->interface;
	return true;
}

unsigned xdp_queue_recv(struct xdp_queue *q, struct fan_plane_datagram *d, unsigned most)
{
	uint32_t at, room = FAN_PLANE_BATCH - q->taken;

	xdp_level_look(&q->level, count_waiting(q));
	uint32_t count = xsk_ring_cons__peek(&q->rx, most < room ? most : room, &at);
	unsigned good = 0;

	q->given -= count;
	for (uint32_t i = 0; i < count; i++) {
		const struct xdp_desc *f = xsk_ring_cons__rx_desc(&q->rx, at + i);
		q->frame[q->taken++] = f->addr - f->addr % q->frame_bytes;
		good += read_frame(q, &d[good], f);
	}
	if (count)
		xsk_ring_cons__release(&q->rx, count);
	return good;
}

void xdp_queue_release(struct xdp_queue *q)
{
	while (q->taken)
		q->rest[q->rests++] = q->frame[--q->taken];
	refill(q);
	/* A driver that ran out of frames waits for a call. */
	if (xsk_ring_prod__needs_wakeup(&q->fill))
		recvfrom(xsk_socket__fd(q->socket), NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

unsigned xdp_queue_backlog_percent(const struct xdp_queue *q)
{
	return count_waiting(q) * 100 / XDP_QUEUE_FRAMES;
}

void xdp_queue_stats(const struct xdp_queue *q, struct fan_plane_stats *s)
{
	struct xdp_statistics x = {0};
	socklen_t len = sizeof x;

	s->bad_length = q->faults[FAN_FRAME_LENGTH];
	s->bad_checksum = q->faults[FAN_FRAME_CHECKSUM];
	s->other = q->faults[FAN_FRAME_OTHER];
	s->lost = 0;
	if (!getsockopt(xsk_socket__fd(q->socket), SOL_XDP, XDP_STATISTICS, &x, &len))
		s->lost = x.rx_dropped + x.rx_ring_full + x.rx_fill_ring_empty_descs;
}
