/* SPDX-License-Identifier: Apache-2.0 */
#include "round_add.h"

#include <assert.h>

#include "contribution.h"
#include "reduce.h"
#include "slot.h"

/* The state of a round for one fragment. */
enum turn {
	TURN_NOW,   /* the round is this fragment's */
	TURN_OPEN,  /* the round's last fragment is over everywhere: it may be opened */
	TURN_STALE, /* the round has gone on to a later fragment */
	TURN_AHEAD, /* the previous fragment of this slot is not finished */
};

static enum turn turn_of(const struct fan_pool *pool, uint64_t frag, const struct fan_round *round)
{
	if (round->state != FAN_ROUND_FREE && round->frag == frag)
		return TURN_NOW;
	if (round->state != FAN_ROUND_FREE && round->frag > frag)
		return TURN_STALE;
	if (frag < pool->window)
		return TURN_OPEN;
	/* A rank contributes once it has the result of frag - window.  So that round is done, and
	 * all its contributors had the result of the round before. */
	const struct fan_round *shadow = fan_pool_shadow(pool, round);
	bool finished = shadow->state == FAN_ROUND_DONE && shadow->frag == frag - pool->window;
	return finished ? TURN_OPEN : TURN_AHEAD;
}

/* Open `round` for the fragment of `p`, without adding it. */
static void open_round(struct fan_round *round, const struct fan_contribution *p)
{
	const struct fan_frag *f = p->f;
	fan_ranks_none(round->seen);
	round->frag = f->frag;
	round->desc = fan_desc_of(f);
	round->seen_count = 0;
	round->first = p->first;
	round->root = FAN_RANK_NONE;
	round->exponent = f->exponent;
	round->met = (uint8_t)(f->flags & FAN_F_MET);
	round->place = f->place & 15u;
	round->priority = f->priority;
	round->state = FAN_ROUND_OPEN;
}

/* Operations with a root have exactly one. */
static bool wants_root(const struct fan_frag *f)
{
	return f->op == FAN_BCAST || f->flags & FAN_F_REDUCE;
}

static enum fan_verdict disagree(struct fan_round_outcome *r, const struct fan_frag *f,
				 uint16_t other)
{
	r->desc = fan_desc_of(f);
	r->other = other;
	r->other_desc = r->round->desc;
	return FAN_FAIL;
}

static enum fan_verdict drop(struct fan_round_outcome *r, enum fan_drop why)
{
	r->drop = why;
	return FAN_DROP;
}

/* Return the divisor of averages here. */
static unsigned divisor_of(const struct fan_pool *pool, uint16_t ranks)
{
	if (pool->relayed)
		return 1;
	return pool->workers ? pool->workers : ranks;
}

/* All contributions are in: make the result of the sum, or hold it for a parent.  False: the
 * operation has no root. */
static bool finish(const struct fan_pool *pool, uint16_t ranks, struct fan_round *round,
		   const struct fan_frag *f)
{
	/* the root may be below another switch, and the average is the tree root's to take */
	if (wants_root(f) && round->root == FAN_RANK_NONE && !pool->relayed)
		return false;
	if (f->op != FAN_BCAST)
		fan_reduce_finish(f->dtype, f->op, fan_pool_acc(pool, round), f->count,
				  divisor_of(pool, ranks));
	round->state = pool->relayed ? FAN_ROUND_AWAITING : FAN_ROUND_DONE;
	return true;
}

/* Some of the contribution is in: it is not added. */
static enum fan_verdict overlap(const struct fan_round *round, const struct fan_contribution *p,
				struct fan_round_outcome *r)
{
	if (round->state == FAN_ROUND_DONE && !p->is_sum)
		return FAN_REPLAY;
	return fan_ranks_without(r->missing, p->ranks, round->seen) ? FAN_ASK
								    : drop(r, FAN_DROP_DUPLICATE);
}

static void add(const struct fan_pool *pool, struct fan_round *round,
		const struct fan_contribution *p)
{
	fan_contribution_add(p, fan_pool_acc(pool, round), round->seen_count == 0);
	round->met |= (uint8_t)(p->f->flags & FAN_F_MET);
	round->seen_count = (uint16_t)(round->seen_count + fan_contribution_join(p, round->seen));
}

enum fan_verdict fan_round_add(const struct fan_pool *pool, uint16_t ranks,
			       const struct fan_contribution *p, struct fan_round_outcome *r)
{
	const struct fan_frag *f = p->f;
	struct fan_round *round = r->round;
	assert(round);
	r->opened = false;
	switch (turn_of(pool, f->frag, round)) {
	case TURN_STALE: return drop(r, FAN_DROP_STALE);
	case TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case TURN_OPEN:
		open_round(round, p);
		r->opened = true;
		break;
	case TURN_NOW:
		if (fan_contribution_meets(p, round->seen))
			return overlap(round, p, r);
		break;
	}
	if (round->desc != fan_desc_of(f) || round->exponent != f->exponent)
		return disagree(r, f, round->first);
	if (p->root != FAN_RANK_NONE) {
		if (round->root != FAN_RANK_NONE)
			return disagree(r, f, round->root);
		round->root = p->root;
	}
	assert(round->state == FAN_ROUND_OPEN);
	add(pool, round, p);
	if (round->seen_count < ranks)
		return FAN_WAIT;
	assert(round->seen_count == ranks);
	if (!finish(pool, ranks, round, f))
		return disagree(r, f, round->first);
	return FAN_DONE;
}

enum fan_verdict fan_round_probe(const struct fan_pool *pool, const struct fan_frag *f,
				 struct fan_round_outcome *r)
{
	struct fan_round *round = fan_pool_round(pool, f->frag);
	r->round = round;
	switch (turn_of(pool, f->frag, round)) {
	case TURN_STALE: return drop(r, FAN_DROP_STALE);
	case TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case TURN_OPEN: return FAN_ASK;
	case TURN_NOW: break;
	}
	if (round->state == FAN_ROUND_DONE)
		return FAN_REPLAY;
	return fan_ranks_has(round->seen, f->sender) ? FAN_EARLY : FAN_ASK;
}
