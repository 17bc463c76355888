/* SPDX-License-Identifier: Apache-2.0 */
/* next_hop.h - the path to an address, as this machine's own interfaces and routes have it, apart
 * from what ICMP messages have told its kernel, which anybody can send. */
#ifndef FAN_NEXT_HOP_H
#define FAN_NEXT_HOP_H

#include <stdbool.h>

#include "core/base/out.h"

struct fan_next_hop {
	/* index of the one that leads there; 0: not known, there may be no route */
	unsigned interface;
	/* of it, or of its route if an administrator has given that a smaller one; 0: not known */
	int mtu;
	bool redirected; /* an ICMP message has led it by another gateway */
	bool by_gateway; /* it has one */
	fan_peer gateway;
	/* what the kernel believes instead, since an ICMP message said so; 0: nothing */
	int told_mtu;
};

/* Sends nothing. */
void fan_next_hop_read(struct fan_next_hop *p, const fan_peer *to);

#endif
