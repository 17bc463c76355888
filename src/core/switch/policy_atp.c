/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

const struct fan_slot_policy fan_policy_atp = {
	.name = "atp",
	.place = fan_plain_place,
	.contest = fan_plain_contest,
	.unplaced = fan_plain_unplaced,
};
