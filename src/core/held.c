/* SPDX-License-Identifier: Apache-2.0 */
/* held.c - what an uplink sends, and where its results go: the rounds of its switch.
 *
 * A round is HELD from its last contribution until the parent's result is there, and its
 * sum does not change meanwhile: it can be sent again at any time. */
#include "worker_priv.h"

static struct fan_round *round_of(const struct fan_worker *w, uint64_t frag)
{
	struct fan_round *round = fan_pool_round(w->cfg.relayed, frag);
	return round->state == FAN_ROUND_HELD && round->frag == frag ? round : NULL;
}

bool fan_held_has(const struct fan_worker *w, uint64_t frag)
{
	return round_of(w, frag) != NULL;
}

/* Contributions below carried no elements: the broadcast's root is elsewhere. */
static bool is_empty(const struct fan_round *round)
{
	return FAN_DESC_OP(round->desc) == FAN_BCAST && round->root == FAN_RANK_NONE;
}

void fan_held_fill(const struct fan_worker *w, uint64_t frag, struct fan_frag *f)
{
	const struct fan_round *round = round_of(w, frag);
	fan_desc d = round->desc;
	f->dtype = (uint8_t)FAN_DESC_DTYPE(d);
	f->op = (uint8_t)FAN_DESC_OP(d);
	f->count = (uint16_t)FAN_DESC_COUNT(d);
	f->exponent = round->exponent;
	f->flags = (uint16_t)((FAN_DESC_FIRST(d) ? FAN_F_FIRST : 0) |
			      (FAN_DESC_LAST(d) ? FAN_F_LAST : 0) |
			      (FAN_DESC_REDUCE(d) ? FAN_F_REDUCE : 0) |
			      (round->root != FAN_RANK_NONE ? FAN_F_ROOT : 0) |
			      (is_empty(round) ? FAN_F_EMPTY : 0));
	if (f->flags & FAN_F_EMPTY)
		return;
	f->payload_bytes = (size_t)f->count * fan_dtype_bytes(f->dtype);
	if (f->payload_bytes)
		f->payload = fan_pool_acc(w->cfg.relayed, round);
}

int fan_held_unfit(const struct fan_worker *w, const struct fan_frag *f)
{
	const struct fan_round *round = round_of(w, f->frag);
	if (!round || fan_desc_of(f) != round->desc)
		return FAN_DROP_MISMATCH;
	if (f->dtype == FAN_FIXED32 && f->exponent != round->exponent)
		return FAN_DROP_MISMATCH;
	bool reduce = FAN_DESC_REDUCE(round->desc), has_root = round->root != FAN_RANK_NONE;
	bool empty = f->flags & FAN_F_EMPTY;
	if (reduce && has_root && empty)
		return FAN_DROP_DUPLICATE; /* for the others; ours has the payload */
	return empty == (reduce && !has_root) ? -1 : FAN_DROP_MISMATCH;
}

void fan_held_take(const struct fan_worker *w, const struct fan_frag *f)
{
	struct fan_round *round = round_of(w, f->frag);
	if (f->payload_bytes)
		memcpy(fan_pool_acc(w->cfg.relayed, round), f->payload, f->payload_bytes);
	round->state = FAN_ROUND_DONE;
}
