/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_slot.h"

#include "reduce.h"

#define ALIGN 64u

static size_t align_up(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* The bitmap stands right before the elements, which are aligned. */
static size_t stride_of(uint32_t payload_bytes)
{
	return align_up(FAN_BITMAP_MAX) + align_up(payload_bytes);
}

bool fan_part_get(struct fan_part *p, const struct fan_frag *f, unsigned ranks)
{
	struct fan_partial several;
	*p = (struct fan_part){.f = f, .elements = f->payload, .bytes = f->payload_bytes};
	if (!(f->flags & FAN_F_PARTIAL)) {
		if (f->sender >= ranks)
			return false;
		fan_ranks_set(p->ranks, f->sender);
		p->first = f->sender;
		p->root = f->flags & FAN_F_ROOT ? f->sender : FAN_RANK_NONE;
		return true;
	}
	if (!fan_partial_get(&several, f, ranks))
		return false;
	memcpy(p->ranks, several.ranks, sizeof p->ranks);
	p->first = several.first;
	p->root = several.root;
	p->elements = several.elements;
	p->bytes = several.bytes;
	p->wide = true;
	return true;
}

bool fan_part_is_fit(const struct fan_part *p)
{
	const struct fan_frag *f = p->f;
	bool empty = f->flags & FAN_F_EMPTY, root = p->root != FAN_RANK_NONE;
	if (empty != (f->op == FAN_BCAST && !root))
		return false;
	if (root && f->op != FAN_BCAST && !(f->flags & FAN_F_REDUCE))
		return false;
	return !(f->flags & FAN_F_REDUCE && f->op >= FAN_BCAST);
}

size_t fan_sslots_bytes(uint32_t count, uint32_t spares, uint32_t payload_bytes)
{
	return align_up(count * sizeof(struct fan_sslot)) + align_up(spares * sizeof(uint32_t)) +
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
	p += align_up(count * sizeof *s->slot);
	s->spare = (uint32_t *)p;
	s->acc = p + align_up(spares * sizeof *s->spare);
	for (uint32_t i = 0; i < count; i++)
		s->slot[i].acc = i;
	for (uint32_t i = 0; i < spares; i++)
		s->spare[i] = count + i;
}

static uint8_t *elements_of(const struct fan_sslots *s, const struct fan_sslot *slot)
{
	return s->acc + (size_t)slot->acc * s->stride + align_up(FAN_BITMAP_MAX);
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
	uint64_t place = f->frag % window << 4 | f->flags >> FAN_PROPOSAL_SHIFT;
	return &s->slot[hash(f, place) * s->count >> 32];
}

struct fan_sslot *fan_sslots_in_line(const struct fan_sslots *s, uint64_t frag, uint32_t window,
				     struct fan_stretch in)
{
	return &s->slot[in.first + frag % window % (in.count ? in.count : s->count)];
}

bool fan_sslot_is_of(const struct fan_sslot *slot, const struct fan_frag *f)
{
	return slot->state != FAN_SSLOT_FREE && slot->frag == f->frag && slot->job == f->job &&
	       slot->epoch == f->epoch;
}

/* Give the slot another accumulator: what is in this one is being sent. */
static void swap(struct fan_sslots *s, struct fan_sslot *slot)
{
	uint32_t *spare = &s->spare[s->spare_next];
	uint32_t mine = slot->acc;
	slot->acc = *spare;
	*spare = mine;
	s->spare_next = s->spare_next + 1 == s->spares ? 0 : s->spare_next + 1;
}

void fan_sslot_take(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p,
		    uint16_t ranks)
{
	if (slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT)
		swap(s, slot);
	memset(slot->seen, 0, sizeof slot->seen);
	memset(slot->gone, 0, sizeof slot->gone);
	slot->frag = p->f->frag;
	slot->job = p->f->job;
	slot->epoch = p->f->epoch;
	slot->desc = fan_desc_of(p->f);
	slot->root = FAN_RANK_NONE;
	slot->exponent = p->f->exponent;
	slot->way = p->f->flags & FAN_F_PROPOSAL;
	slot->ranks = ranks;
	slot->priority = 0;
	slot->state = FAN_SSLOT_PASSED;
	fan_sslot_add(s, slot, p);
}

bool fan_sslot_has(const struct fan_sslot *slot, const struct fan_part *p)
{
	uint64_t both = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		both |= p->ranks[i] & (slot->seen[i] | slot->gone[i]);
	return both != 0;
}

bool fan_sslot_agrees(const struct fan_sslot *slot, const struct fan_part *p)
{
	return slot->desc == fan_desc_of(p->f) && slot->exponent == p->f->exponent &&
	       (slot->way & FAN_F_SUMMED) == (p->f->flags & FAN_F_SUMMED) &&
	       (slot->root == FAN_RANK_NONE || p->root == FAN_RANK_NONE);
}

static bool is_empty(const struct fan_sslot *slot)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		any |= slot->seen[i];
	return any == 0;
}

