/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <stdlib.h>

#include "pages.h"

#define ALIGN	   64u
#define SLAB_FIRST 256u

_Static_assert(offsetof(struct fan_sim_body, bytes) == ALIGN - FAN_HEAD_BYTES,
	       "payloads must be aligned");

static uint32_t stride_of(uint32_t bytes)
{
	uint32_t all = (uint32_t)offsetof(struct fan_sim_body, bytes) + bytes;
	return (all + ALIGN - 1) / ALIGN * ALIGN;
}

void fan_body_pool_init(struct fan_body_pool *p, uint32_t bytes)
{
	memset(p, 0, sizeof *p);
	p->bytes = bytes;
	p->whole.stride = stride_of(bytes);
	p->small.stride = stride_of(FAN_HEAD_BYTES);
}

static void free_slabs(struct fan_body_shelf *p)
{
	for (unsigned i = 0; i < p->slabs; i++)
		free(p->slab[i]);
}

void fan_body_pool_free(struct fan_body_pool *p)
{
	free_slabs(&p->whole);
	free_slabs(&p->small);
	memset(p, 0, sizeof *p);
}

static bool grow(struct fan_body_shelf *p)
{
	uint32_t count = p->made / 4 < SLAB_FIRST ? SLAB_FIRST : p->made / 4;
	if (p->slabs == FAN_BODY_SLABS_MAX || p->made > UINT32_MAX / 2)
		return false;
	/* the core prefetches a little beyond a datagram, but never reads that */
	uint8_t *slab = fan_pages_alloc((size_t)count * p->stride);
	if (!slab)
		return false;
	p->slab[p->slabs++] = slab;
	p->made += count;
	p->fresh = slab;
	p->freshes = count;
	return true;
}

struct fan_sim_body *fan_body_make(struct fan_body_shelf *p)
{
	if (p->freshes == 0 && !grow(p))
		return NULL;
	struct fan_sim_body *b = (struct fan_sim_body *)p->fresh;
	p->fresh += p->stride;
	p->freshes--;
	return b;
}

void fan_body_copy(const struct fan_sim_body *b, uint16_t len, uint8_t *to)
{
	const uint8_t *apart = fan_body_payload_apart(b);
	memcpy(to, b->bytes, apart ? FAN_HEAD_BYTES : len);
	if (apart)
		memcpy(to + FAN_HEAD_BYTES, apart, len - FAN_HEAD_BYTES);
}
