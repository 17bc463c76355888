/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <stdlib.h>

#define ALIGN	   64u
#define SLAB_FIRST 256u

_Static_assert(offsetof(struct fan_sim_body, bytes) == ALIGN - FAN_HEAD_BYTES,
	       "payloads must be aligned");

void fan_body_pool_init(struct fan_body_pool *p, uint32_t bytes)
{
	memset(p, 0, sizeof *p);
	p->bytes = bytes;
}

void fan_body_pool_free(struct fan_body_pool *p)
{
	for (unsigned i = 0; i < p->slabs; i++)
		free(p->slab[i]);
	memset(p, 0, sizeof *p);
}

uint32_t fan_body_bytes(const struct fan_body_pool *p)
{
	uint32_t bytes = (uint32_t)sizeof(struct fan_sim_body) + p->bytes;
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

bool fan_body_grow(struct fan_body_pool *p)
{
	uint32_t count = p->made ? p->made : SLAB_FIRST, stride = fan_body_bytes(p);
	if (p->slabs == FAN_BODY_SLABS_MAX || p->made > UINT32_MAX / 2)
		return false;
	/* the core looks a little ahead of a datagram, never to read it */
	uint8_t *slab = aligned_alloc(ALIGN, (size_t)count * stride);
	if (!slab)
		return false;
	p->slab[p->slabs++] = slab;
	p->made += count;
	for (uint32_t i = count; i-- > 0;) {
		struct fan_sim_body *b = (struct fan_sim_body *)(slab + (size_t)i * stride);
		b->next = p->free;
		p->free = b;
	}
	return true;
}
