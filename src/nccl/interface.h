/* SPDX-License-Identifier: Apache-2.0 */
/* interface.h - the network interfaces that NCCL is offered as its devices.
 *
 * Interfaces that are up and have an address, in the kernel's order: those that NCCL_SOCKET_IFNAME
 * names ("eth,ib": those that begin so; "=eth0": exactly; "^docker": all others); without it those
 * of InfiniBand ("ib"), else all but the loopback, Docker's and virtual bridges (virbr), else
 * these.  NCCL's own sockets choose so; net/rails.h has the rule of jobs whose hosts sum.  They are
 * looked at once in a process, because NCCL keeps a device by its number. */
#ifndef FAN_NCCL_INTERFACE_H
#define FAN_NCCL_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/out.h"

#define FAN_NCCL_INTERFACES_MAX 16
#define FAN_NCCL_PATH_BYTES	256
#define FAN_NCCL_INTERFACE_MBPS 10000 /* of an interface that tells none, as NCCL has it */

struct fan_nccl_interface {
	char name[IF_NAMESIZE];
	char pci_path[FAN_NCCL_PATH_BYTES]; /* in /sys; "": it is no card */
	uint64_t guid;
	fan_peer at;	      /* IPv4, or IPv6 if it has no other; port 0 */
	unsigned prefix_bits; /* of `at`: those that all of its network share */
	int speed_mbps;
};

/* How many there are; 0: none. */
int fan_nccl_interfaces(void);

/* Number `dev`; NULL: there is none. */
const struct fan_nccl_interface *fan_nccl_interface(int dev);

/* Is `to` in the network of another interface, and not in that of this one?  Then the kernel's
 * routes say how it is reached: what came from this interface's address would enter the peer where
 * it does not expect it, and strict reverse-path filters drop that. */
bool fan_nccl_interface_is_beside(const struct fan_nccl_interface *interface, const fan_peer *to);

#endif
