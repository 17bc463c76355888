/* SPDX-License-Identifier: Apache-2.0 */
/* rails.h - further networks of this host, by which other hosts may be reached as well: rails.
 *
 * A rail is a card that is up and has an address, or what stands for one in a container (veth).
 * Bridges, tunnels and VLANs are none: their packets leave by a card that counts already.
 * Callers find out whether others answer there. */
#ifndef FAN_RAILS_H
#define FAN_RAILS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/out.h"

struct ifaddrs;

struct fan_rail {
	fan_peer at;	      /* its address, without a port */
	unsigned prefix_bits; /* of these 128: what all of its network share */
	int32_t mbps;	      /* of its card; 0: none */
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

/* The rate of a host's link, by its card or its user.
 *
 * Only cards count: interfaces that are no devices (veth, bridges, tunnels) name rates that no link
 * has.  A shaper, a provider's limit or a narrower link further on shows nowhere; FANIN_LINK_MBPS
 * declares those. */

#define FAN_LINK_MBPS_MAX 4000000 /* Mb/s */

/* The rate in Mb/s of the link towards `at`, which may be an address of this host; 0: not known. */
int32_t fan_link_rate_to(const fan_peer *at);

/* That of the interface whose folder in sysfs is `folder`. */
int32_t fan_link_rate_of(const char *folder);

/* The rate that `text` has, NULL: none.  0: it has none; -1: it is no rate. */
int32_t fan_link_rate_parse(const char *text);

#endif
