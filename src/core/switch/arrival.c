/* SPDX-License-Identifier: Apache-2.0 */
#include "arrival.h"

/* Some of what a neighbour below has sent has not come, though later ones: ask for it.  `to`: its
 * rank, if it is a worker. */
static void ask_numbers(const struct fan_switch_job *j, const struct fan_peer *from, uint16_t to,
			const struct fan_seq_gap *gap, uint64_t missing, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	const struct fan_frag h = {
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.to = FAN_TAG(to),
		.missing = missing,
		.last = gap->last,
		.type = FAN_TYPE_MISS,
	};
	it->peer = *from;
	fan_wire_put(it->head, &h);
}

void fan_arrival_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *from,
		      const struct fan_frag *f, uint16_t rank, struct fan_out *out)
{
	int below = j->route ? fan_route_find(j->route, from) : -1;
	struct fan_seq_gap *gap = below < 0 ? NULL : &j->gap[below];
	uint16_t to = FAN_RANK_NONE;
	if (!gap && !j->child[rank])
		return;
	if (!gap) {
		struct fan_child *c = &sw->children[j->child[rank] - 1];
		bool is_worker = !fan_peer_token(&c->peer);
		if (is_worker && (f->helper || f->type == FAN_TYPE_PARTIAL))
			return; /* these have no numbers */
		to = is_worker ? rank : FAN_RANK_NONE;
		gap = is_worker ? &c->gap : &sw->children[c->gap_of - 1].gap;
	}
	uint64_t missing = fan_seq_gap_heard(gap, f->seq);
	if (!missing)
		return;
	ask_numbers(j, from, to, gap, missing, out);
	sw->stats.misses++;
}
