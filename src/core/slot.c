/* SPDX-License-Identifier: Apache-2.0 */
#include "slot.h"

#define ALIGN 64u

static size_t align_up(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t rounds_bytes(uint32_t units)
{
	return align_up((size_t)units * 2 * sizeof(struct fan_round));
}

size_t fan_slots_bytes(uint32_t units, uint32_t payload_bytes)
{
	return rounds_bytes(units) + (size_t)units * 2 * align_up(payload_bytes);
}

void fan_slots_init(struct fan_slots *s, void *mem, uint32_t units, uint32_t payload_bytes)
{
	s->rounds = mem;
	s->acc = (uint8_t *)mem + rounds_bytes(units);
	s->units = units;
	s->unit_bytes = (uint32_t)align_up(payload_bytes);
}

void fan_slots_lend(const struct fan_slots *s, struct fan_pool *pool, uint32_t base,
		    uint16_t window, unsigned width)
{
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
