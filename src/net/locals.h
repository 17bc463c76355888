/* SPDX-License-Identifier: Apache-2.0 */
/* locals.h - which of our addresses a peer has sent to.
 *
 * A socket on every interface hears what comes to any address of the machine, but the
 * kernel answers from the one that the route prefers.  A peer that asked another takes no
 * answer from it.  So such a socket remembers here for whom it is what.
 *
 * A table of a fixed size: sets of a few places, and where a set is full the peer that
 * has been silent the longest gives way.  For a peer that is not there the kernel chooses,
 * as it would for all. */
#ifndef FAN_LOCALS_H
#define FAN_LOCALS_H

#include "core/base/out.h"

#define FAN_LOCALS_SETS 512 /* with the ways: twice FAN_MEMBERS_MAX */
#define FAN_LOCALS_WAYS 8

struct fan_local {
	fan_peer peer;
	uint64_t addr[2];  /* as in fan_peer; zero: the place is free */
	uint64_t heard_at; /* `puts` of the table when it was heard last */
};

struct fan_locals {
	uint64_t puts;
	struct fan_local place[FAN_LOCALS_SETS][FAN_LOCALS_WAYS];
};

/* `peer` has sent to our address `addr`. */
void fan_locals_put(struct fan_locals *t, const fan_peer *peer, const uint64_t addr[2]);

/* Our address for `peer`, valid until the next put; NULL: not known. */
const uint64_t *fan_locals_get(const struct fan_locals *t, const fan_peer *peer);

/* The address has gone: let the kernel choose for `peer`. */
void fan_locals_forget(struct fan_locals *t, const fan_peer *peer);

#endif
