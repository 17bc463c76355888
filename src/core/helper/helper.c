/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - a worker that keeps sums for slow ranks: what the switch gives it to keep, and
 * asks of it (SA-ATP, ToN 2024).  doc/protocol/run-ahead.md. */
#include <assert.h>

#include "core/sum/shared_slot.h"
#include "core/worker/worker_helper.h"
#include "core/worker/worker_priv.h"

/* ---- the cache ----
 *
 * A bounded table of partial sums by fragment, in the memory of a host.  Disjoint contributions are
 * added; a sum is due to be sent when it has all ranks, when it is requested, or when there is no
 * room for it.  A sent sum stays until its entry is needed, so that it can be sent again or
 * completed by late contributions.  All of it may be lost at any time. */

#define NONE UINT32_MAX

/* A ring of entries without duplicates. */
struct ring {
	uint32_t *at;
	uint32_t head, count;
};

struct cache {
	struct fan_sslots slots; /* the entries; entry i has accumulator i */
	uint32_t frags;		 /* M; 0: there is no cache */
	uint32_t keep;		 /* entries for incomplete sums; the rest are for passing on */
	uint32_t buckets;	 /* a power of two */
	uint32_t *first, *next;	 /* entries by hash of their fragment */
	uint32_t free;		 /* list of empty entries, through `next` */
	uint8_t *flags;		 /* enum cache_flag, by entry */
	struct ring due, sent;
	struct fan_helper_cache_stats stats;
};

/* Assert the invariants that hold between calls; cache_audit checks entries as well. */
static void cache_check(const struct cache *c)
{
	assert(c->stats.open <= c->frags && c->stats.open <= c->stats.peak);
	assert(c->due.count <= c->frags && c->sent.count <= c->frags);
	assert(c->keep <= c->frags);
}

#define RESERVED 8u /* of so many entries, one is for passing on what finds no room */

