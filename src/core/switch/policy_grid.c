/* SPDX-License-Identifier: Apache-2.0 */
/* policy_grid.c - the data plane of GRID, ToN 2023: first come, first served, and a contribution
 * that finds no slot is dropped.  Its rank gets NEED with COLLISION, makes its window
 * smaller, and sends it again, to the slots.
 *
 * GRID sums a gradient once, so it does not define the fate of sums at a second switch.
 * They go on as under atp: the sum stands for ranks that have long sent it, and whose windows are
 * not what fills the slots here.  Ranks that run ahead send in order and cannot go back: to their
 * jobs the policy is atp. */
#include "policy.h"
#include "routed.h"
#include "switch_priv.h"

static enum fan_verdict unplaced(struct fan_switch *sw, struct fan_switch_job *j,
				 const struct fan_contribution *p, struct fan_out *out)
{
	const fan_peer hop = j->route ? fan_routed_down(sw, j, p->next, p->first)
				      : fan_relay_hop(sw, j, p->first);
	const struct fan_frag need = {
		.frag = p->f->frag,
		.job = j->id,
		.epoch = j->epoch,
		.flags = FAN_F_COLLISION,
		.sender = FAN_RANK_NONE,
		.to = FAN_TAG(p->first),
		.type = FAN_TYPE_NEED,
	};
	if (p->is_sum || fan_peer_is_none(&hop))
		return fan_plain_unplaced(sw, j, p, out);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = hop;
	fan_wire_put(it->head, &need);
	return fan_switch_drop(sw, FAN_DROP_COLLISION);
}

const struct fan_slot_policy fan_policy_grid = {
	.name = "grid",
	.place = fan_plain_place,
	.contest = fan_plain_contest,
	.unplaced = unplaced,
};
