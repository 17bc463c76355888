/* SPDX-License-Identifier: Apache-2.0 */
/* tree_source.c - what an uplink sends, and where its results go: the rounds of its switch.
 *
 * A round is AWAITING from its last contribution until the parent's result is there, and its
 * sum does not change meanwhile: it can be sent again at any time. */
#include <assert.h>

#include "worker_priv.h"

static struct fan_round *round_of(const struct fan_worker *w, uint64_t frag)
{
	struct fan_round *round = fan_pool_round(w->cfg.relayed, frag);
	return round->state == FAN_ROUND_AWAITING && round->frag == frag ? round : NULL;
}

static enum fan_source_has has(struct fan_worker *w, struct fan_wslot *s)
{
	return round_of(w, s->frag) ? FAN_SOURCE_READY : FAN_SOURCE_NONE;
}

/* Contributions below carried no elements: the broadcast's root is elsewhere. */
static bool is_empty(const struct fan_round *round)
{
	return FAN_DESC_OP(round->desc) == FAN_BCAST && round->root == FAN_RANK_NONE;
}

static bool fill(struct fan_worker *w, struct fan_wslot *s, struct fan_frag *f, struct fan_out *out)
{
	const struct fan_round *round = round_of(w, s->frag);
	assert(round);
	(void)out;
	f->exponent = round->exponent;
	f->priority = round->priority;
	f->flags = (uint16_t)((round->root != FAN_RANK_NONE ? FAN_F_ROOT : 0) |
			      (is_empty(round) ? FAN_F_EMPTY : 0));
	fan_desc_put(f, round->desc);
	if (f->flags & FAN_F_EMPTY)
		return true;
	f->payload_bytes = fan_wire_bytes(f->dtype, f->count);
	if (f->payload_bytes)
		f->payload = fan_pool_acc(w->cfg.relayed, round);
	return true;
}

/* Is `f` the result of the round?  FAN_SOURCE_TAKEN, or the reason to drop it. */
static int unfit(const struct fan_round *round, const struct fan_frag *f)
{
	if (!round || fan_desc_of(f) != round->desc)
		return FAN_DROP_MISMATCH;
	if (f->dtype == FAN_FIXED32 && f->exponent != round->exponent)
		return FAN_DROP_MISMATCH;
	bool reduce = FAN_DESC_REDUCE(round->desc), has_root = round->root != FAN_RANK_NONE;
	bool empty = f->flags & FAN_F_EMPTY;
	if (reduce && has_root && empty)
		return FAN_DROP_DUPLICATE; /* for the others; ours has the payload */
	return empty == (reduce && !has_root) ? FAN_SOURCE_TAKEN : FAN_DROP_MISMATCH;
}

static int take(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
		const struct fan_frag *f, bool *freed)
{
	struct fan_round *round = round_of(w, s->frag);
	int why = unfit(round, f);
	(void)now_ns;
	(void)freed;
	if (why >= 0)
		return why;
	assert(f->payload_bytes <= w->cfg.relayed->stride);
	if (f->payload_bytes && f->payload)
		memcpy(fan_pool_acc(w->cfg.relayed, round), f->payload, f->payload_bytes);
	round->state = FAN_ROUND_DONE;
	return FAN_SOURCE_TAKEN;
}

const struct fan_source fan_tree_source = {.has = has, .fill = fill, .take = take};
