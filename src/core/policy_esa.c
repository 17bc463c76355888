/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_shared.h"

enum fan_contest fan_policy_esa(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				const struct fan_frag *f)
{
	bool higher = !(cfg->options & FAN_SHARED_NO_PRIORITIES) && f->priority > slot->priority;
	if (higher && !(cfg->options & FAN_SHARED_NO_PREEMPTION))
		return FAN_CONTEST_WON;
	if (!(cfg->options & FAN_SHARED_NO_AGEING))
		slot->priority /= 2;
	return FAN_CONTEST_LOST;
}
