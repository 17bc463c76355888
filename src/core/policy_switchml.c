/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_switchml.h"

#include "reduce.h"
#include "round.h"

static enum fan_verdict disagree(struct fan_switchml *r, const struct fan_frag *f, uint16_t other,
				 fan_desc other_desc)
{
	r->desc = fan_desc_of(f);
	r->other = other;
	r->other_desc = other_desc;
	return FAN_FAIL;
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
	round->way |= f->flags & (FAN_F_ECN | FAN_F_COLLISION);
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

bool fan_switchml_finish(const struct fan_pool *pool, uint16_t ranks, struct fan_round *round,
			 const struct fan_frag *f)
{
	/* the root may be below another switch, and the average is the tree root's to take */
	if (fan_wants_root(f) && round->root == FAN_RANK_NONE && !pool->relayed)
		return false;
	if (f->op != FAN_BCAST)
		fan_reduce_finish(f->dtype, f->op, fan_pool_acc(pool, round), f->count,
				  divisor_of(pool, ranks));
	round->state = pool->relayed ? FAN_ROUND_HELD : FAN_ROUND_DONE;
	return true;
}

enum fan_verdict fan_switchml_data(const struct fan_pool *pool, uint16_t ranks,
				   const struct fan_frag *f, struct fan_switchml *r)
{
	struct fan_round *round = fan_pool_round(pool, f->frag);
	r->round = round;
	r->opened = false;
	switch (fan_turn_of(pool, f->frag, round)) {
	case FAN_TURN_STALE: return drop(r, FAN_DROP_STALE);
	case FAN_TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case FAN_TURN_OPEN:
		fan_round_open(round, f);
		r->opened = true;
		break;
	case FAN_TURN_NOW:
		if (!fan_ranks_has(round->seen, f->sender))
			break;
		if (round->state == FAN_ROUND_DONE)
			return FAN_REPLAY;
		return drop(r, FAN_DROP_DUPLICATE);
	}
	if (round->desc != fan_desc_of(f) || round->exponent != f->exponent)
		return disagree(r, f, round->first, round->desc);
	if (fan_wants_root(f) && f->flags & FAN_F_ROOT) {
		if (round->root != FAN_RANK_NONE)
			return disagree(r, f, round->root, round->desc);
		round->root = f->sender;
	}
	add(pool, round, f);
	if (round->seen_count < ranks)
		return FAN_WAIT;
	if (!fan_switchml_finish(pool, ranks, round, f))
		return disagree(r, f, round->first, round->desc);
	return FAN_DONE;
}

enum fan_verdict fan_switchml_probe(const struct fan_pool *pool, const struct fan_frag *f,
				    struct fan_switchml *r)
{
	struct fan_round *round = fan_pool_round(pool, f->frag);
	r->round = round;
	switch (fan_turn_of(pool, f->frag, round)) {
	case FAN_TURN_STALE: return drop(r, FAN_DROP_STALE);
	case FAN_TURN_AHEAD: return drop(r, FAN_DROP_AHEAD);
	case FAN_TURN_OPEN: return FAN_ASK;
	case FAN_TURN_NOW: break;
	}
	if (round->state == FAN_ROUND_DONE)
		return FAN_REPLAY;
	return fan_ranks_has(round->seen, f->sender) ? FAN_HELD : FAN_ASK;
}
