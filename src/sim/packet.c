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
	uint32_t whole = (uint32_t)sizeof(struct fan_sim_body) + bytes;
	p->stride = (whole + ALIGN - 1) / ALIGN * ALIGN;
}

void fan_body_pool_free(struct fan_body_pool *p)
{
	for (unsigned i = 0; i < p->slabs; i++)
		free(p->slab[i]);
	memset(p, 0, sizeof *p);
}

static bool grow(struct fan_body_pool *p)
{
	uint32_t count = p->made / 4 < SLAB_FIRST ? SLAB_FIRST : p->made / 4;
	if (p->slabs == FAN_BODY_SLABS_MAX || p->made > UINT32_MAX / 2)
		return false;
	/* the core looks a little ahead of a datagram, never to read it */
	uint8_t *slab = aligned_alloc(ALIGN, (size_t)count * p->stride);
	if (!slab)
		return false;
	p->slab[p->slabs++] = slab;
	p->made += count;
	p->fresh = slab;
	p->freshes = count;
	return true;
}

struct fan_sim_body *fan_body_make(struct fan_body_pool *p)
{
	if (p->freshes == 0 && !grow(p))
		return NULL;
	struct fan_sim_body *b = (struct fan_sim_body *)p->fresh;
	p->fresh += p->stride;
	p->freshes--;
	return b;
}
