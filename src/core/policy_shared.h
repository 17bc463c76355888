/* SPDX-License-Identifier: Apache-2.0 */
/* policy_shared.h - who may have a slot that another fragment holds.
 *
 * atp (ATP, NSDI'21): nobody; first come, first served.
 * esa (ESA, arXiv 2201.06398): who has a higher priority than the slot, and the slot's
 * priority is halved by each that has not, so that what is stale gives way in the end.
 * Fragments of the slot's own job do neither, unless they lead by far. */
#ifndef FAN_POLICY_SHARED_H
#define FAN_POLICY_SHARED_H

#include "shared.h"
#include "shared_slot.h"

enum fan_contest {
	FAN_CONTEST_LOST, /* the part goes up unsummed */
	FAN_CONTEST_WON,  /* what is in the slot goes up, and the part takes it */
};

/* The part `f` meets the slot of another key, which holds something. */
enum fan_contest fan_policy_atp(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				const struct fan_frag *f);
enum fan_contest fan_policy_esa(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				const struct fan_frag *f);

#endif
