/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - an aggregator's memory: slots of two versions, lent to jobs.
 *
 * A slot is two rounds, the version in use and its shadow copy: while one fragment is
 * summed, the last one's result stays for ranks that missed it.  Fragment number n of a
 * job with W slots uses slot n % W, version n / W % 2.  A job whose elements are wider
 * while they are summed (half types) takes two units of memory for each slot. */
#ifndef FAN_SUM_SLOT_H
#define FAN_SUM_SLOT_H

#include "core/wire/ctlmsg.h"

enum fan_round_state {
	FAN_ROUND_FREE, /* never used since the job got the slot */
	FAN_ROUND_OPEN, /* some contributions are in */
	FAN_ROUND_DONE, /* all are in: the accumulator holds the result for the wire */
	/* all are in: it holds their sum, the contribution to the parent; DONE when the parent's
	 * result has replaced it */
	FAN_ROUND_AWAITING,
};

/* One version of one slot. */
struct fan_round {
	uint64_t frag;		       /* its fragment; meaningless while FREE */
	uint64_t seen[FAN_RANK_WORDS]; /* ranks that have contributed */
	fan_desc desc;		       /* of the first contribution */
	uint16_t seen_count;
	uint16_t first; /* rank of the first contribution */
	uint16_t root;	/* rank that declared itself the root, or FAN_RANK_NONE */
	int16_t exponent;
	/* DONE: of its result in the job, low 16 bits.  OPEN: its place in the job's order */
	uint16_t number;
	uint8_t met;	       /* FAN_F_MET: what any of its contributions has met */
	unsigned place : 4;    /* of its contributions */
	unsigned reminded : 4; /* jobs behind switches: FLUSHes sent */
	uint8_t priority;      /* of the first contribution */
	uint8_t state;	       /* enum fan_round_state */
	/* index of the round whose result's sequence number, modulo the number of rounds, is the
	 * index of this one */
	uint16_t numbered;
	/* jobs behind switches: time of the first contribution or of the last FLUSH, low 32 bits */
	uint32_t since_us;
};
_Static_assert(sizeof(struct fan_round) == 64, "a cache line");

/* All slots of a shard. */
struct fan_slots {
	struct fan_round *rounds; /* 2 * units */
	uint8_t *acc;		  /* 2 * units accumulators of unit_bytes */
	uint32_t units;
	uint32_t unit_bytes; /* payload, rounded up to 64 */
};

/* The slots of one job. */
struct fan_pool {
	struct fan_round *rounds; /* 2 * window, version behind version */
	uint8_t *acc;
	uint32_t base;	 /* first unit */
	uint32_t units;	 /* window * width */
	uint32_t stride; /* bytes from one accumulator to the next */
	uint16_t window;
	bool relayed;	  /* sums are no results, but contributions to a parent */
	uint32_t workers; /* divisor of averages; 0: as many as ranks */
};

/* Assert the invariants of all rounds of a job of `ranks`. */
void fan_pool_audit(const struct fan_pool *p, uint16_t ranks);

/* Bytes of memory for `units` slots of `payload_bytes`. */
size_t fan_slots_bytes(uint32_t units, uint32_t payload_bytes);

/* Lay the slots out in `mem`, aligned to 64. */
void fan_slots_init(struct fan_slots *s, void *mem, uint32_t units, uint32_t payload_bytes);

/* Give `pool` units [base, base + window * width) and clear its rounds. */
void fan_slots_lend(const struct fan_slots *s, struct fan_pool *pool, uint32_t base,
		    uint16_t window, unsigned width);

/* The round that fragment `frag` would use. */
static inline struct fan_round *fan_pool_round(const struct fan_pool *p, uint64_t frag)
{
	return &p->rounds[frag % p->window * 2 + (frag / p->window & 1)];
}

/* The other version of its slot. */
static inline struct fan_round *fan_pool_shadow(const struct fan_pool *p,
						const struct fan_round *round)
{
	return &p->rounds[(size_t)(round - p->rounds) ^ 1];
}

/* The round of the fragment behind that of `round`. */
static inline struct fan_round *fan_pool_next(const struct fan_pool *p,
					      const struct fan_round *round)
{
	size_t i = (size_t)(round - p->rounds) + 2;
	return &p->rounds[i < 2u * p->window ? i : (i & 1) ^ 1];
}

/* Prefetch the round and, if there are `elements`, its sum. */
static inline void fan_pool_prefetch(const struct fan_pool *p, const struct fan_round *r,
				     bool elements)
{
	const uint8_t *acc = p->acc + (size_t)(r - p->rounds) * p->stride;
	__builtin_prefetch(r);
	if (!elements)
		return;
	__builtin_prefetch(acc);
	__builtin_prefetch(acc + 64);
	__builtin_prefetch(acc + 128);
	__builtin_prefetch(acc + 192);
}

static inline uint8_t *fan_pool_acc(const struct fan_pool *p, const struct fan_round *r)
{
	return p->acc + (size_t)(r - p->rounds) * p->stride;
}

#endif
