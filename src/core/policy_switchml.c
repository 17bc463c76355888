/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_switchml.h"

#include "reduce.h"

/* How fragment `frag` stands to the round that would hold it. */
enum turn {
	TURN_NOW,   /* the round is its own */
	TURN_OPEN,  /* the round's last fragment is over everywhere: it may begin */
	TURN_STALE, /* the round has moved on */
	TURN_AHEAD, /* the fragment before it in this slot is not finished */
};

static enum turn turn_of(const struct fan_pool *pool, uint64_t frag, const struct fan_round *round)
{
	if (round->state != FAN_ROUND_FREE && round->frag == frag)
		return TURN_NOW;
	if (round->state != FAN_ROUND_FREE && round->frag > frag)
		return TURN_STALE;
	if (frag < pool->window)
		return TURN_OPEN;
	/* A contribution says: I have the result of frag - window.  So that round is
	 * done, and all who contributed to it had the result of the one before. */
	const struct fan_round *shadow = fan_pool_shadow(pool, frag);
	bool finished = shadow->state == FAN_ROUND_DONE && shadow->frag == frag - pool->window;
	return finished ? TURN_OPEN : TURN_AHEAD;
}

static void open_round(struct fan_round *round, const struct fan_frag *f)
{
	memset(round->seen, 0, sizeof round->seen);
	round->frag = f->frag;
	round->desc = fan_desc_of(f);
	round->seen_count = 0;
	round->first = f->sender;
	round->root = FAN_RANK_NONE;
	round->exponent = f->exponent;
	round->state = FAN_ROUND_OPEN;
}

static enum fan_verdict disagree(struct fan_switchml *r, const struct fan_frag *f, uint16_t other,
				 fan_desc other_desc)
{
	r->desc = fan_desc_of(f);
	r->other = other;
	r->other_desc = other_desc;
	return FAN_FAIL;
}

/* Operations with a root have exactly one. */
static bool wants_root(const struct fan_frag *f)
{
	return f->op == FAN_BCAST || f->flags & FAN_F_REDUCE;
}

static void add(const struct fan_pool *pool, struct fan_round *round, const struct fan_frag *f)
{
	uint8_t *acc = fan_pool_acc(pool, round);
	if (f->count == 0) {
		/* a barrier, or an operation without elements: there may be no payload */
	} else if (f->op == FAN_BCAST) {
		if (f->flags & FAN_F_ROOT)
			memcpy(acc, f->payload, f->payload_bytes);
	} else if (round->seen_count == 0) {
		fan_reduce_load(f->dtype, acc, f->payload, f->count);
	} else {
		fan_reduce_add(f->dtype, f->op, acc, f->payload, f->count);
	}
	fan_ranks_set(round->seen, f->sender);
	round->seen_count++;
}

static enum fan_verdict drop(struct fan_switchml *r, enum fan_drop why)
{
	r->drop = why;
	return FAN_DROP;
}

/* What averages are divided by here. */
static unsigned divisor_of(const struct fan_pool *pool, uint16_t ranks)
{
	if (pool->relayed)
		return 1;
	return pool->workers ? pool->workers : ranks;
}

enum fan_verdict fan_switchml_data(const struct fan_pool *pool, uint16_t ranks,
				   const struct fan_frag *f, struct fan_switchml *r)
{
	struct fan_round *round = fan_pool_round(pool, f->frag);
	r->round = round;
	r->opened = false;
	switch (turn_of(pool, f->frag, round)) {
	case TURN_STALE: return drop(r, FAN_DROP_STALE);
	case TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case TURN_OPEN:
		open_round(round, f);
		r->opened = true;
		break;
	case TURN_NOW:
		if (!fan_ranks_has(round->seen, f->sender))
			break;
		if (round->state == FAN_ROUND_DONE)
			return FAN_REPLAY;
		return drop(r, FAN_DROP_DUPLICATE);
	}
	if (round->desc != fan_desc_of(f) || round->exponent != f->exponent)
		return disagree(r, f, round->first, round->desc);
	if (wants_root(f) && f->flags & FAN_F_ROOT) {
		if (round->root != FAN_RANK_NONE)
			return disagree(r, f, round->root, round->desc);
		round->root = f->sender;
	}
	add(pool, round, f);
	if (round->seen_count < ranks)
		return FAN_WAIT;
	/* the root may be below another switch, and the average is the tree root's to take */
	if (wants_root(f) && round->root == FAN_RANK_NONE && !pool->relayed)
		return disagree(r, f, round->first, round->desc);
	if (f->op != FAN_BCAST)
		fan_reduce_finish(f->dtype, f->op, fan_pool_acc(pool, round), f->count,
				  divisor_of(pool, ranks));
	round->state = pool->relayed ? FAN_ROUND_HELD : FAN_ROUND_DONE;
	return FAN_DONE;
}

enum fan_verdict fan_switchml_probe(const struct fan_pool *pool, const struct fan_frag *f,
				    struct fan_switchml *r)
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
	return fan_ranks_has(round->seen, f->sender) ? FAN_HELD : FAN_ASK;
}
