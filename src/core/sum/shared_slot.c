/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_slot.h"

#include <assert.h>

#include "reduce.h"

/* The bitmap stands right before the elements, which are aligned. */
static size_t stride_of(uint32_t payload_bytes)
{
	return fan_align_up(FAN_BITMAP_MAX) + fan_align_up(payload_bytes);
}

size_t fan_sslots_bytes(uint32_t count, uint32_t spares, uint32_t payload_bytes)
{
	return fan_align_up(count * sizeof(struct fan_sslot)) +
	       fan_align_up(spares * sizeof(uint32_t)) +
	       ((size_t)count + spares) * stride_of(payload_bytes);
}

void fan_sslots_init(struct fan_sslots *s, void *mem, uint32_t count, uint32_t spares,
		     uint32_t payload_bytes)
{
	uint8_t *p = mem;
	s->slot = mem;
	s->count = count;
	s->spares = spares;
	s->spare_next = 0;
	s->stride = (uint32_t)stride_of(payload_bytes);
	memset(s->slot, 0, count * sizeof *s->slot);
	p += fan_align_up(count * sizeof *s->slot);
	s->spare = (uint32_t *)p;
	s->acc = p + fan_align_up(spares * sizeof *s->spare);
	for (uint32_t i = 0; i < count; i++)
		s->slot[i].acc = i;
	for (uint32_t i = 0; i < spares; i++)
		s->spare[i] = count + i;
}

static uint8_t *elements_of(const struct fan_sslots *s, const struct fan_sslot *slot)
{
	return s->acc + (size_t)slot->acc * s->stride + fan_align_up(FAN_BITMAP_MAX);
}

static uint64_t hash(const struct fan_frag *f, uint64_t place)
{
	uint64_t h = ((uint64_t)f->job << 32 | f->epoch) * UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ h >> 29 ^ place) * UINT64_C(0xbf58476d1ce4e5b9);
	return (h ^ h >> 32) * UINT64_C(0x94d049bb133111eb) >> 32;
}

struct fan_sslot *fan_sslots_at(const struct fan_sslots *s, const struct fan_frag *f,
				uint32_t window)
{
	uint64_t place = f->frag % window << 4 | f->place;
	return &s->slot[hash(f, place) * s->count >> 32];
}

struct fan_sslot *fan_sslots_in_line(const struct fan_sslots *s, uint64_t frag, uint32_t window,
				     struct fan_stretch in)
{
	assert(in.first < s->count && in.first + in.count <= s->count);
	return &s->slot[in.first + frag % window % (in.count ? in.count : s->count)];
}

/* Give the slot another accumulator: what is in this one is being sent. */
static void swap(struct fan_sslots *s, struct fan_sslot *slot)
{
	assert(s->spares > 0);
	uint32_t *spare = &s->spare[s->spare_next];
	uint32_t mine = slot->acc;
	slot->acc = *spare;
	*spare = mine;
	s->spare_next = s->spare_next + 1 == s->spares ? 0 : s->spare_next + 1;
}

void fan_sslot_take(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_contribution *p,
		    uint16_t ranks)
{
	if (fan_sslot_holds(slot) || slot->state == FAN_SSLOT_LOST)
		swap(s, slot);
	fan_ranks_none(slot->seen);
	fan_ranks_none(slot->gone);
	slot->frag = p->f->frag;
	slot->job = p->f->job;
	slot->epoch = p->f->epoch;
	slot->desc = fan_desc_of(p->f);
	slot->root = FAN_RANK_NONE;
	slot->exponent = p->f->exponent;
	slot->met = 0;
	slot->place = p->f->place;
	slot->ranks = ranks;
	slot->priority = 0;
	slot->state = FAN_SSLOT_PASSED;
	fan_sslot_add(s, slot, p);
}

void fan_sslot_add(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_contribution *p)
{
	assert(slot->state != FAN_SSLOT_FREE);
	fan_contribution_add(p, elements_of(s, slot), fan_ranks_is_empty(slot->seen));
	fan_contribution_join(p, slot->seen);
	slot->met |= p->f->flags & (FAN_F_MET | FAN_F_SUMMED);
	if (p->root != FAN_RANK_NONE)
		slot->root = p->root;
	if (p->f->priority > slot->priority)
		slot->priority = p->f->priority;
	slot->state = FAN_SSLOT_OPEN;
}

void fan_sslot_fill(const struct fan_sslots *s, const struct fan_sslot *slot, struct fan_frag *f)
{
	assert(fan_sslot_holds(slot));
	*f = (struct fan_frag){
		.frag = slot->frag,
		.job = slot->job,
		.epoch = slot->epoch,
		.flags = slot->met,
		.exponent = slot->exponent,
		.type = FAN_TYPE_PARTIAL,
		.place = slot->place,
		.priority = slot->priority,
	};
	fan_desc_put(f, slot->desc);
	uint16_t root = slot->root != FAN_RANK_NONE && fan_ranks_has(slot->seen, slot->root)
				? slot->root
				: FAN_RANK_NONE;
	bool empty = f->op == FAN_BCAST && root == FAN_RANK_NONE;
	f->flags |= empty ? FAN_F_EMPTY : 0;
	fan_partial_put(f, slot->seen, slot->ranks, root, elements_of(s, slot),
			empty ? 0 : fan_partial_acc_bytes(f));
}

void fan_sslot_pass(struct fan_sslot *slot)
{
	fan_ranks_join(slot->gone, slot->seen);
	fan_ranks_none(slot->seen);
	slot->state = FAN_SSLOT_PASSED;
}

void fan_sslot_release(struct fan_sslots *s, struct fan_sslot *slot)
{
	if (fan_sslot_holds(slot))
		swap(s, slot);
	fan_sslot_pass(slot);
}

void fan_sslots_audit(const struct fan_sslots *s)
{
	assert(s->spare_next < s->spares || !s->spares);
	for (uint32_t i = 0; i < s->spares; i++)
		assert(s->spare[i] < s->count + s->spares);
	for (uint32_t i = 0; i < s->count; i++) {
		const struct fan_sslot *slot = &s->slot[i];
		uint64_t all[FAN_RANK_WORDS];
		fan_ranks_all(all, slot->ranks);
		assert(slot->acc < s->count + s->spares);
		assert(slot->state <= FAN_SSLOT_PASSED);
		if (slot->state <= FAN_SSLOT_LOST)
			continue;
		assert(fan_ranks_is_empty(slot->seen) == !fan_sslot_holds(slot));
		assert(!fan_ranks_meet(slot->seen, slot->gone));
		assert(fan_ranks_within(slot->seen, all));
		assert(slot->root == FAN_RANK_NONE || slot->root < slot->ranks);
	}
}
