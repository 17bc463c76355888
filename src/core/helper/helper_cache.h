/* SPDX-License-Identifier: Apache-2.0 */
/* helper_cache.h - partial sums that a helper keeps for slow ranks (SA-ATP, ToN 2024).
 *
 * A bounded table of partial sums by fragment, in the memory of a host.  Disjoint
 * contributions are added; a sum is due to be sent when it has all ranks, when it is
 * requested, or when there is no room for it.  A sent sum stays until its entry is needed, so
 * that it can be sent again or completed by late contributions.  All of it may be lost at any
 * time. */
#ifndef FAN_HELPER_HELPER_CACHE_H
#define FAN_HELPER_HELPER_CACHE_H

#include <assert.h>

#include "core/sum/shared_slot.h"
#include "core/worker/worker_helper.h"

#define FAN_CACHE_NONE UINT32_MAX

/* A ring of entries without duplicates. */
struct fan_helper_cache_ring {
	uint32_t *at;
	uint32_t head, count;
};

struct fan_helper_cache {
	struct fan_sslots slots; /* the entries; entry i has accumulator i */
	uint32_t frags;		 /* M; 0: there is no cache */
	uint32_t keep;		 /* entries for incomplete sums; the rest are for passing on */
	uint32_t buckets;	 /* a power of two */
	uint32_t *first, *next;	 /* entries by hash of their fragment */
	uint32_t free;		 /* list of empty entries, through `next` */
	uint8_t *flags;		 /* enum fan_helper_cache_flag, by entry */
	struct fan_helper_cache_ring due, sent;
	struct fan_helper_cache_stats stats;
};

/* Assert the invariants that hold between calls; fan_helper_cache_audit checks entries as well. */
static inline void fan_helper_cache_check(const struct fan_helper_cache *c)
{
	assert(c->stats.open <= c->frags && c->stats.open <= c->stats.peak);
	assert(c->due.count <= c->frags && c->sent.count <= c->frags);
	assert(c->keep <= c->frags);
}
void fan_helper_cache_audit(const struct fan_helper_cache *c);

/* Bytes for `frags` fragments of `payload_bytes`; 0 for none.  Then lay it out in `mem`,
 * aligned to 64. */
size_t fan_helper_cache_bytes(uint32_t frags, uint32_t payload_bytes);
void fan_helper_cache_init(struct fan_helper_cache *c, void *mem, uint32_t frags,
			   uint32_t payload_bytes);

/* Take contribution `p` of a job of `ranks`.
 *
 * FAN_WAIT: kept.  FAN_DONE: the sum is complete and due.  FAN_PASS: no room; the contribution
 * itself is due.  FAN_DROP: `*why` is DUPLICATE (some of its ranks are or were in the sum), FULL,
 * or MISMATCH, where the sum is due so that the aggregator sees both. */
enum fan_verdict fan_helper_cache_add(struct fan_helper_cache *c, uint64_t now_ns,
				      const struct fan_contribution *p, uint16_t ranks,
				      enum fan_drop *why);

/* Is the contribution of `rank` to `frag` in an incomplete sum here? */
bool fan_helper_cache_holds(const struct fan_helper_cache *c, uint64_t frag, uint16_t rank);

/* Make the sum for `frag`, if there is one, due. */
void fan_helper_cache_flush(struct fan_helper_cache *c, uint64_t frag);

/* The result of `frag` has come: its sum is no longer needed. */
void fan_helper_cache_forget(struct fan_helper_cache *c, uint64_t frag);

/* Is there no room for more? */
bool fan_helper_cache_is_full(const struct fan_helper_cache *c);

/* Is something due? */
bool fan_helper_cache_is_due(const struct fan_helper_cache *c);

/* Write the next due sum into `it`, as a PARTIAL of the helper `rank`.  The payload is valid until
 * the next fan_helper_cache_add.  False: nothing is due. */
bool fan_helper_cache_next(struct fan_helper_cache *c, uint16_t rank, struct fan_out_item *it);

#endif
