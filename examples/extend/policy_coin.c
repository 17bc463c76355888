/* SPDX-License-Identifier: Apache-2.0 */
/* policy_coin.c - who finds a slot taken tosses a coin for it.
 *
 * An example of a policy: doc/extend.md.  As in all of src/core there is no clock and no random
 * number: the coin is a hash of who meets whom, so that a run can be run again. */
#include "policy.h"

static enum fan_contest contest(struct fan_switch *sw, const struct fan_switch_job *j,
				struct fan_sslot *slot, const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	uint64_t toss = (slot->frag << 32 ^ p->f->frag ^ p->f->job) * UINT64_C(0x9e3779b97f4a7c15);
	return toss >> 63 ? FAN_CONTEST_WON : FAN_CONTEST_LOST;
}

const struct fan_slot_policy fan_policy_coin = {
	.name = "coin",
	.place = fan_plain_place,
	.contest = contest,
	.unplaced = fan_plain_unplaced,
};
