/* SPDX-License-Identifier: Apache-2.0 */
/* rails.h - further networks of this host, by which other hosts may be reached as well: rails.
 *
 * A rail is a card that is up and has an address, or what stands for one in a container (veth).
 * Bridges, tunnels and VLANs are none: what goes there leaves by a card that counts already.
 * Whether others are reached by it, and answer, is theirs to find out who use it. */
#ifndef FAN_RAILS_H
#define FAN_RAILS_H

#include "core/base/out.h"

struct ifaddrs;

struct fan_rail {
	fan_peer at;	      /* its address, without a port */
	unsigned prefix_bits; /* of these 128: what all of its network share */
	int32_t mbps;	      /* that its card tells; 0: none */
};

/* The rails beside that of the local address `first`, of its family, in the kernel's order; how
 * many, at most `max`.  Cards of less than 1 / FAN_RAILS_SLOW of its rate are left out. */
#define FAN_RAILS_SLOW 8
unsigned fan_rails_beside(const fan_peer *first, struct fan_rail *rails, unsigned max);

/* The bits of the interface's address that all of its network share, of the 128 of a fan_peer; 128
 * where that is not known. */
unsigned fan_rails_prefix(const struct ifaddrs *i);

/* Are `a` and `b` in one network of `prefix_bits`? */
bool fan_rails_are_near(const fan_peer *a, const fan_peer *b, unsigned prefix_bits);

#endif
