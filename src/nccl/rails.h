/* SPDX-License-Identifier: Apache-2.0 */
/* rails.h - the network interfaces that NCCL is offered as devices, a rail each.
 *
 * Interfaces that are up and have an address, in the kernel's order: those that NCCL_SOCKET_IFNAME
 * names ("eth,ib": those that begin so; "=eth0": exactly; "^docker": all others); without it those
 * of InfiniBand ("ib"), else all but the loopback, Docker's and virtual bridges (virbr), else
 * these. They are looked at once in a process, because NCCL keeps a device by its number.
 */
#ifndef FAN_NCCL_RAILS_H
#define FAN_NCCL_RAILS_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/out.h"

#define FAN_NCCL_RAILS_MAX	 16
#define FAN_NCCL_PATH_BYTES	 256
#define FAN_NCCL_RAIL_SPEED_MBPS 10000 /* of an interface that tells none, as NCCL has it */

struct fan_nccl_rail {
	char name[IF_NAMESIZE];
	char pci_path[FAN_NCCL_PATH_BYTES]; /* in /sys; "": it is no card */
	uint64_t guid;
	fan_peer at;	      /* IPv4, or IPv6 if it has no other; port 0 */
	unsigned prefix_bits; /* of `at`: those that all of its network share */
	int speed_mbps;
};

/* How many there are; 0: none. */
int fan_nccl_rails(void);

/* Rail `dev`; NULL: there is none. */
const struct fan_nccl_rail *fan_nccl_rail(int dev);

/* Is `to` in the network of another rail, and not in that of `rail`?  Then the kernel's routes say
 * how it is reached: what came from this rail's address would enter the peer where it does not
 * expect it, and strict reverse-path filters drop that. */
bool fan_nccl_rail_is_beside(const struct fan_nccl_rail *rail, const fan_peer *to);

#endif
