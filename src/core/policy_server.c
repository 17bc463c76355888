/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_server.h"

#include "reduce.h"
#include "round.h"

static enum fan_verdict drop(struct fan_switchml *r, enum fan_drop why)
{
	r->drop = why;
	return FAN_DROP;
}

static enum fan_verdict disagree(struct fan_switchml *r, const struct fan_frag *f, uint16_t other,
				 fan_desc other_desc)
{
	r->desc = fan_desc_of(f);
	r->other = other;
	r->other_desc = other_desc;
	return FAN_FAIL;
}

/* Which ranks of the partial are not in the round; true if some are. */
static bool find_missing(const struct fan_round *round, const struct fan_partial *p,
			 uint64_t *missing)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		any |= missing[i] = p->ranks[i] & ~round->seen[i];
	return any != 0;
}

static bool overlaps(const struct fan_round *round, const struct fan_partial *p)
{
	uint64_t both = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		both |= p->ranks[i] & round->seen[i];
	return both != 0;
}

static void add(const struct fan_pool *pool, struct fan_round *round, const struct fan_frag *f,
		const struct fan_partial *p)
{
	uint8_t *acc = fan_pool_acc(pool, round);
	if (f->count == 0 || f->flags & FAN_F_EMPTY) {
		/* nothing to add */
	} else if (f->op == FAN_BCAST || round->seen_count == 0) {
		memcpy(acc, p->elements, p->bytes);
	} else {
		fan_reduce_add(fan_partial_dtype(f), f->op, acc, p->elements, f->count);
	}
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		round->seen[i] |= p->ranks[i];
	round->way |= f->flags & (FAN_F_ECN | FAN_F_COLLISION);
	round->seen_count = (uint16_t)(round->seen_count + fan_ranks_count(p->ranks));
}

/* The round is the partial's own: is there something of it that may be added? */
static enum fan_verdict look(const struct fan_round *round, const struct fan_partial *p,
			     struct fan_switchml *r, uint64_t *ask)
{
	if (!overlaps(round, p))
		return FAN_WAIT;
	if (round->state == FAN_ROUND_DONE || !find_missing(round, p, ask))
		return drop(r, FAN_DROP_DUPLICATE);
	return FAN_ASK;
}

enum fan_verdict fan_server_partial(const struct fan_pool *pool, uint16_t ranks,
				    const struct fan_frag *f, const struct fan_partial *p,
				    struct fan_switchml *r, uint64_t *ask)
{
	struct fan_round *round = fan_pool_round(pool, f->frag);
	struct fan_frag first = *f; /* as the first of its ranks */
	enum fan_verdict v = FAN_WAIT;
	first.sender = p->first;
	r->round = round;
	r->opened = false;
	switch (fan_turn_of(pool, f->frag, round)) {
	case FAN_TURN_STALE: return drop(r, FAN_DROP_STALE);
	case FAN_TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case FAN_TURN_OPEN:
		fan_round_open(round, &first);
		r->opened = true;
		break;
	case FAN_TURN_NOW: v = look(round, p, r, ask); break;
	}
	if (v != FAN_WAIT)
		return v;
	if (round->desc != fan_desc_of(f) || round->exponent != f->exponent)
		return disagree(r, f, round->first, round->desc);
	if (fan_wants_root(f) && p->root != FAN_RANK_NONE) {
		if (round->root != FAN_RANK_NONE)
			return disagree(r, f, round->root, round->desc);
		round->root = p->root;
	}
	add(pool, round, f, p);
	if (round->seen_count < ranks)
		return FAN_WAIT;
	if (!fan_switchml_finish(pool, ranks, round, f))
		return disagree(r, f, round->first, round->desc);
	return FAN_DONE;
}
