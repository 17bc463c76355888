/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - one direction of a cable: rate, delay, a finite queue, and its faults.
 *
 * Packets leave in order, so the time at which a packet will arrive, and the bytes before it, are
 * known as soon as it is handed over: a packet is one entry in a ring, and one event.  Time on the
 * wire is kept in picoseconds, since a packet takes 118.6 ns at 100 Gb/s. */
#ifndef FAN_SIM_LINK_H
#define FAN_SIM_LINK_H

#include "core/base/rng.h"
#include "packet.h"

#define FAN_LINK_QUEUE_MAX UINT32_C(0x7fffffff) /* bytes */
#define FAN_LINK_NO_ROOM   UINT64_MAX
#define FAN_LINK_RING_MAX  UINT32_C(0x08000000) /* packets on one link */

/* The faults of a link.  Chances are in millionths, for each packet. */
struct fan_sim_fault {
	uint32_t loss;
	uint32_t burst;	    /* chance that a loss is followed by others for burst_ns */
	uint32_t duplicate; /* arrives once more, up to reorder_ns later */
	uint32_t reorder;   /* is up to reorder_ns late, and others pass it */
	uint32_t corrupt;   /* is cut, lengthened, or has bits flipped */
	uint64_t burst_ns, reorder_ns;
	uint64_t jitter_ns; /* every packet is late by up to this, in order */
};

struct fan_link_config {
	uint64_t bps; /* 0: packets take no time and no room in the queue */
	uint64_t delay_ns;
	uint32_t queue_bytes; /* what does not fit is dropped; includes the packet in service */
	uint32_t ecn_bytes; /* packets that find more than this before them are marked; 0: never */
	uint32_t overhead_bytes; /* of each packet: the lower layers and the gap between frames */
	struct fan_sim_fault fault;
};

/* A packet in flight. */
struct fan_link_entry {
	uint64_t at_ns; /* when it arrives */
	uint32_t node;	/* where a packet that has left its link arrives */
	struct fan_sim_packet packet;
};

struct fan_link_stats {
	uint64_t packets, bytes;	 /* carried, overhead included */
	uint64_t overflows;		 /* dropped: the queue was full */
	uint64_t lost, damaged, doubled; /* faults; damaged packets may have arrived */
	uint64_t marked;
	uint64_t queue_max_ps; /* a packet's longest wait for those before it */
};

struct fan_sim_link {
	uint64_t busy_ps;  /* when it will have sent all that it has */
	uint64_t byte_q16; /* picoseconds for a byte, in units of 1/65536 */
	uint64_t queue_ps; /* queue_bytes, as time */
	uint64_t ecn_ps;   /* ecn_bytes, as time; UINT64_MAX: never */
	uint64_t delay_ns;
	uint32_t overhead_bytes;
	bool faulty;		    /* has faults: off the fast path */
	bool down;		    /* carries nothing */
	uint32_t head, count, room; /* the ring; room is a power of two */
	struct fan_link_entry *ring;
	uint64_t key;	   /* of its event in the heap; 0: none */
	uint32_t from, to; /* nodes */
	uint64_t burst_until_ns, last_ns;
	struct fan_rng rng;
	struct fan_link_config cfg;
	struct fan_link_stats stats;
};

void fan_link_init(struct fan_sim_link *l, const struct fan_link_config *cfg, uint32_t from,
		   uint32_t to, struct fan_rng rng);
void fan_link_free(struct fan_sim_link *l, struct fan_body_pool *pool);

/* When a packet of `len` bytes, handed over at `now_ns`, will have arrived, or FAN_LINK_NO_ROOM
 * (counted).  With `own` it is the sender's own: it waits in the sender's sockets rather than be
 * dropped, so there is always room.  `*marked`: it found a long queue. */
uint64_t fan_link_take(struct fan_sim_link *l, uint64_t now_ns, uint16_t len, bool own,
		       bool *marked);

/* Add the packet behind those in flight; false: out of memory. */
bool fan_link_push(struct fan_sim_link *l, const struct fan_link_entry *e);

static inline struct fan_link_entry *fan_link_first(struct fan_sim_link *l)
{
	return &l->ring[l->head & (l->room - 1)];
}

/* Send at another rate from now on, also what has not left yet.  The caller must read the first
 * entry's time again. */
void fan_link_set_rate(struct fan_sim_link *l, uint64_t now_ns, uint64_t bps);

/* Bytes that wait or are being sent at `now_ns`. */
uint64_t fan_link_queued_bytes(const struct fan_sim_link *l, uint64_t now_ns);

/* Does the checksum in a datagram's header cover its payload as well? */
bool fan_fault_is_covered(const uint8_t *head);

bool fan_fault_any(const struct fan_sim_fault *f);

/* Damage the datagram of `*len` bytes at `p`, which has room for FAN_FAULT_LONGER more.  False: a
 * checksum of the lower layers would have noticed, so the packet is lost.  The header has a
 * checksum of its own, so it passes damaged, and so does a payload that this checksum covers. */
#define FAN_FAULT_LONGER 16
bool fan_fault_damage(struct fan_rng *r, uint8_t *p, uint16_t *len);

#endif
