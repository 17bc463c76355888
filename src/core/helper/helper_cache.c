/* SPDX-License-Identifier: Apache-2.0 */
#include "helper_cache.h"

#define RESERVED 8u /* of so many entries, one is for passing on what finds no room */

enum fan_helper_cache_flag {
	DUE = 1 << 0,	  /* to be sent */
	IN_DUE = 1 << 1,  /* in the ring of what is due, maybe since an earlier life */
	IN_SENT = 1 << 2, /* in the ring of what has been sent, maybe since an earlier life */
	OVER = 1 << 3,	  /* there was no room */
};

static uint32_t buckets_for(uint32_t frags)
{
	uint32_t n = 1;
	while (n < frags)
		n *= 2;
	return n;
}

static size_t index_bytes(uint32_t frags)
{
	return fan_align_up((buckets_for(frags) + 3 * (size_t)frags) * sizeof(uint32_t)) +
	       fan_align_up(frags);
}

size_t fan_helper_cache_bytes(uint32_t frags, uint32_t payload_bytes)
{
	if (!frags)
		return 0;
	return fan_sslots_bytes(frags, 0, payload_bytes) + index_bytes(frags);
}

static void push(struct fan_helper_cache *c, struct fan_helper_cache_ring *ring, uint32_t i)
{
	assert(ring->count < c->frags);
	uint32_t at = ring->head + ring->count++;
	ring->at[at >= c->frags ? at - c->frags : at] = i;
}

static uint32_t pop(struct fan_helper_cache *c, struct fan_helper_cache_ring *ring)
{
	assert(ring->count > 0);
	uint32_t i = ring->at[ring->head];
	ring->head = ring->head + 1 == c->frags ? 0 : ring->head + 1;
	ring->count--;
	return i;
}

void fan_helper_cache_init(struct fan_helper_cache *c, void *mem, uint32_t frags,
			   uint32_t payload_bytes)
{
	memset(c, 0, sizeof *c);
	c->frags = c->stats.frags = frags;
	c->free = FAN_CACHE_NONE;
	if (!frags)
		return;
	uint8_t *p = mem;
	c->keep = frags > 1 ? frags - (frags + RESERVED - 1) / RESERVED : 1;
	c->buckets = buckets_for(frags);
	fan_sslots_init(&c->slots, p, frags, 0, payload_bytes);
	p += fan_sslots_bytes(frags, 0, payload_bytes);
	c->first = (uint32_t *)p;
	c->next = c->first + c->buckets;
	c->due.at = c->next + frags;
	c->sent.at = c->due.at + frags;
	c->flags = p + fan_align_up((c->buckets + 3 * (size_t)frags) * sizeof(uint32_t));
	memset(c->flags, 0, frags);
	for (uint32_t i = 0; i < c->buckets; i++)
		c->first[i] = FAN_CACHE_NONE;
	for (uint32_t i = frags; i-- > 0; c->free = i)
		c->next[i] = c->free;
}

static uint32_t *bucket_of(const struct fan_helper_cache *c, uint64_t frag)
{
	return &c->first[(frag * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->buckets - 1)];
}

static uint32_t find(const struct fan_helper_cache *c, uint64_t frag)
{
	if (!c->frags)
		return FAN_CACHE_NONE;
	uint32_t i = *bucket_of(c, frag);
	while (i != FAN_CACHE_NONE && c->slots.slot[i].frag != frag)
		i = c->next[i];
	return i;
}

/* The entry holds nothing and belongs to no fragment any more. */
static void give_back(struct fan_helper_cache *c, uint32_t i)
{
	struct fan_sslot *slot = &c->slots.slot[i];
	uint32_t *link = bucket_of(c, slot->frag);
	while (*link != i)
		link = &c->next[*link];
	*link = c->next[i];
	c->stats.open -= slot->state == FAN_SSLOT_OPEN;
	slot->state = FAN_SSLOT_FREE;
	c->flags[i] &= IN_DUE | IN_SENT;
	c->next[i] = c->free;
	c->free = i;
}

/* Make room: forget what was sent the longest ago. */
static void reclaim(struct fan_helper_cache *c)
{
	while (c->free == FAN_CACHE_NONE && c->sent.count) {
		uint32_t i = pop(c, &c->sent);
		c->flags[i] &= (uint8_t)~IN_SENT;
		uint8_t state = c->slots.slot[i].state;
		if (state == FAN_SSLOT_SENT || state == FAN_SSLOT_PASSED)
			give_back(c, i);
	}
}

static void make_due(struct fan_helper_cache *c, uint32_t i, unsigned why)
{
	if (!(c->flags[i] & IN_DUE))
		push(c, &c->due, i);
	c->flags[i] = (uint8_t)(c->flags[i] | IN_DUE | DUE | why);
}

static uint32_t make(struct fan_helper_cache *c, uint64_t frag)
{
	reclaim(c);
	uint32_t i = c->free;
	if (i == FAN_CACHE_NONE)
		return i;
	c->free = c->next[i];
	uint32_t *bucket = bucket_of(c, frag);
	c->next[i] = *bucket;
	*bucket = i;
	c->slots.slot[i].state = FAN_SSLOT_FREE;
	return i;
}

/* The contribution is in.  Does it stay?  `began`: it is the first of its sum. */
static enum fan_verdict kept(struct fan_helper_cache *c, uint32_t i, uint16_t ranks, bool began)
{
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, ranks);
	c->stats.parts++;
	if (fan_sslot_is_full(&c->slots.slot[i], all)) {
		make_due(c, i, 0);
		return FAN_DONE;
	}
	if (!began || c->stats.open <= c->keep)
		return FAN_WAIT;
	make_due(c, i, OVER);
	return FAN_PASS;
}

