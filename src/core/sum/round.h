/* SPDX-License-Identifier: Apache-2.0 */
/* round.h - whether a fragment may use its round, and opening a round. */
#ifndef FAN_SUM_ROUND_H
#define FAN_SUM_ROUND_H

#include "contribution.h"
#include "slot.h"

/* The state of a round for one fragment. */
enum fan_turn {
	FAN_TURN_NOW,	/* the round is this fragment's */
	FAN_TURN_OPEN,	/* the round's last fragment is over everywhere: it may be opened */
	FAN_TURN_STALE, /* the round has gone on to a later fragment */
	FAN_TURN_AHEAD, /* the previous fragment of this slot is not finished */
};

static inline enum fan_turn fan_turn_of(const struct fan_pool *pool, uint64_t frag,
					const struct fan_round *round)
{
	if (round->state != FAN_ROUND_FREE && round->frag == frag)
		return FAN_TURN_NOW;
	if (round->state != FAN_ROUND_FREE && round->frag > frag)
		return FAN_TURN_STALE;
	if (frag < pool->window)
		return FAN_TURN_OPEN;
	/* A rank contributes once it has the result of frag - window.  So that round is done, and
	 * all its contributors had the result of the round before. */
	const struct fan_round *shadow = fan_pool_shadow(pool, frag);
	bool finished = shadow->state == FAN_ROUND_DONE && shadow->frag == frag - pool->window;
	return finished ? FAN_TURN_OPEN : FAN_TURN_AHEAD;
}

/* Open `round` for the fragment of `p`, without adding it. */
static inline void fan_round_open(struct fan_round *round, const struct fan_contribution *p)
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
static inline bool fan_wants_root(const struct fan_frag *f)
{
	return f->op == FAN_BCAST || f->flags & FAN_F_REDUCE;
}

#endif
