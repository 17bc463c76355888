/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <stdlib.h>

#include "core/wire/wire.h"

#define PS_PER_NS  UINT64_C(1000)
#define Q16_SHIFT  16
#define ROOM_FIRST 16u

static uint64_t time_ps(const struct fan_sim_link *l, uint64_t bytes)
{
	return (uint64_t)((unsigned __int128)bytes * l->byte_q16 >> Q16_SHIFT);
}

static void set_rate(struct fan_sim_link *l, uint64_t bps)
{
	l->cfg.bps = bps;
	l->byte_q16 = bps ? (UINT64_C(8000000000000) << Q16_SHIFT) / bps : 0;
	l->queue_ps = time_ps(l, l->cfg.queue_bytes);
	l->ecn_ps = l->cfg.ecn_bytes ? time_ps(l, l->cfg.ecn_bytes) : UINT64_MAX;
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
	l->faulty = fan_fault_any(&cfg->fault);
	set_rate(l, cfg->bps);
}

void fan_link_free(struct fan_sim_link *l, struct fan_body_pool *pool)
{
	for (; l->count; l->count--, l->head++)
		fan_body_put(pool, fan_link_first(l)->packet.body);
	free(l->ring);
	l->ring = NULL;
}

uint64_t fan_link_queued_bytes(const struct fan_sim_link *l, uint64_t now_ns)
{
	uint64_t now_ps = now_ns * PS_PER_NS;
	if (l->busy_ps <= now_ps || l->byte_q16 == 0)
		return 0;
	return (uint64_t)(((unsigned __int128)(l->busy_ps - now_ps) << Q16_SHIFT) / l->byte_q16);
}

uint64_t fan_link_take(struct fan_sim_link *l, uint64_t now_ns, uint16_t len, bool own,
		       bool *marked)
{
	uint64_t now_ps = now_ns * PS_PER_NS;
	uint64_t start_ps = l->busy_ps > now_ps ? l->busy_ps : now_ps;
	uint64_t wait_ps = start_ps - now_ps;
	uint32_t bytes = len + l->overhead_bytes;
	uint64_t took_ps = bytes * l->byte_q16 >> Q16_SHIFT;
	if (wait_ps + took_ps > l->queue_ps && !own) {
		l->stats.overflows++;
		return FAN_LINK_NO_ROOM;
	}
	*marked = wait_ps > l->ecn_ps && !own; /* own packets wait in sockets, which do not mark */
	l->stats.marked += *marked;
	l->busy_ps = start_ps + took_ps;
	l->stats.packets++;
	l->stats.bytes += bytes;
	if (wait_ps > l->stats.queue_max_ps)
		l->stats.queue_max_ps = wait_ps;
	return (l->busy_ps + PS_PER_NS - 1) / PS_PER_NS + l->delay_ns;
}

static bool grow(struct fan_sim_link *l)
{
	uint32_t room = l->room ? 2 * l->room : ROOM_FIRST;
	if (room > FAN_LINK_RING_MAX)
		return false;
	struct fan_link_entry *ring = malloc(room * sizeof *ring);
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

bool fan_link_push(struct fan_sim_link *l, const struct fan_link_entry *e)
{
	if (l->count == l->room && !grow(l))
		return false;
	l->ring[(l->head + l->count++) & (l->room - 1)] = *e;
	return true;
}

void fan_link_set_rate(struct fan_sim_link *l, uint64_t now_ns, uint64_t bps)
{
	uint64_t now_ps = now_ns * PS_PER_NS, old_q16 = l->byte_q16;
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

bool fan_fault_any(const struct fan_sim_fault *f)
{
	return f->loss || f->duplicate || f->reorder || f->corrupt || f->jitter_ns;
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
