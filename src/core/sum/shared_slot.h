/* SPDX-License-Identifier: Apache-2.0 */
/* shared_slot.h - slots that belong to no job: a fragment takes one and lets it go.
 *
 * A slot remembers its last key when it holds nothing any more, and which ranks' parts
 * it has let go: what comes late completes them, and what comes twice is noticed, until
 * another key takes the slot. */
#ifndef FAN_SUM_SHARED_SLOT_H
#define FAN_SUM_SHARED_SLOT_H

#include "part.h"

enum fan_sslot_state {
	FAN_SSLOT_FREE, /* never used */
	FAN_SSLOT_LOST, /* its job is over: anybody's, once what may be on its way has been sent */
	FAN_SSLOT_OPEN, /* holds a sum of some ranks */
	FAN_SSLOT_SENT, /* the sum of all ranks below has left, and stays until the result */
	FAN_SSLOT_PASSED, /* holds nothing: anybody's */
};

struct fan_sslot {
	uint64_t frag;
	uint64_t seen[FAN_RANK_WORDS]; /* ranks in the sum */
	uint64_t gone[FAN_RANK_WORDS]; /* ranks that were in one that has left */
	uint64_t since_ns;	       /* when the first part came... */
	uint64_t touched_ns;	       /* ...and the last one, or when the sum was sent */
	uint32_t job, epoch;
	fan_desc desc;
	uint32_t acc; /* which accumulator */
	uint16_t root;
	int16_t exponent;
	uint16_t met;	/* FAN_F_MET and SUMMED of the parts */
	uint16_t ranks; /* of the job */
	uint8_t state;	/* enum fan_sslot_state */
	uint8_t priority;
	uint8_t place; /* of the parts */
};

struct fan_sslots {
	struct fan_sslot *slot;
	uint8_t *acc;	 /* count + spares accumulators */
	uint32_t *spare; /* ring of accumulators that were let go, the oldest next */
	uint32_t count, spares, spare_next;
	uint32_t stride; /* bitmap and payload */
};

/* What holds of the slots between calls. */
void fan_sslots_audit(const struct fan_sslots *s);

size_t fan_sslots_bytes(uint32_t count, uint32_t spares, uint32_t payload_bytes);
void fan_sslots_init(struct fan_sslots *s, void *mem, uint32_t count, uint32_t spares,
		     uint32_t payload_bytes);

/* The slot of a fragment of a job whose window is `window`. */
struct fan_sslot *fan_sslots_at(const struct fan_sslots *s, const struct fan_frag *f,
				uint32_t window);

/* Slots that lie side by side; none: all there are. */
struct fan_stretch {
	uint32_t first, count;
};

/* The slot of fragment `frag` of a job whose ranks run ahead of each other: one behind the other
 * in stretch `in`, so that those that meet in a slot are as far from each other as can be. */
struct fan_sslot *fan_sslots_in_line(const struct fan_sslots *s, uint64_t frag, uint32_t window,
				     struct fan_stretch in);

/* Does it hold a sum that somebody waits for? */
static inline bool fan_sslot_holds(const struct fan_sslot *slot)
{
	return slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT;
}

/* Is the slot's key, which it may hold nothing of, that of `f`? */
static inline bool fan_sslot_is_of(const struct fan_sslot *slot, const struct fan_frag *f)
{
	return slot->state > FAN_SSLOT_LOST && slot->frag == f->frag && slot->job == f->job &&
	       slot->epoch == f->epoch;
}

/* Let part `p` of a job of `ranks` be the first in the slot.  What was in it stays where
 * it is for a while, for those who send it. */
void fan_sslot_take(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p,
		    uint16_t ranks);

/* Is there a rank in `p` whose part is in the slot, or has been? */
static inline bool fan_sslot_has(const struct fan_sslot *slot, const struct fan_part *p)
{
	return fan_part_meets(p, slot->seen) || fan_part_meets(p, slot->gone);
}

/* Does `p` claim to be what the parts in the slot are?  Two roots do not go together. */
static inline bool fan_sslot_agrees(const struct fan_sslot *slot, const struct fan_part *p)
{
	return slot->desc == fan_desc_of(p->f) && slot->exponent == p->f->exponent &&
	       (slot->met & FAN_F_SUMMED) == (p->f->flags & FAN_F_SUMMED) &&
	       (slot->root == FAN_RANK_NONE || p->root == FAN_RANK_NONE);
}

/* Add `p`, which agrees.  The slot is OPEN then. */
void fan_sslot_add(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p);

/* Let `missing` be those of `below` whose parts neither are in nor have been; true if there are. */
static inline bool fan_sslot_missing(const struct fan_sslot *slot, const uint64_t *below,
				     uint64_t *missing)
{
	fan_ranks_without(missing, below, slot->seen);
	return fan_ranks_without(missing, missing, slot->gone);
}

/* Are the parts of all ranks `below` in, or have been? */
static inline bool fan_sslot_is_full(const struct fan_sslot *slot, const uint64_t *below)
{
	uint64_t missing[FAN_RANK_WORDS];
	return !fan_sslot_missing(slot, below, missing);
}

/* Make `f` the PARTIAL of what the slot holds, its payload in the accumulator. */
void fan_sslot_fill(const struct fan_sslots *s, const struct fan_sslot *slot, struct fan_frag *f);

/* The slot holds nothing any more, but remembers whose parts it had.  With fan_sslot_pass, what it
 * held stays in its accumulator until the next part. */
void fan_sslot_pass(struct fan_sslot *slot);
void fan_sslot_release(struct fan_sslots *s, struct fan_sslot *slot);

#endif
