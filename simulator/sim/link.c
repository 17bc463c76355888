/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <stdlib.h>

#include "core/wire/wire.h"
#include "pages.h"

/* ---- bodies ---- */

#define SLAB_FIRST 256u

_Static_assert(offsetof(struct fan_sim_body, bytes) == FAN_ALIGN - FAN_HEAD_BYTES,
	       "payloads must be aligned");

static uint32_t stride_of(uint32_t bytes)
{
	uint32_t all = (uint32_t)offsetof(struct fan_sim_body, bytes) + bytes;
	return (uint32_t)fan_align_up(all);
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

static bool add_slab(struct fan_body_shelf *p)
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
	if (p->freshes == 0 && !add_slab(p))
		return NULL;
	struct fan_sim_body *b = (struct fan_sim_body *)p->fresh;
	p->fresh += p->stride;
	p->freshes--;
	return b;
}

/* ---- links ---- */

#define ROOM_FIRST 16u

static uint64_t time_ps(const struct fan_sim_link *l, uint64_t bytes)
{
	return (uint64_t)((unsigned __int128)bytes * l->byte_q16 >> FAN_Q16_SHIFT);
}

static void set_rate(struct fan_sim_link *l, uint64_t bps)
{
	l->cfg.bps = bps;
	l->byte_q16 = bps ? (UINT64_C(8000000000000) << FAN_Q16_SHIFT) / bps : 0;
	l->queue_ps = time_ps(l, l->cfg.queue_bytes);
	l->ecn_ps = l->cfg.ecn_bytes ? time_ps(l, l->cfg.ecn_bytes) : UINT64_MAX;
}

static bool has_faults(const struct fan_sim_fault *f)
{
	return f->loss || f->duplicate || f->reorder || f->corrupt || f->jitter_ns;
}

void fan_link_init(struct fan_sim_link *l, const struct fan_link_config *cfg, uint32_t from,
		   uint32_t to, struct fan_rng rng)
{
	memset(l, 0, sizeof *l);
	l->cfg = *cfg;
	l->from = from;
	l->to = to;
	l->rng = rng;
	l->delay_ns = cfg->delay_ns;
	l->overhead_bytes = cfg->overhead_bytes;
	l->faulty = has_faults(&cfg->fault);
	set_rate(l, cfg->bps);
}

void fan_link_free(struct fan_sim_link *l, struct fan_body_pool *pool)
{
	for (; l->count; l->count--, l->head++)
		fan_body_put(pool, fan_link_first(l)->packet.body);
	free(l->ring);
	l->ring = NULL;
}

bool fan_link_grow(struct fan_sim_link *l)
{
	uint32_t room = l->room ? 2 * l->room : ROOM_FIRST;
	if (room > FAN_LINK_RING_MAX)
		return false;
	struct fan_link_entry *ring = fan_pages_alloc(room * sizeof *ring);
	if (!ring)
		return false;
	for (uint32_t i = 0; i < l->count; i++)
		ring[i] = l->ring[(l->head + i) & (l->room - 1)];
	free(l->ring);
	l->ring = ring;
	l->room = room;
	l->head = 0;
	return true;
}

void fan_link_set_rate(struct fan_sim_link *l, uint64_t now_ns, uint64_t bps)
{
	uint64_t now_ps = now_ns * FAN_PS_PER_NS, old_q16 = l->byte_q16;
	set_rate(l, bps);
	if (l->busy_ps <= now_ps || old_q16 == 0)
		return;
	/* What is left to send scales with the rate: departures keep their proportions. */
	uint64_t left_ps = l->busy_ps - now_ps;
	l->busy_ps = now_ps + (uint64_t)((unsigned __int128)left_ps * l->byte_q16 / old_q16);
	for (uint32_t i = 0; i < l->count; i++) {
		struct fan_link_entry *e = &l->ring[(l->head + i) & (l->room - 1)];
		uint64_t left_ns = e->at_ns - l->delay_ns;
		if (left_ns <= now_ns)
			continue;
		left_ns -= now_ns;
		e->at_ns = now_ns + l->delay_ns +
			   (uint64_t)((unsigned __int128)left_ns * l->byte_q16 / old_q16);
	}
}

/* ---- faults ---- */

#define FLIPS_MAX 3

bool fan_fault_is_covered(const uint8_t *head)
{
	return head[1] > FAN_TYPE_RESULT || fan_get16(head + 2) & FAN_F_SUMMED;
}

bool fan_fault_damage(struct fan_rng *r, uint8_t *p, uint16_t *len)
{
	if (*len < FAN_HEAD_BYTES)
		return false;
	switch (fan_rng_below(r, 4)) {
	case 0: *len = (uint16_t)fan_rng_below(r, *len); return true;
	case 1: {
		uint16_t more = (uint16_t)(1 + fan_rng_below(r, FAN_FAULT_LONGER));
		memset(p + *len, 0, more);
		*len = (uint16_t)(*len + more);
		return true;
	}
	case 2: return false;
	default: break;
	}
	size_t bytes = fan_fault_is_covered(p) ? *len : FAN_HEAD_BYTES;
	for (uint64_t n = 1 + fan_rng_below(r, FLIPS_MAX); n; n--) {
		size_t at = fan_rng_below(r, bytes * 8);
		p[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	return true;
}
