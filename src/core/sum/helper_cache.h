/* SPDX-License-Identifier: Apache-2.0 */
/* helper_cache.h - sums that a helper keeps for slow ranks (SA-ATP, ToN 2024).
 *
 * A bounded table of partial sums by fragment: what a switch would do with a slot of
 * its own for each, in the memory of a host.  Parts are added where they are disjoint; a sum
 * of all ranks is due to be sent, and so is one that somebody asks for or that there is no
 * room for.  What has been sent stays while nobody needs its place, so that it can be sent
 * again, or be completed by what comes late.  It may all be forgotten at any time. */
#ifndef FAN_SUM_HELPER_CACHE_H
#define FAN_SUM_HELPER_CACHE_H

#include <assert.h>

#include "core/base/verdict.h"
#include "shared_slot.h"

#define FAN_CACHE_NONE UINT32_MAX

struct fan_helper_cache_stats {
	uint32_t frags; /* that it has room for */
	uint32_t open;	/* sums that wait for somebody... */
	uint32_t peak;	/* ...and the most there have been */
	uint64_t parts; /* added */
	uint64_t done;	/* sums of all ranks sent... */
	uint64_t early; /* ...sums sent because somebody asked for them... */
	uint64_t over;	/* ...or because there was no room to keep them */
};

/* A ring of entries, each in it once at most. */
struct fan_helper_cache_ring {
	uint32_t *at;
	uint32_t head, count;
};

struct fan_helper_cache {
	struct fan_sslots slots; /* the entries; entry i has accumulator i */
	uint32_t frags;		 /* M; 0: there is no cache */
	uint32_t keep;		 /* entries that may wait; the rest are for passing on */
	uint32_t buckets;	 /* a power of two */
	uint32_t *first, *next;	 /* entries by hash of their fragment */
	uint32_t free;		 /* list of entries that hold nothing, through `next` */
	uint8_t *flags;		 /* enum fan_helper_cache_flag, by entry */
	struct fan_helper_cache_ring due, sent;
	struct fan_helper_cache_stats stats;
};

/* What holds between calls; fan_helper_cache_audit goes through the entries as well. */
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

/* Take part `p` of a job of `ranks`.
 *
 * FAN_WAIT: kept.  FAN_DONE: that was the last one, and the sum is due.  FAN_PASS: no room,
 * the part is due as it is.  FAN_DROP: DUPLICATE (some of its ranks are in, or have been),
 * FULL, or MISMATCH: then the sum is due, for the aggregator to see who disagrees. */
enum fan_verdict fan_helper_cache_add(struct fan_helper_cache *c, uint64_t now_ns,
				      const struct fan_part *p, uint16_t ranks, enum fan_drop *why);

/* Is the part of `rank` for `frag` here, waiting for others? */
bool fan_helper_cache_holds(const struct fan_helper_cache *c, uint64_t frag, uint16_t rank);

/* The sum for `frag`, if there is one, is due. */
void fan_helper_cache_flush(struct fan_helper_cache *c, uint64_t frag);

/* The result of `frag` is there. */
void fan_helper_cache_forget(struct fan_helper_cache *c, uint64_t frag);

/* Is there no room for more? */
bool fan_helper_cache_is_full(const struct fan_helper_cache *c);

/* Is something due? */
bool fan_helper_cache_is_due(const struct fan_helper_cache *c);

/* Write the next sum that is due into `it`, as a PARTIAL of the helper `rank`.  It
 * stays as it is until the next call of fan_helper_cache_add.  False: nothing is due. */
bool fan_helper_cache_next(struct fan_helper_cache *c, uint16_t rank, struct fan_out_item *it);

#endif
