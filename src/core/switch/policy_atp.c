/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"
#include "switch_priv.h"

static enum fan_contest contest(struct fan_switch *sw, const struct fan_switch_job *j,
				struct fan_sslot *slot, const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	(void)slot;
	(void)p;
	return FAN_CONTEST_LOST;
}

const struct fan_slot_policy fan_policy_atp = {.name = "atp", FAN_POLICY_PLAIN, .contest = contest};
