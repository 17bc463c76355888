/* SPDX-License-Identifier: Apache-2.0 */
/* policy_kind.h - numbers of the slot policies, for options, messages and results. */
#ifndef FAN_BASE_POLICY_KIND_H
#define FAN_BASE_POLICY_KIND_H

enum fan_policy {
	FAN_POLICY_SWITCHML = 0, /* static pool per job, two versions, replay: aggregator.h */
	FAN_POLICY_ATP = 1,	 /* shared slots, first come first served: policy.h */
	FAN_POLICY_ESA = 2,	 /* shared slots by priority: policy.h */
	FAN_POLICY_COUNT
};

#endif
