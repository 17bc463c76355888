/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

const struct fan_slot_policy fan_policy_atp = {
	.name = "atp",
	FAN_POLICY_PLAIN,
	.contest = fan_plain_contest,
};
