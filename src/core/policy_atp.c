/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_shared.h"

enum fan_contest fan_policy_atp(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				const struct fan_frag *f)
{
	(void)cfg;
	(void)slot;
	(void)f;
	return FAN_CONTEST_LOST;
}
