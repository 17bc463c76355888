/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_pair.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WAYS	2
#define LINE	64			/* bytes of a line of the CPU's cache */
#define DATA_AT (LINE - FAN_HEAD_BYTES) /* in a place, so that payloads are aligned */

/* Counts of datagrams, modulo 2^32; each line has one writer. */
struct ring {
	_Alignas(LINE) atomic_uint shown;  /* of the writer */
	uint32_t put, place;		   /* of these `shown` are; where the next one goes */
	uint32_t known;			   /* let go, as far as the writer has looked */
	_Alignas(LINE) atomic_uint let_go; /* of the reader */
	uint32_t read;
	_Alignas(LINE) atomic_bool sleeps;
	int fd;
	uint8_t *at; /* FAN_RING_PAIR_PLACES places of `stride` bytes */
	uint16_t place_of[FAN_RING_PAIR_PLACES];
	uint16_t bytes_of[FAN_RING_PAIR_PLACES];
};

struct fan_ring_pair {
	struct ring ring[WAYS];
	atomic_bool closed;
	atomic_uint owners;
	fan_peer rank;
	size_t stride;
};

static void free_all(struct fan_ring_pair *h)
{
	for (unsigned w = 0; w < WAYS; w++) {
		if (h->ring[w].fd >= 0)
			close(h->ring[w].fd);
		free(h->ring[w].at);
	}
	free(h);
}

struct fan_ring_pair *fan_ring_pair_new(const fan_peer *rank, size_t most_bytes)
{
	struct fan_ring_pair *h = aligned_alloc(LINE, sizeof *h);
	bool whole = h && most_bytes <= UINT16_MAX;
	if (!h)
		return NULL;
	memset(h, 0, sizeof *h);
	h->rank = *rank;
	h->stride = (DATA_AT + most_bytes + LINE - 1) / LINE * LINE;
	atomic_init(&h->owners, WAYS);
	for (unsigned w = 0; w < WAYS; w++) {
		struct ring *r = &h->ring[w];
		r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r->at = whole ? aligned_alloc(LINE, FAN_RING_PAIR_PLACES * h->stride) : NULL;
		whole &= r->fd >= 0 && r->at;
	}
	if (whole)
		return h;
	free_all(h);
	return NULL;
}

static void wake(const struct ring *r)
{
	uint64_t one = 1;
	/* It fails only if the counter is full, which 2^64 wake-ups take. */
	if (write(r->fd, &one, sizeof one) < 0)
		return;
}

void fan_ring_pair_close(struct fan_ring_pair *h)
{
	atomic_store(&h->closed, true);
	for (unsigned w = 0; w < WAYS; w++)
		wake(&h->ring[w]);
	if (atomic_fetch_sub(&h->owners, 1) == 1)
		free_all(h);
}

bool fan_ring_pair_is_closed(const struct fan_ring_pair *h)
{
	return atomic_load(&h->closed);
}

const fan_peer *fan_ring_pair_rank(const struct fan_ring_pair *h)
{
	return &h->rank;
}

bool fan_ring_pair_fits(struct fan_ring_pair *h, enum fan_ring_pair_way way, unsigned count)
{
	struct ring *r = &h->ring[way];
	if (r->put - r->known + count > FAN_RING_PAIR_PLACES)
		r->known = atomic_load_explicit(&r->let_go, memory_order_acquire);
	return r->put - r->known + count <= FAN_RING_PAIR_PLACES && !fan_ring_pair_is_closed(h);
}

/* Where all has been read, the ring begins at its first place again, which is in the cache. */
static bool has_room(struct ring *r)
{
	uint32_t shown = atomic_load_explicit(&r->shown, memory_order_relaxed);
	if (r->put != shown && r->put - r->known < FAN_RING_PAIR_PLACES)
		return true;
	r->known = atomic_load_explicit(&r->let_go, memory_order_acquire);
	if (r->known == r->put)
		r->place = 0;
	return r->put - r->known < FAN_RING_PAIR_PLACES;
}

bool fan_ring_pair_put(struct fan_ring_pair *h, enum fan_ring_pair_way way, const struct iovec *iov,
		       unsigned vectors)
{
	struct ring *r = &h->ring[way];
	size_t bytes = 0;
	for (unsigned i = 0; i < vectors; i++)
		bytes += iov[i].iov_len;
	if (DATA_AT + bytes > h->stride || !has_room(r) || fan_ring_pair_is_closed(h))
		return false;
	uint8_t *to = r->at + r->place * h->stride + DATA_AT;
	for (unsigned i = 0; i < vectors; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	r->place_of[r->put % FAN_RING_PAIR_PLACES] = (uint16_t)r->place;
	r->bytes_of[r->put % FAN_RING_PAIR_PLACES] = (uint16_t)bytes;
	r->place = (r->place + 1) % FAN_RING_PAIR_PLACES;
	r->put++;
	return true;
}

/* The reader sets its flag and then looks once more; the writer shows and then asks whether
 * it sleeps: one of them sees what the other has done. */
void fan_ring_pair_show(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	struct ring *r = &h->ring[way];
	if (r->put == atomic_load_explicit(&r->shown, memory_order_relaxed))
		return;
	atomic_store(&r->shown, r->put);
	if (atomic_load(&r->sleeps) && atomic_exchange(&r->sleeps, false))
		wake(r);
}

uint8_t *fan_ring_pair_next(struct fan_ring_pair *h, enum fan_ring_pair_way way, size_t *bytes)
{
	struct ring *r = &h->ring[way];
	if (r->read == atomic_load_explicit(&r->shown, memory_order_acquire))
		return NULL;
	uint32_t i = r->read++ % FAN_RING_PAIR_PLACES;
	assert(r->place_of[i] < FAN_RING_PAIR_PLACES);
	*bytes = r->bytes_of[i];
	return r->at + r->place_of[i] * h->stride + DATA_AT;
}

void fan_ring_pair_release(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	struct ring *r = &h->ring[way];
	atomic_store_explicit(&r->let_go, r->read, memory_order_release);
}

bool fan_ring_pair_may_sleep(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	struct ring *r = &h->ring[way];
	atomic_store(&r->sleeps, true);
	if (atomic_load(&r->shown) == r->read && !fan_ring_pair_is_closed(h))
		return true;
	fan_ring_pair_awake(h, way);
	return false;
}

void fan_ring_pair_awake(struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	atomic_store_explicit(&h->ring[way].sleeps, false, memory_order_relaxed);
}

int fan_ring_pair_fd(const struct fan_ring_pair *h, enum fan_ring_pair_way way)
{
	return h->ring[way].fd;
}