static void add_elements(uint8_t *acc, const struct fan_part *p, bool first)
{
	const struct fan_frag *f = p->f;
	uint8_t dtype = p->wide ? fan_partial_dtype(f) : f->dtype;
	if (f->count == 0 || f->op == FAN_BARRIER)
		return;
	if (f->op == FAN_BCAST) {
		if (!(f->flags & FAN_F_EMPTY))
			memcpy(acc, p->elements, p->bytes);
	} else if (first) {
		fan_reduce_load(dtype, acc, p->elements, f->count);
	} else {
		fan_reduce_add(dtype, f->op, acc, p->elements, f->count);
	}
}

void fan_sslot_add(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p)
{
	add_elements(elements_of(s, slot), p, is_empty(slot));
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		slot->seen[i] |= p->ranks[i];
	slot->way |= p->f->flags & (FAN_F_ECN | FAN_F_COLLISION | FAN_F_SUMMED);
	if (p->root != FAN_RANK_NONE)
		slot->root = p->root;
	if (p->f->priority > slot->priority)
		slot->priority = p->f->priority;
	slot->state = FAN_SSLOT_OPEN;
}

bool fan_sslot_is_full(const struct fan_sslot *slot, const uint64_t *below)
{
	uint64_t missing = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		missing |= below[i] & ~(slot->seen[i] | slot->gone[i]);
	return missing == 0;
}

void fan_sslot_fill(const struct fan_sslots *s, const struct fan_sslot *slot, struct fan_frag *f)
{
	*f = (struct fan_frag){
		.frag = slot->frag,
		.job = slot->job,
		.epoch = slot->epoch,
		.flags = slot->way,
		.count = (uint16_t)FAN_DESC_COUNT(slot->desc),
		.exponent = slot->exponent,
		.type = FAN_TYPE_DATA,
		.dtype = (uint8_t)FAN_DESC_DTYPE(slot->desc),
		.op = (uint8_t)FAN_DESC_OP(slot->desc),
		.priority = slot->priority,
	};
	f->flags |= (uint16_t)((FAN_DESC_FIRST(slot->desc) ? FAN_F_FIRST : 0) |
			       (FAN_DESC_LAST(slot->desc) ? FAN_F_LAST : 0) |
			       (FAN_DESC_REDUCE(slot->desc) ? FAN_F_REDUCE : 0));
	uint16_t root = slot->root != FAN_RANK_NONE && fan_ranks_has(slot->seen, slot->root)
				? slot->root
				: FAN_RANK_NONE;
	bool empty = f->op == FAN_BCAST && root == FAN_RANK_NONE;
	f->flags |= empty ? FAN_F_EMPTY : 0;
	fan_partial_put(f, slot->seen, slot->ranks, root, elements_of(s, slot),
			empty ? 0 : fan_partial_acc_bytes(f));
}

void fan_sslot_let_go(struct fan_sslots *s, struct fan_sslot *slot)
{
	if (slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT)
		swap(s, slot);
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		slot->gone[i] |= slot->seen[i];
	memset(slot->seen, 0, sizeof slot->seen);
	slot->state = FAN_SSLOT_PASSED;
}
