/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - the policies by number, and what they have in common: slots by hash, or in a stretch
 * of the job's own. */
#include "policy.h"

#include "switch_priv.h"

const struct fan_slot_policy *fan_slot_policy(enum fan_policy number)
{
	static const struct fan_slot_policy *const policy[FAN_POLICY_COUNT] = {
#define FAN_X(NUMBER, name) [FAN_POLICY_##NUMBER] = &fan_policy_##name,
		FAN_SHARED_POLICIES(FAN_X)
#undef FAN_X
	};
	assert(fan_policy_shares((int)number));
	return policy[number];
}

struct fan_sslot *fan_plain_place(const struct fan_switch *sw, const struct fan_switch_job *j,
				  const struct fan_frag *f)
{
	if (j->own.count)
		return fan_sslots_in_line(&sw->slots, f->frag, j->window, j->own);
	return fan_sslots_at(&sw->slots, f, j->window);
}

/* First come, first served. */
enum fan_contest fan_plain_contest(struct fan_switch *sw, const struct fan_switch_job *j,
				   struct fan_sslot *slot, const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	(void)slot;
	(void)p;
	return FAN_CONTEST_LOST;
}

enum fan_verdict fan_plain_unplaced(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_contribution *p, struct fan_out *out)
{
	return fan_switch_pass_unaggregated(sw, j, p, FAN_F_COLLISION, out);
}
