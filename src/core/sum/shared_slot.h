/* SPDX-License-Identifier: Apache-2.0 */
/* shared_slot.h - slots that belong to no job: a fragment takes one and releases it.
 *
 * An empty slot keeps its last key and the ranks that it has released, until another key
 * takes it: so late contributions complete the fragment, and duplicates are found. */
#ifndef FAN_SUM_SHARED_SLOT_H
#define FAN_SUM_SHARED_SLOT_H

#include "contribution.h"

enum fan_sslot_state {
	FAN_SSLOT_FREE,	  /* never used */
	FAN_SSLOT_LOST,	  /* its job is over: free once items that refer to it have been sent */
	FAN_SSLOT_OPEN,	  /* holds a sum of some ranks */
	FAN_SSLOT_SENT,	  /* the sum of all ranks below has left, and stays until the result */
	FAN_SSLOT_PASSED, /* empty, with a key */
};

struct fan_sslot {
	uint64_t frag;
	uint64_t seen[FAN_RANK_WORDS]; /* ranks in the sum */
	uint64_t gone[FAN_RANK_WORDS]; /* ranks in released sums of this key */
	uint64_t since_ns;	       /* time of the first contribution */
	uint64_t touched_ns;	       /* time of the last contribution, or of sending the sum */
	uint32_t job, epoch;
	fan_desc desc;
	uint32_t acc; /* index of its accumulator */
	uint16_t root;
	int16_t exponent;
	uint16_t met;	/* FAN_F_MET and SUMMED of its contributions */
	uint16_t ranks; /* of the job */
	uint8_t state;	/* enum fan_sslot_state */
	uint8_t priority;
	uint8_t place; /* of its contributions */
};

struct fan_sslots {
	struct fan_sslot *slot;
	uint8_t *acc;	 /* count + spares accumulators */
	uint32_t *spare; /* ring of released accumulators, the oldest next */
	uint32_t count, spares, spare_next;
	uint32_t stride; /* bitmap and payload */
};

/* Assert the invariants of all slots. */
void fan_sslots_audit(const struct fan_sslots *s);

size_t fan_sslots_bytes(uint32_t count, uint32_t spares, uint32_t payload_bytes);
void fan_sslots_init(struct fan_sslots *s, void *mem, uint32_t count, uint32_t spares,
		     uint32_t payload_bytes);

/* The slot of a fragment of a job whose window is `window`. */
struct fan_sslot *fan_sslots_at(const struct fan_sslots *s, const struct fan_frag *f,
				uint32_t window);

/* A range of slots; count 0: all. */
struct fan_stretch {
	uint32_t first, count;
};

/* The slot of fragment `frag` of a job with run-ahead: consecutive in stretch `in`, so that
 * fragments that share a slot are as far apart as possible. */
struct fan_sslot *fan_sslots_in_line(const struct fan_sslots *s, uint64_t frag, uint32_t window,
				     struct fan_stretch in);

/* Does it hold a sum? */
static inline bool fan_sslot_holds(const struct fan_sslot *slot)
{
	return slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT;
}

/* Is the slot's key, even if it is empty, that of `f`? */
static inline bool fan_sslot_is_of(const struct fan_sslot *slot, const struct fan_frag *f)
{
	return slot->state > FAN_SSLOT_LOST && slot->frag == f->frag && slot->job == f->job &&
	       slot->epoch == f->epoch;
}

/* Put contribution `p` of a job of `ranks` into the slot as its first.  The old accumulator becomes
 * a spare, so that items that refer to it stay valid for a while. */
void fan_sslot_take(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_contribution *p,
		    uint16_t ranks);

/* Is a rank of `p` in the slot, or was it released? */
static inline bool fan_sslot_has(const struct fan_sslot *slot, const struct fan_contribution *p)
{
	return fan_contribution_meets(p, slot->seen) || fan_contribution_meets(p, slot->gone);
}

/* Does `p` agree with the slot's contributions about fragment and root? */
static inline bool fan_sslot_agrees(const struct fan_sslot *slot, const struct fan_contribution *p)
{
	return slot->desc == fan_desc_of(p->f) && slot->exponent == p->f->exponent &&
	       (slot->met & FAN_F_SUMMED) == (p->f->flags & FAN_F_SUMMED) &&
	       (slot->root == FAN_RANK_NONE || p->root == FAN_RANK_NONE);
}

/* Add `p`, which agrees.  The slot is OPEN afterwards. */
void fan_sslot_add(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_contribution *p);

/* Let `missing` be the ranks of `below` that are neither in the slot nor released; true if any. */
static inline bool fan_sslot_missing(const struct fan_sslot *slot, const uint64_t *below,
				     uint64_t *missing)
{
	fan_ranks_without(missing, below, slot->seen);
	return fan_ranks_without(missing, missing, slot->gone);
}

/* Is every rank of `below` in the slot, or released? */
static inline bool fan_sslot_is_full(const struct fan_sslot *slot, const uint64_t *below)
{
	uint64_t missing[FAN_RANK_WORDS];
	return !fan_sslot_missing(slot, below, missing);
}

/* Make `f` the PARTIAL of the slot's sum, with its payload in the accumulator. */
void fan_sslot_fill(const struct fan_sslots *s, const struct fan_sslot *slot, struct fan_frag *f);

/* Empty the slot, which keeps its key and its ranks.  After fan_sslot_pass the sum stays in the
 * accumulator until the next contribution; fan_sslot_release makes the accumulator a spare. */
void fan_sslot_pass(struct fan_sslot *slot);
void fan_sslot_release(struct fan_sslots *s, struct fan_sslot *slot);

#endif
