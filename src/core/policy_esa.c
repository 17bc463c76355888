/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_shared.h"

/* Between fragments of one job: by how much the higher must lead, two doublings.  Its later
 * fragments have less left and so a little more priority, but to drive out one's own sums for
 * that gains nothing; another layer does. */
#define OWN_LEAD 16

enum fan_contest fan_policy_esa(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				const struct fan_frag *f)
{
	bool own = slot->job == f->job && slot->epoch == f->epoch;
	bool higher = !(cfg->options & FAN_SHARED_NO_PRIORITIES) &&
		      f->priority > slot->priority + (own ? OWN_LEAD : 0);
	if (higher && !(cfg->options & FAN_SHARED_NO_PREEMPTION))
		return FAN_CONTEST_WON;
	if (!(cfg->options & FAN_SHARED_NO_AGEING))
		slot->priority /= 2;
	return FAN_CONTEST_LOST;
}
