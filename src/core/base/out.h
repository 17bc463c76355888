/* SPDX-License-Identifier: Apache-2.0 */
/* out.h - datagrams that the core gives its caller to send.
 *
 * A sans-IO object writes datagrams into a fan_out; its caller sends them in order and then
 * resets it.  An item is a header by value and a payload by reference: the payload lies in
 * the object (a slot, the caller's tensor) or in the scratch area, and is valid until the
 * next call on the same object.  So header and payload can be gathered by iovec without a
 * copy. */
#ifndef FAN_BASE_OUT_H
#define FAN_BASE_OUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "limits.h"
/* Sizes in whole cache lines, for objects that lay out their own memory. */

#define FAN_ALIGN 64u

/* `n` bytes, rounded up to whole cache lines. */
static inline size_t fan_align_up(size_t n)
{
	return (n + FAN_ALIGN - 1) / FAN_ALIGN * FAN_ALIGN;
}

/* Address of a neighbour: `addr` holds the 16 bytes of an IPv6 or v4-mapped address in network
 * order, `port` is in host order; the simulator keeps a node number there.  All bytes zero: no
 * neighbour.  The core stores and compares addresses, and derives a group's from the
 * configured one. */
typedef struct fan_peer {
	uint64_t addr[2];
	uint32_t port;
	uint32_t scope;
} fan_peer;

static inline bool fan_peer_equal(const fan_peer *a, const fan_peer *b)
{
	return a->addr[0] == b->addr[0] && a->addr[1] == b->addr[1] && a->port == b->port &&
	       a->scope == b->scope;
}

static inline bool fan_peer_is_none(const fan_peer *p)
{
	return !(p->addr[0] | p->addr[1] | p->port | p->scope);
}

/* Is it the same host, at whatever port? */
static inline bool fan_peer_same_host(const fan_peer *a, const fan_peer *b)
{
	return a->addr[0] == b->addr[0] && a->addr[1] == b->addr[1];
}

/* The members of a job as receivers of one datagram.  Owned by the object that sends. */
struct fan_group {
	const fan_peer *peers; /* `ranks` entries, by rank; none: not a member now */
	uint16_t ranks;
	bool reads_runs; /* every member does, and no switch is between: core/wire/run.h */
	bool multicast;	 /* every member receives from `addr`: send once, to it */
	fan_peer addr;	 /* multicast group and port; scope: interface, 0 = by route */
	fan_peer via;	 /* a member; multicast leaves by the interface towards it */
};

enum fan_dest {
	FAN_TO_PEER,   /* to `peer` */
	FAN_TO_GROUP,  /* to every member: by multicast if group->multicast, otherwise to each */
	FAN_TO_MCAST,  /* to group->addr by multicast, to test it */
	FAN_TO_PARENT, /* to the parent: only from an aggregator that has one */
	FAN_TO_NOBODY, /* sent already: set by a caller that sends items out of turn */
};

struct fan_out_item {
	const struct fan_group *group;
	const uint8_t *payload;
	size_t payload_bytes;
	fan_peer peer;
	enum fan_dest dest;
	uint16_t first; /* FAN_TO_GROUP: the member that gets it first, and so on in turn */
	/* of what ranks send, FAN_TO_PEER: to a helper, and so not to a next hop, though the peer
	 * may be one as well: sealing asks */
	bool down;
	bool whole;  /* the header lies before the payload as well: fan_out_item_lay */
	bool inside; /* the receivers in the sender's process have it already */
	uint8_t head[FAN_HEAD_BYTES];
};

struct fan_out {
	struct fan_out_item *item;
	unsigned count;
	unsigned room; /* capacity, items */
	uint8_t *scratch;
	size_t scratch_bytes;
	size_t scratch_used;
};

/* Set up an empty `o` with `room` items at `item` and `bytes` bytes at `scratch`. */
static inline void fan_out_init(struct fan_out *o, struct fan_out_item *item, unsigned room,
				uint8_t *scratch, size_t bytes)
{
	memset(o, 0, sizeof *o);
	o->item = item;
	o->room = room;
	o->scratch = scratch;
	o->scratch_bytes = bytes;
}

/* Remove all items, after they have been sent. */
static inline void fan_out_reset(struct fan_out *o)
{
	o->count = 0;
	o->scratch_used = 0;
}

/* Do `items` more items fit, and `bytes` contiguous bytes of scratch? */
static inline bool fan_out_fits(const struct fan_out *o, unsigned items, size_t bytes)
{
	return o->room - o->count >= items &&
	       o->scratch_bytes - o->scratch_used >= fan_align_up(bytes);
}

/* Do `items` more items fit, with FAN_ITEM_SCRATCH bytes of scratch for each?  Every call that
 * writes items has a budget of them, named in limits.h, and asserts this first. */
static inline bool fan_out_has(const struct fan_out *o, unsigned items)
{
	return fan_out_fits(o, items, (size_t)items * FAN_ITEM_SCRATCH);
}

/* Append an item, for which there must be room, with only its destination set.  Never NULL. */
static inline struct fan_out_item *fan_out_add(struct fan_out *o, enum fan_dest dest)
{
	assert(o->count < o->room);
	struct fan_out_item *it = &o->item[o->count++];
	it->dest = dest;
	it->first = 0;
	it->down = it->whole = it->inside = false;
	it->group = NULL;
	it->payload = NULL;
	it->payload_bytes = 0;
	return it;
}

/* Bytes of the item's datagram: header and payload. */
static inline size_t fan_out_item_bytes(const struct fan_out_item *it)
{
	return FAN_HEAD_BYTES + it->payload_bytes;
}

/* Write that datagram to `to`, which must have room for it.  Returns its bytes. */
static inline size_t fan_out_item_copy(const struct fan_out_item *it, uint8_t *to)
{
	memcpy(to, it->head, FAN_HEAD_BYTES);
	if (it->payload_bytes)
		memcpy(to + FAN_HEAD_BYTES, it->payload, it->payload_bytes);
	return fan_out_item_bytes(it);
}

/* Lay the header before the payload, which is at `payload` with room before it: so a sender finds
 * the datagram in one piece.  The header must not change any more.  Returns the datagram's bytes.
 */
static inline size_t fan_out_item_lay(struct fan_out_item *it, uint8_t *payload)
{
	assert(it->payload == payload);
	memcpy(payload - FAN_HEAD_BYTES, it->head, FAN_HEAD_BYTES);
	it->whole = true;
	return fan_out_item_bytes(it);
}

/* Take `bytes` aligned bytes of scratch, for which there must be room.  Never NULL. */
static inline uint8_t *fan_out_scratch(struct fan_out *o, size_t bytes)
{
	assert(fan_out_fits(o, 0, bytes));
	uint8_t *p = o->scratch + o->scratch_used;
	o->scratch_used += fan_align_up(bytes);
	return p;
}

/* The fate of a datagram. */

enum fan_verdict {
	FAN_WAIT,   /* added; other contributions are outstanding */
	FAN_DONE,   /* added, and complete: the result goes to all */
	FAN_REPLAY, /* the round was complete: the result goes to this child alone */
	FAN_ASK,    /* a probe for a fragment that this child has not sent: NEED to it */
	FAN_EARLY,  /* a probe for a fragment that waits for other ranks: no answer */
	FAN_CTL,    /* a control message, handled */
	FAN_FAIL,   /* ranks disagree: the job has failed, its members get a STATE */
	FAN_PASS,   /* sent on unchanged */
	FAN_DROP,   /* dropped and counted by reason */
};

#endif