enum cache_flag {
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

/* Bytes for `frags` fragments of `payload_bytes`; 0 for none. */
static size_t cache_bytes(uint32_t frags, uint32_t payload_bytes)
{
	if (!frags)
		return 0;
	return fan_sslots_bytes(frags, 0, payload_bytes) + index_bytes(frags);
}

static void push(struct cache *c, struct ring *ring, uint32_t i)
{
	assert(ring->count < c->frags);
	uint32_t at = ring->head + ring->count++;
	ring->at[at >= c->frags ? at - c->frags : at] = i;
}

static uint32_t pop(struct cache *c, struct ring *ring)
{
	assert(ring->count > 0);
	uint32_t i = ring->at[ring->head];
	ring->head = ring->head + 1 == c->frags ? 0 : ring->head + 1;
	ring->count--;
	return i;
}

/* Lay it out in `mem`, aligned to 64. */
static void cache_init(struct cache *c, void *mem, uint32_t frags, uint32_t payload_bytes)
{
	memset(c, 0, sizeof *c);
	c->frags = c->stats.frags = frags;
	c->free = NONE;
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
		c->first[i] = NONE;
	for (uint32_t i = frags; i-- > 0; c->free = i)
		c->next[i] = c->free;
}

static uint32_t *bucket_of(const struct cache *c, uint64_t frag)
{
	return &c->first[(frag * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->buckets - 1)];
}

static uint32_t find(const struct cache *c, uint64_t frag)
{
	if (!c->frags)
		return NONE;
	uint32_t i = *bucket_of(c, frag);
	while (i != NONE && c->slots.slot[i].frag != frag)
		i = c->next[i];
	return i;
}

/* The entry holds nothing and belongs to no fragment any more. */
static void give_back(struct cache *c, uint32_t i)
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
static void reclaim(struct cache *c)
{
	while (c->free == NONE && c->sent.count) {
		uint32_t i = pop(c, &c->sent);
		c->flags[i] &= (uint8_t)~IN_SENT;
		uint8_t state = c->slots.slot[i].state;
		if (state == FAN_SSLOT_SENT || state == FAN_SSLOT_PASSED)
			give_back(c, i);
	}
}

static void make_due(struct cache *c, uint32_t i, unsigned why)
{
	if (!(c->flags[i] & IN_DUE))
		push(c, &c->due, i);
	c->flags[i] = (uint8_t)(c->flags[i] | IN_DUE | DUE | why);
}

static uint32_t make(struct cache *c, uint64_t frag)
{
	reclaim(c);
	uint32_t i = c->free;
	if (i == NONE)
		return i;
	c->free = c->next[i];
	uint32_t *bucket = bucket_of(c, frag);
	c->next[i] = *bucket;
	*bucket = i;
	c->slots.slot[i].state = FAN_SSLOT_FREE;
	return i;
}

/* The contribution is in.  Does it stay?  `began`: it is the first of its sum. */
static enum fan_verdict kept(struct cache *c, uint32_t i, uint16_t ranks, bool began)
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

static void opened(struct cache *c)
{
	if (++c->stats.open > c->stats.peak)
		c->stats.peak = c->stats.open;
}

/* Make the sum for `frag`, if there is one, due. */
static void cache_flush(struct cache *c, uint64_t frag)
{
	uint32_t i = find(c, frag);
	if (i == NONE)
		return;
	uint8_t state = c->slots.slot[i].state;
	if (state == FAN_SSLOT_OPEN || state == FAN_SSLOT_SENT)
		make_due(c, i, 0);
}

/* Take contribution `p` of a job of `ranks`.
 *
 * FAN_WAIT: kept.  FAN_DONE: the sum is complete and due.  FAN_PASS: no room; the contribution
 * itself is due.  FAN_DROP: `*why` is DUPLICATE (some of its ranks are or were in the sum), FULL,
 * or MISMATCH, where the sum is due so that the aggregator sees both. */
static enum fan_verdict cache_add(struct cache *c, uint64_t now_ns,
				  const struct fan_contribution *p, uint16_t ranks,
				  enum fan_drop *why)
{
	uint32_t i = find(c, p->f->frag);
	if (i != NONE) {
		struct fan_sslot *slot = &c->slots.slot[i];
		*why = FAN_DROP_DUPLICATE;
		if (fan_sslot_has(slot, p))
			return FAN_DROP;
		*why = FAN_DROP_MISMATCH;
		if (!fan_sslot_agrees(slot, p)) {
			cache_flush(c, p->f->frag);
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
	if (i == NONE)
		return FAN_DROP;
	fan_sslot_take(&c->slots, &c->slots.slot[i], p, ranks);
	c->slots.slot[i].touched_ns = now_ns;
	opened(c);
	return kept(c, i, ranks, true);
}

/* Is the contribution of `rank` to `frag` in an incomplete sum here? */
static bool cache_holds(const struct cache *c, uint64_t frag, uint16_t rank)
{
	uint32_t i = find(c, frag);
	return i != NONE && c->slots.slot[i].state == FAN_SSLOT_OPEN &&
	       fan_ranks_has(c->slots.slot[i].seen, rank);
}

/* The result of `frag` has come: its sum is no longer needed. */
static void cache_forget(struct cache *c, uint64_t frag)
{
	uint32_t i = find(c, frag);
	if (i != NONE)
		give_back(c, i);
}

/* The sum of the entry leaves; its rest stays while there is room. */
static void sent(struct cache *c, uint32_t i)
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

/* Write the next due sum into `it`, as a PARTIAL of the helper `rank`.  The payload is valid until
 * the next cache_add.  False: nothing is due. */
static bool cache_next(struct cache *c, uint16_t rank, struct fan_out_item *it)
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
static uint32_t audit_list(const struct cache *c, uint32_t i, const uint32_t *bucket)
{
	uint32_t n = 0;
	for (; i != NONE; i = c->next[i], n++) {
		assert(i < c->frags && n < c->frags);
		assert((c->slots.slot[i].state == FAN_SSLOT_FREE) == !bucket);
		assert(!bucket || bucket == bucket_of(c, c->slots.slot[i].frag));
	}
	return n;
}

static void cache_audit(const struct cache *c)
{
	cache_check(c);
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

/* ---- the helper ---- */

/* A PROBE or a request for PROGRESS of another rank, for the aggregator. */
struct question {
	uint64_t frag;
	uint16_t rank, last;
	uint8_t type; /* PROBE is sent on, PROGRESS is answered */
	uint8_t place;
	bool full; /* the cache had no room */
};

struct fan_worker_helper {
	struct cache cache;
	unsigned questions;
	struct question question[FAN_HELPER_QUESTIONS];
};

/* How does `frag` stand to what this worker has? */
static int out_of_turn(const struct fan_worker *w, uint64_t frag)
{
	const struct fan_window *win = &w->window;
	if (!win->ahead)
		return FAN_DROP_TYPE;
	if (frag < win->low || win->slot[frag % win->size].frag > frag)
		return FAN_DROP_STALE;
	return frag - win->low < 2 * (uint64_t)win->size ? -1 : FAN_DROP_AHEAD;
}

static enum fan_verdict keep(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	struct fan_contribution p;
	int why = fan_contribution_get(&p, f, w->cfg.ranks);
	if (why < 0)
		why = fan_contribution_unfit(&p, w->cfg.payload_bytes, w->cfg.payload_bytes, false);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	enum fan_drop full = FAN_DROP_FULL;
	enum fan_verdict v = cache_add(&w->helper->cache, now_ns, &p, w->cfg.ranks, &full);
	return v == FAN_DROP ? fan_worker_drop(w, full) : v;
}

/* Note a question of another rank, which is answered or goes on. */
static enum fan_verdict note(struct fan_worker *w, const struct fan_frag *f, enum fan_type type)
{
	if (w->helper->questions == FAN_HELPER_QUESTIONS)
		return fan_worker_drop(w, FAN_DROP_FULL);
	w->helper->question[w->helper->questions++] = (struct question){
		.frag = f->frag,
		.rank = f->sender,
		.place = f->place,
		.full = type == FAN_TYPE_PROGRESS &&
			w->helper->cache.stats.open >= w->helper->cache.keep,
		.last = f->last,
		.type = (uint8_t)type,
	};
	return FAN_PASS;
}

/* The PROBE of another rank: no answer if its contribution is here. */
static enum fan_verdict asked(struct fan_worker *w, const struct fan_frag *f)
{
	if (f->sender >= w->cfg.ranks)
		return fan_worker_drop(w, FAN_DROP_SENDER);
	if (cache_holds(&w->helper->cache, f->frag, f->sender))
		return FAN_EARLY;
	cache_flush(&w->helper->cache, f->frag); /* so that the answer is true */
	return note(w, f, FAN_TYPE_PROBE);
}

static enum fan_verdict recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	cache_check(&w->helper->cache);
	assert(w->helper->questions <= FAN_HELPER_QUESTIONS);
	if (f->type == FAN_TYPE_PROGRESS) /* a question: what was before it has come */
		return note(w, f, FAN_TYPE_PROGRESS);
	int why = out_of_turn(w, f->frag);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	switch (f->type) {
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL: return keep(w, now_ns, f);
	case FAN_TYPE_PROBE: return asked(w, f);
	default: cache_flush(&w->helper->cache, f->frag); return FAN_CTL;
	}
}

static void put_question(struct fan_worker *w, const struct question *q, struct fan_out_item *it)
{
	const struct fan_frag f = {
		.frag = q->frag,
		.job = w->job,
		.epoch = w->epoch,
		.sender = q->rank,
		.flags = q->full ? FAN_F_FULL : 0,
		.last = q->last,
		.helper = FAN_TAG(w->cfg.rank),
		.place = q->place,
		.type = q->type,
	};
	fan_wire_put(it->head, &f);
}

static bool is_due(const struct fan_worker_helper *k)
{
	return k->questions || k->cache.due.count;
}

static bool send(struct fan_worker *w, struct fan_out *out)
{
	struct fan_worker_helper *k = w->helper;
	cache_check(&k->cache);
	while (k->cache.due.count) {
		if (!fan_out_fits(out, 1, 0))
			return true;
		struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
		if (!cache_next(&k->cache, w->cfg.rank, it))
			out->count--;
	}
	for (unsigned i = 0; i < k->questions; i++) {
		if (!fan_out_fits(out, 1, 0)) {
			memmove(k->question, k->question + i,
				(k->questions - i) * sizeof *k->question);
			k->questions -= i;
			return true;
		}
		put_question(w, &k->question[i], fan_out_add(out, FAN_TO_PEER));
	}
	k->questions = 0;
	return false;
}

static size_t bytes(uint32_t frags, uint32_t payload_bytes)
{
	return fan_align_up(sizeof(struct fan_worker_helper)) + cache_bytes(frags, payload_bytes);
}

static struct fan_worker_helper *init(void *mem, uint32_t frags, uint32_t payload_bytes)
{
	struct fan_worker_helper *k = mem;
	k->questions = 0;
	cache_init(&k->cache, (uint8_t *)mem + fan_align_up(sizeof *k), frags, payload_bytes);
	return k;
}

static void flush(struct fan_worker_helper *k, uint64_t frag)
{
	cache_flush(&k->cache, frag);
}

static void forget(struct fan_worker_helper *k, uint64_t frag)
{
	cache_forget(&k->cache, frag);
}

static const struct fan_helper_cache_stats *stats(const struct fan_worker_helper *k)
{
	return &k->cache.stats;
}

static void audit(const struct fan_worker_helper *k)
{
	assert(k->questions <= FAN_HELPER_QUESTIONS);
	cache_audit(&k->cache);
}

const struct fan_worker_helper_calls fan_worker_helper = {
	.bytes = bytes,
	.init = init,
	.recv = recv,
	.is_due = is_due,
	.send = send,
	.flush = flush,
	.forget = forget,
	.stats = stats,
	.audit = audit,
};
