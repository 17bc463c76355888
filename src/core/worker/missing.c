/* SPDX-License-Identifier: Apache-2.0 */
/* missing.c - a worker that will hear no more from its aggregator: what it lacks, and what results
 * that other ranks have still give it. */
#include <assert.h>

#include "transfer.h"
#include "worker_priv.h"

uint64_t fan_worker_awaits(const struct fan_worker *w, uint32_t slot)
{
	assert(slot < w->window.size);
	return w->window.slot[slot].frag;
}

bool fan_worker_supply(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt, size_t len)
{
	struct fan_frag f;
	bool ours = fan_wire_get(&f, pkt, len) < 0 && f.type == FAN_TYPE_RESULT && w->welcomed &&
		    fan_worker_is_job(w, f.job) && f.epoch == w->epoch;
	return ours && fan_transfer_supply(w, now_ns, &f) == FAN_DONE;
}

/* The fragment that carries the elements of block `block`. */
static uint64_t frag_of_block(const struct fan_stream_op *s, uint64_t block)
{
	if (!s->groups)
		return s->first + block;
	return fan_stream_group_data(s, s->group_first + block / s->per_group) +
	       block % s->per_group;
}

bool fan_worker_next_missing(const struct fan_worker *w, uint64_t id, struct fan_missing *r)
{
	const struct fan_stream_op *s = &w->op[id % FAN_OPS_MAX];
	uint64_t first, end;
	if (id < w->first_op || id >= w->next_op || !s->left)
		return false;
	for (first = r->block; first < s->blocks; first++)
		if (w->window.slot[frag_of_block(s, first) % w->window.size].frag <=
		    frag_of_block(s, first))
			break;
	for (end = first; end < s->blocks; end++)
		if (w->window.slot[frag_of_block(s, end) % w->window.size].frag >
		    frag_of_block(s, end))
			break;
	r->block = end;
	r->first = first * s->per_frag;
	r->end = end * s->per_frag < s->op.count ? end * s->per_frag : s->op.count;
	return first < end;
}