static void opened(struct fan_helper_cache *c)
{
	if (++c->stats.open > c->stats.peak)
		c->stats.peak = c->stats.open;
}

enum fan_verdict fan_helper_cache_add(struct fan_helper_cache *c, uint64_t now_ns,
				      const struct fan_contribution *p, uint16_t ranks,
				      enum fan_drop *why)
{
	uint32_t i = find(c, p->f->frag);
	if (i != FAN_CACHE_NONE) {
		struct fan_sslot *slot = &c->slots.slot[i];
		*why = FAN_DROP_DUPLICATE;
		if (fan_sslot_has(slot, p))
			return FAN_DROP;
		*why = FAN_DROP_MISMATCH;
		if (!fan_sslot_agrees(slot, p)) {
			fan_helper_cache_flush(c, p->f->frag);
			return FAN_DROP;
		}
		bool begins = slot->state != FAN_SSLOT_OPEN;
		if (begins)
			opened(c);
		fan_sslot_add(&c->slots, slot, p);
		slot->touched_ns = now_ns;
		return kept(c, i, ranks, begins);
	}
	*why = FAN_DROP_FULL;
	i = make(c, p->f->frag);
	if (i == FAN_CACHE_NONE)
		return FAN_DROP;
	fan_sslot_take(&c->slots, &c->slots.slot[i], p, ranks);
	c->slots.slot[i].touched_ns = now_ns;
	opened(c);
	return kept(c, i, ranks, true);
}

bool fan_helper_cache_holds(const struct fan_helper_cache *c, uint64_t frag, uint16_t rank)
{
	uint32_t i = find(c, frag);
	return i != FAN_CACHE_NONE && c->slots.slot[i].state == FAN_SSLOT_OPEN &&
	       fan_ranks_has(c->slots.slot[i].seen, rank);
}

void fan_helper_cache_flush(struct fan_helper_cache *c, uint64_t frag)
{
	uint32_t i = find(c, frag);
	if (i == FAN_CACHE_NONE)
		return;
	uint8_t state = c->slots.slot[i].state;
	if (state == FAN_SSLOT_OPEN || state == FAN_SSLOT_SENT)
		make_due(c, i, 0);
}

void fan_helper_cache_forget(struct fan_helper_cache *c, uint64_t frag)
{
	uint32_t i = find(c, frag);
	if (i != FAN_CACHE_NONE)
		give_back(c, i);
}

bool fan_helper_cache_is_full(const struct fan_helper_cache *c)
{
	return c->stats.open >= c->keep;
}

bool fan_helper_cache_is_due(const struct fan_helper_cache *c)
{
	return c->due.count > 0;
}

/* The sum of the entry leaves; what is left of it stays while there is room. */
static void sent(struct fan_helper_cache *c, uint32_t i)
{
	struct fan_sslot *slot = &c->slots.slot[i];
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, slot->ranks);
	bool whole = fan_ranks_equal(slot->seen, all);
	c->stats.over += c->flags[i] & OVER ? 1 : 0;
	c->stats.done += slot->state == FAN_SSLOT_OPEN && fan_sslot_is_full(slot, all);
	c->stats.early += !(c->flags[i] & OVER) && !fan_sslot_is_full(slot, all);
	c->stats.open -= slot->state == FAN_SSLOT_OPEN;
	c->flags[i] &= (uint8_t) ~(DUE | OVER);
	if (whole)
		slot->state = FAN_SSLOT_SENT;
	else
		fan_sslot_pass(slot);
	if (!(c->flags[i] & IN_SENT))
		push(c, &c->sent, i);
	c->flags[i] |= IN_SENT;
}

bool fan_helper_cache_next(struct fan_helper_cache *c, uint16_t rank, struct fan_out_item *it)
{
	while (c->due.count) {
		uint32_t i = pop(c, &c->due);
		c->flags[i] &= (uint8_t)~IN_DUE;
		if (!(c->flags[i] & DUE))
			continue; /* its result came first */
		struct fan_frag f;
		fan_sslot_fill(&c->slots, &c->slots.slot[i], &f);
		f.flags |= c->flags[i] & OVER ? FAN_F_FULL : 0;
		f.helper = FAN_TAG(rank);
		it->payload = f.payload;
		it->payload_bytes = f.payload_bytes;
		fan_wire_put(it->head, &f);
		sent(c, i);
		return true;
	}
	return false;
}

/* Entries in the list that begins with `i`, those of `bucket` or free ones. */
static uint32_t audit_list(const struct fan_helper_cache *c, uint32_t i, const uint32_t *bucket)
{
	uint32_t n = 0;
	for (; i != FAN_CACHE_NONE; i = c->next[i], n++) {
		assert(i < c->frags && n < c->frags);
		assert((c->slots.slot[i].state == FAN_SSLOT_FREE) == !bucket);
		assert(!bucket || bucket == bucket_of(c, c->slots.slot[i].frag));
	}
	return n;
}

void fan_helper_cache_audit(const struct fan_helper_cache *c)
{
	fan_helper_cache_check(c);
	if (!c->frags)
		return;
	uint32_t open = 0, due = 0, sent = 0, listed = audit_list(c, c->free, NULL);
	fan_sslots_audit(&c->slots);
	for (uint32_t i = 0; i < c->buckets; i++)
		listed += audit_list(c, c->first[i], &c->first[i]);
	for (uint32_t i = 0; i < c->frags; i++) {
		open += c->slots.slot[i].state == FAN_SSLOT_OPEN;
		due += (c->flags[i] & IN_DUE) != 0;
		sent += (c->flags[i] & IN_SENT) != 0;
		assert(!(c->flags[i] & DUE) || c->flags[i] & IN_DUE);
	}
	assert(listed == c->frags);
	assert(open == c->stats.open);
	assert(due == c->due.count && sent == c->sent.count);
}
