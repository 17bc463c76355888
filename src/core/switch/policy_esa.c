/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"
#include "switch_priv.h"

/* Between fragments of one job: the margin of the higher, two doublings.  Its later
 * fragments have less left and so a little more priority, but to drive out one's own sums for
 * that gains nothing; another layer does. */
#define OWN_MARGIN 16

static enum fan_contest contest(struct fan_switch *sw, const struct fan_switch_job *j,
				struct fan_sslot *slot, const struct fan_contribution *p)
{
	unsigned options = sw->cfg.options;
	bool own = slot->job == j->id && slot->epoch == j->epoch;
	bool left = slot->state == FAN_SSLOT_SENT; /* no contribution is lost */
	int held = left ? 0 : slot->priority + (own ? OWN_MARGIN : 0);
	bool higher = !(options & FAN_SWITCH_NO_PRIORITIES) && p->f->priority > held;
	if (higher && !(options & FAN_SWITCH_NO_PREEMPTION))
		return FAN_CONTEST_WON;
	if (!(options & FAN_SWITCH_NO_AGEING))
		slot->priority /= 2;
	return FAN_CONTEST_LOST;
}

const struct fan_slot_policy fan_policy_esa = {
	.name = "esa",
	.place = fan_plain_place,
	.contest = contest,
	.unplaced = fan_plain_unplaced,
};
