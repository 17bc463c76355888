/* SPDX-License-Identifier: Apache-2.0 */
/* policy_kind.h - numbers of the slot policies, for options, messages and results. */
#ifndef FAN_BASE_POLICY_KIND_H
#define FAN_BASE_POLICY_KIND_H

#include <stdbool.h>

enum fan_policy {
	FAN_POLICY_SWITCHML = 0, /* static pool per job, two versions, replay: aggregator.h */
	FAN_POLICY_ATP = 1,	 /* shared slots, first come first served: policy.h */
	FAN_POLICY_ESA = 2,	 /* shared slots by priority: policy.h */
	FAN_POLICY_GRID = 3,	 /* shared slots; what finds its slot taken is dropped: policy.h */
	FAN_POLICY_COUNT
};

/* Their names, by number, for tables of words. */
#define FAN_POLICY_NAMES "switchml", "atp", "esa", "grid"

static inline const char *fan_policy_name(int policy)
{
	static const char *const name[] = {FAN_POLICY_NAMES};
	return policy >= 0 && policy < FAN_POLICY_COUNT ? name[policy] : "unknown";
}

/* Do all jobs share the slots of such a switch?  `policy`: enum fan_policy, or another number. */
static inline bool fan_policy_shares(int policy)
{
	return policy > FAN_POLICY_SWITCHML && policy < FAN_POLICY_COUNT;
}

#endif
