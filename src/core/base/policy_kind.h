/* SPDX-License-Identifier: Apache-2.0 */
/* policy_kind.h - numbers of the slot policies, for options, messages and results. */
#ifndef FAN_BASE_POLICY_KIND_H
#define FAN_BASE_POLICY_KIND_H

#include <stdbool.h>

/* Policies for slots that jobs share: the object fan_policy_NAME of core/switch/policy_NAME.c,
 * which the build finds by its line here.  New ones go to the end: numbers stand in messages.
 * ATP: first come, first served; ESA: by priority; GRID: what finds its slot taken is dropped. */
#define FAN_SHARED_POLICIES(X)                                                                     \
	X(ATP, atp)                                                                                \
	X(ESA, esa)                                                                                \
	X(GRID, grid)                                                                              \
	/* and so on: doc/extend.md */

enum fan_policy {
	FAN_POLICY_SWITCHML = 0, /* static pool per job, two versions, replay: aggregator.h */
#define FAN_X(NUMBER, name) FAN_POLICY_##NUMBER,
	FAN_SHARED_POLICIES(FAN_X)
#undef FAN_X
		FAN_POLICY_COUNT
};

/* Their names, by number, for tables of words. */
#define FAN_POLICY_NAME_(NUMBER, name) , #name
#define FAN_POLICY_NAMES	       "switchml" FAN_SHARED_POLICIES(FAN_POLICY_NAME_)

/* Do all jobs share the slots of such a switch?  `policy`: enum fan_policy, or another number. */
static inline bool fan_policy_shares(int policy)
{
	return policy > FAN_POLICY_SWITCHML && policy < FAN_POLICY_COUNT;
}

#endif
