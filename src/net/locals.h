/* SPDX-License-Identifier: Apache-2.0 */
/* locals.h - the local address to which each peer sends.
 *
 * A socket on every interface receives datagrams for any address of the machine, but the
 * kernel answers from the one that the route prefers, which a peer that uses another one
 * ignores.  So such a socket stores here the address that each peer uses.
 *
 * A set-associative table of fixed size: in a full set the peer that has been silent the
 * longest is replaced.  For a peer that is not in the table the kernel chooses. */
#ifndef FAN_LOCALS_H
#define FAN_LOCALS_H

#include "core/base/out.h"

#define FAN_LOCALS_SETS 512 /* times FAN_LOCALS_WAYS: twice FAN_MEMBERS_MAX */
#define FAN_LOCALS_WAYS 8

struct fan_local {
	fan_peer peer;
	uint64_t addr[2];  /* as in fan_peer; zero: free */
	uint64_t heard_at; /* `puts` of the table at its last datagram */
};

struct fan_locals {
	uint64_t puts;
	struct fan_local place[FAN_LOCALS_SETS][FAN_LOCALS_WAYS];
};

/* Note that `peer` has sent to the local address `addr`. */
void fan_locals_put(struct fan_locals *t, const fan_peer *peer, const uint64_t addr[2]);

/* The local address for `peer`, valid until the next put; NULL: not known. */
const uint64_t *fan_locals_get(const struct fan_locals *t, const fan_peer *peer);

/* Remove `peer`: its address no longer exists. */
void fan_locals_forget(struct fan_locals *t, const fan_peer *peer);

#endif
