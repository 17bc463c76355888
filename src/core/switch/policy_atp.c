/* SPDX-License-Identifier: Apache-2.0 */
/* policy_atp.c - ATP, NSDI 2021: a slot belongs to the fragment that took it. */
#include "policy.h"

const struct fan_slot_policy fan_policy_atp = {
	.name = "atp",
	.place = fan_plain_place,
	.contest = fan_plain_contest,
	.unplaced = fan_plain_unplaced,
};
