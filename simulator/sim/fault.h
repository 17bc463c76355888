/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - what a link does to packets that it should not. */
#ifndef FAN_SIM_FAULT_H
#define FAN_SIM_FAULT_H

#include "core/base/rng.h"
#include "packet.h"

/* Chances are in millionths, for each packet. */
struct fan_sim_fault {
	uint32_t loss;
	uint32_t burst;	    /* of a loss: that all further ones are lost for burst_ns */
	uint32_t duplicate; /* arrives once more, up to reorder_ns later */
	uint32_t reorder;   /* is up to reorder_ns late, and others pass it */
	uint32_t corrupt;   /* is cut, lengthened, or has bits flipped */
	uint64_t burst_ns, reorder_ns;
	uint64_t jitter_ns; /* every packet is late by up to this, in order */
};

/* Does the check in a datagram's header cover its payload as well? */
bool fan_fault_is_covered(const uint8_t *head);

bool fan_fault_any(const struct fan_sim_fault *f);

/* Damage the datagram of `*len` bytes at `p`, which has room for FAN_FAULT_LONGER more.
 * A checksum in the lower layers would notice most of it: then false, and the packet is
 * lost.  The header has a checksum of its own and is let through damaged, and so is the
 * payload where that covers it as well. */
#define FAN_FAULT_LONGER 16
bool fan_fault_damage(struct fan_rng *r, uint8_t *p, uint16_t *len);

#endif
