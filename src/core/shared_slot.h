/* SPDX-License-Identifier: Apache-2.0 */
/* shared_slot.h - slots that belong to no job: a fragment takes one and lets it go.
 *
 * A slot remembers its last key when it holds nothing any more, and which ranks' parts
 * it has let go: what comes late completes them, and what comes twice is noticed, until
 * another key takes the slot. */
#ifndef FAN_SHARED_SLOT_H
#define FAN_SHARED_SLOT_H

#include "partial.h"

enum fan_sslot_state {
	FAN_SSLOT_FREE,	  /* never used */
	FAN_SSLOT_OPEN,	  /* holds a sum of some ranks */
	FAN_SSLOT_SENT,	  /* the sum of all ranks below has left, and stays until the result */
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
	uint16_t way;	/* FAN_F_WAY, sticky, and SUMMED of the parts */
	uint16_t ranks; /* of the job */
	uint8_t state;	/* enum fan_sslot_state */
	uint8_t priority;
};

struct fan_sslots {
	struct fan_sslot *slot;
	uint8_t *acc;	 /* count + spares accumulators */
	uint32_t *spare; /* ring of accumulators that were let go, the oldest next */
	uint32_t count, spares, spare_next;
	uint32_t stride; /* bitmap and payload */
};

/* One or more ranks' parts of a fragment, as they came. */
struct fan_part {
	const struct fan_frag *f;
	uint64_t ranks[FAN_RANK_WORDS];
	uint16_t first, root;
	const uint8_t *elements;
	size_t bytes;
	bool wide;	      /* elements are as wide as they are summed */
	bool sums;	      /* here, and not elsewhere */
	const fan_peer *next; /* on its way up */
};

/* What ranks `f`, a DATA of a job of `ranks`, brings parts of; false: it is malformed. */
bool fan_part_get(struct fan_part *p, const struct fan_frag *f, unsigned ranks);

/* Does the part carry what it has to?  As in switch.c and server.c. */
bool fan_part_is_fit(const struct fan_part *p);

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

/* Is the slot's key, which it may hold nothing of, that of `f`? */
bool fan_sslot_is_of(const struct fan_sslot *slot, const struct fan_frag *f);

/* Let part `p` of a job of `ranks` be the first in the slot.  What was in it stays where
 * it is for a while, for those who send it. */
void fan_sslot_take(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p,
		    uint16_t ranks);

/* Is there a rank in `p` whose part is in the slot, or has been? */
bool fan_sslot_has(const struct fan_sslot *slot, const struct fan_part *p);

/* Does `p` claim to be what the parts in the slot are?  Two roots do not go together. */
bool fan_sslot_agrees(const struct fan_sslot *slot, const struct fan_part *p);

/* Add `p`, which agrees.  The slot is OPEN then. */
void fan_sslot_add(struct fan_sslots *s, struct fan_sslot *slot, const struct fan_part *p);

/* Are the parts of all ranks `below` in, or have been? */
bool fan_sslot_is_full(const struct fan_sslot *slot, const uint64_t *below);

/* Make `f` the PARTIAL of what the slot holds, its payload in the accumulator. */
void fan_sslot_fill(const struct fan_sslots *s, const struct fan_sslot *slot, struct fan_frag *f);

/* The slot holds nothing any more, but remembers whose parts it had. */
void fan_sslot_let_go(struct fan_sslots *s, struct fan_sslot *slot);

#endif
