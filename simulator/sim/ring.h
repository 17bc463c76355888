/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - models of all-reduces by the workers themselves, for comparison.
 *
 * In a ring, each of n workers passes a tensor's n parts on to the next one, 2(n - 1) times: a part
 * is summed on its first round and distributed on its second.  Packets are passed on as they
 * arrive.  Nothing is lost or acknowledged, and adding takes no time.  Buckets are reduced one
 * after another.
 *
 * In a binary tree, rank r's parent is (r - 1) / 2: a packet goes up when those of both children
 * have arrived, and its sum comes down from rank 0 while others are still on their way up.
 *
 * In rings on two levels, the ranks of a rack (the hosts at one switch) reduce in one ring, then
 * the first ranks of all racks in another, and each of these passes the sum on along its rack. */
#ifndef FAN_SIM_RING_H
#define FAN_SIM_RING_H

#include "world.h"

struct fan_ring_note { /* a packet that arrived before this worker was ready for it */
	uint64_t bucket;
	uint32_t step;
	uint16_t len;
};

/* A place in a ring. */
struct fan_ring_seat {
	uint32_t rank, ranks;
	uint32_t next; /* the rank that it sends to; in struct fan_ring, the actor */
};

struct fan_ring {
	struct fan_sim *sim;
	uint32_t actor, next; /* itself, and the one it sends to */
	uint16_t rank, ranks, payload_bytes;
	uint16_t elem_bytes;	/* of an element on the wire */
	uint64_t bucket;	/* the one that is being reduced, or will be next */
	bool busy;		/* the bucket is being reduced */
	uint64_t elems;		/* of the bucket */
	uint64_t missing_bytes; /* of the bucket, still to arrive */
	bool tree;		/* by a tree in place of a ring: */
	uint32_t up, down[2];	/* the parent, which rank 0 does not have, and the children */
	uint32_t children;
	uint32_t window; /* packets that a rank without children has on the way up and down */
	uint32_t sent;	 /* packets of the bucket that such a rank has sent */
	uint32_t *came;	 /* by packet of the bucket: children whose parts are here */
	bool levels;	 /* by rings on two levels in place of one: */
	bool raised;	 /* the bucket is being summed among the racks */
	struct fan_ring_seat rack, among; /* `among` counts only where rack.rank is 0 */
	uint64_t among_bytes, down_bytes; /* still to arrive: from other racks; along its own */
	struct fan_ring_note *note;
	uint32_t notes, notes_room;
};

void fan_ring_free(struct fan_ring *r);

/* The places of `rank` in its rack and of its rack among the racks; among->rank is valid for the
 * first rank of a rack.  False: out of memory. */
bool fan_ring_seats(const struct fan_sim *s, const uint32_t *host, uint32_t ranks, uint32_t rank,
		    struct fan_ring_seat *rack, struct fan_ring_seat *among);

/* Begin to reduce the next bucket, of `elems` elements.  It may end at once. */
void fan_ring_start(struct fan_ring *r, uint64_t elems);

/* Handle a packet from another worker. */
void fan_ring_recv(struct fan_ring *r, const struct fan_sim_packet *p);

#endif
