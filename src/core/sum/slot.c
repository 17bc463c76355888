/* SPDX-License-Identifier: Apache-2.0 */
#include "slot.h"

#include <assert.h>

static size_t rounds_bytes(uint32_t units)
{
	return fan_align_up((size_t)units * 2 * sizeof(struct fan_round));
}

size_t fan_slots_bytes(uint32_t units, uint32_t payload_bytes)
{
	return rounds_bytes(units) + (size_t)units * 2 * fan_align_up(payload_bytes);
}

void fan_slots_init(struct fan_slots *s, void *mem, uint32_t units, uint32_t payload_bytes)
{
	s->rounds = mem;
	s->acc = (uint8_t *)mem + rounds_bytes(units);
	s->units = units;
	s->unit_bytes = (uint32_t)fan_align_up(payload_bytes);
}

void fan_slots_lend(const struct fan_slots *s, struct fan_pool *pool, uint32_t base,
		    uint16_t window, unsigned width)
{
	assert(window >= 1 && width >= 1);
	assert((uint64_t)base + (uint64_t)window * width <= s->units);
	pool->base = base;
	pool->units = (uint32_t)(window * width);
	pool->window = window;
	pool->relayed = false;
	pool->workers = 0;
	pool->stride = s->unit_bytes * width;
	pool->rounds = s->rounds + (size_t)base * 2;
	pool->acc = s->acc + (size_t)base * 2 * s->unit_bytes;
	memset(pool->rounds, 0, (size_t)window * 2 * sizeof *pool->rounds);
}

static void audit(const struct fan_pool *p, const struct fan_round *round, const uint64_t *all)
{
	bool open = round->state == FAN_ROUND_OPEN;
	unsigned ranks = fan_ranks_count(all);
	assert(round->numbered < 2u * p->window);
	if (round->state == FAN_ROUND_FREE)
		return;
	assert(round->state <= FAN_ROUND_AWAITING);
	assert(round == fan_pool_round(p, round->frag));
	assert(fan_ranks_within(round->seen, all));
	assert(fan_ranks_count(round->seen) == round->seen_count);
	assert(round->seen_count >= 1 && (round->seen_count < ranks) == open);
	assert(fan_ranks_has(round->seen, round->first));
	assert(round->root == FAN_RANK_NONE || fan_ranks_has(round->seen, round->root));
	assert(round->state != FAN_ROUND_AWAITING || p->relayed);
}

void fan_pool_audit(const struct fan_pool *p, uint16_t ranks)
{
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, ranks);
	for (uint32_t i = 0; i < 2u * p->window; i++)
		audit(p, &p->rounds[i], all);
}
