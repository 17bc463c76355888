/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - models of all-reduces by the workers themselves, to compare with.
 *
 * By ring, n workers each pass a tensor's n parts on to the next one, 2(n - 1) times: a part is
 * summed on its first round and distributed on its second.  Packets are passed on as they come.
 * Nothing is lost or acknowledged, and adding takes no time.  Buckets are reduced one after the
 * other.
 *
 * Along a binary tree, rank r's parent is (r - 1) / 2: a packet goes up when those of both children
 * have come, and its sum down from rank 0, while others are still on their way up.
 *
 * By rings on two levels, the ranks of a rack (the hosts at one switch) reduce by a ring, then the
 * first of each rack by another, and that one passes the sum on along its rack as it comes. */
#ifndef FAN_SIM_RING_H
#define FAN_SIM_RING_H

#include "world.h"

struct fan_ring_note { /* a packet that came before this worker was ready for it */
	uint64_t bucket;
	uint32_t step;
	uint16_t len;
};

/* A place in a ring. */
struct fan_ring_seat {
	uint32_t rank, ranks;
	uint32_t next; /* the job's rank, or as struct fan_ring has it the actor, that is sent to */
};

struct fan_ring {
	struct fan_sim *sim;
	uint32_t actor, next; /* itself, and who it sends to */
	uint16_t rank, ranks, payload_bytes;
	uint64_t bucket;	/* that is being reduced, or will be next */
	bool busy;		/* it is being reduced */
	uint64_t elems;		/* of it */
	uint64_t missing_bytes; /* of it, still to come */
	bool tree;		/* in place of a ring: */
	uint32_t up, down[2];	/* parent, unless it is rank 0, and children */
	uint32_t children;
	uint32_t window; /* packets going up and down again, of a rank without children */
	uint32_t sent;	 /* by such a rank, of the bucket */
	uint32_t *came;	 /* by packet of the bucket: children whose part is there */
	bool levels;	 /* two of rings, in place of one: */
	bool raised;	 /* the bucket is between the racks */
	struct fan_ring_seat rack, among; /* `among` racks counts where rack.rank is 0 */
	uint64_t among_bytes, down_bytes; /* still to come from other racks; along its own */
	struct fan_ring_note *note;
	uint32_t notes, notes_room;
};

void fan_ring_free(struct fan_ring *r);

/* The place of `rank` in its rack, and of that among the racks; among->rank counts if it is the
 * first of its rack.  False: out of memory. */
bool fan_ring_seats(const struct fan_sim *s, const uint32_t *host, uint32_t ranks, uint32_t rank,
		    struct fan_ring_seat *rack, struct fan_ring_seat *among);

/* Begin to reduce the next bucket, of `elems` float32.  It may be done at once. */
void fan_ring_start(struct fan_ring *r, uint64_t elems);

/* Take what another sent. */
void fan_ring_recv(struct fan_ring *r, const struct fan_sim_packet *p);

/* Has the bucket that was started last been reduced? */
static inline bool fan_ring_done(const struct fan_ring *r)
{
	return !r->busy;
}

#endif
