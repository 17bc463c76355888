/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - models of all-reduces by the workers themselves, to compare with.
 *
 * By ring,
 * n workers each pass a tensor's n parts on to the next one, 2(n - 1) times: a part is summed on
 * its first round and handed out on its second.  Packets are passed on as they come.  The models
 * are kind: nothing is lost, nothing is acknowledged, and adding takes no time.  Buckets are
 * reduced one after the other.
 *
 * Along a binary tree, rank r's parent is (r - 1) / 2: a packet goes up when those of both children
 * have come, and its sum down from rank 0, while others are still on their way up. */
#ifndef FAN_SIM_RING_H
#define FAN_SIM_RING_H

#include "world.h"

struct fan_ring_note { /* a packet that came before this worker was ready for it */
	uint64_t bucket;
	uint32_t step;
	uint16_t len;
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
	uint32_t window; /* packets on their way up and down again, of a rank without children */
	uint32_t sent;	 /* by such a rank, of the bucket */
	uint32_t *came;	 /* by packet of the bucket: children whose part is there */
	struct fan_ring_note *note;
	uint32_t notes, notes_room;
};

void fan_ring_free(struct fan_ring *r);

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
