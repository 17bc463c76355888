/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.h - what the kernel knows of this machine's network: the path to an address, and what
 * interfaces receive. */
#ifndef FAN_NETLINK_H
#define FAN_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "udp.h"

/* The rate at which others than this daemon receive by interfaces of its host.
 *
 * The kernel counts an interface's bytes, and the daemon's sockets their own (udp.h: fan_inlets);
 * the rest is others'.  It is a mean over FAN_CROSS_TRAFFIC_SAMPLES samples, so that datagrams in
 * sockets' queues between two of them make no load. */

#define FAN_CROSS_TRAFFIC_SAMPLES                                                                  \
	8 /* of the mean, each FAN_CROSS_TRAFFIC_MS after the one before, or more */
#define FAN_CROSS_TRAFFIC_KNOWN 4   /* from so many on there is one */
#define FAN_CROSS_TRAFFIC_MS	200 /* between two samples at least */

struct fan_cross_traffic {
	unsigned count;
	struct fan_cross_source {
		unsigned index;	   /* of the interface */
		bool wanted;	   /* by a neighbour */
		bool reported;	   /* by the kernel, in this turn */
		uint64_t received; /* bytes */
		unsigned samples;  /* so far; number i at i % (FAN_CROSS_TRAFFIC_SAMPLES + 1) */
		struct {
			uint64_t at_ns, bytes; /* that are others', modulo 2^64 */
		} sample[FAN_CROSS_TRAFFIC_SAMPLES + 1];
	} of[FAN_INLETS_MAX];
	uint64_t overflows; /* of sockets' queues, as of the last turn */
};

/* Begin a turn by the kernel's counters, before the sockets' are read.  Forget interfaces that are
 * not in `index`, `count` of them; 0 is none.  Interfaces without room are not measured. */
void fan_cross_traffic_begin(struct fan_cross_traffic *o, const unsigned *index, unsigned count);

/* End it by the sockets' counters.  Lost packets count for nobody, so the mean begins anew after
 * `overflows` more of the sockets' queues. */
void fan_cross_traffic_end(struct fan_cross_traffic *o, uint64_t now_ns,
			   const struct fan_inlets *own, uint64_t overflows);

/* Gb/s that others receive by an interface, 0 or more; -1: not known. */
double fan_cross_traffic_gbps(const struct fan_cross_traffic *o, unsigned index);

/* The path to an address, as this machine's own interfaces and routes have it, apart
 * from ICMP messages, which anybody can send. */

struct fan_next_hop {
	/* index of the one that leads there; 0: not known, there may be no route */
	unsigned interface;
	/* of it, or of its route if an administrator has given that a smaller one; 0: not known */
	int mtu;
	bool redirected; /* an ICMP message has led it by another gateway */
	bool by_gateway; /* it has one */
	fan_peer gateway;
	/* the kernel's value instead, from an ICMP message; 0: none */
	int told_mtu;
};

/* Sends nothing. */
void fan_next_hop_read(struct fan_next_hop *p, const fan_peer *to);

#endif
