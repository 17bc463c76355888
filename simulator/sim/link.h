/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - datagrams in flight, the pool that their bytes come from, and one direction of a cable:
 * rate, delay, a finite queue, and its faults.
 *
 * Packets leave in order, so the time at which a packet will arrive, and the bytes before it, are
 * known as soon as it is handed over: a packet is one entry in a ring, and one event.  Time on the
 * wire is kept in picoseconds, since a packet takes 118.6 ns at 100 Gb/s. */
#ifndef FAN_SIM_LINK_H
#define FAN_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/out.h"
#include "core/base/rng.h"

/* The bytes of a datagram lie in a body that all its copies share: a result for a hundred workers
 * is one body with a hundred references.  Bodies are made in slabs and reused; no packet needs an
 * allocation.
 *
 * What a worker reduces is a table that never changes, so a body need not copy it: a small body
 * holds the header, fills a cache line, and points to the payload.  This shrinks a thousand
 * workers' windows from a hundred megabytes to a few. */
#define FAN_BODIES_NEAR	   1024 /* with more in use, free ones are in no cache */
#define FAN_BODY_SLABS_MAX 128	/* each adds a quarter to what is there before it */

/* `bytes` starts 36 before a multiple of 64, so that payloads are aligned. */
struct fan_sim_body {
	union {
		struct fan_sim_body *next; /* while it is free */
		const uint8_t *payload;	   /* of a small one in use; NULL: none, or not kept */
	};
	uint32_t refs;
	uint32_t small; /* `bytes` holds only a header */
	uint32_t pad[3];
	uint8_t bytes[];
};

enum fan_packet_flag {
	FAN_PACKET_BY_GROUP = 1 << 0, /* addressed to a multicast group */
	FAN_PACKET_ECN = 1 << 1,      /* met a queue above its threshold */
	FAN_PACKET_INSIDE = 1 << 2,   /* has passed its node's processing */
	FAN_PACKET_FRAGMENT = 1 << 3, /* carries elements: a contribution or a result */
	FAN_PACKET_SAFE = 1 << 5,     /* belongs to a model without losses: never dropped */
	FAN_PACKET_DAMAGED = 1 << 6,  /* differs from what was sent */
	FAN_PACKET_TREE = 1 << 7,     /* `to` is a tree: one copy for all members behind a link */
	FAN_PACKET_LOCAL = 1 << 4,    /* to an actor of the same node: crosses no link */
};

struct fan_sim_packet {
	struct fan_sim_body *body; /* NULL: traffic of no job, which has no bytes */
	uint32_t from, to;	   /* actors; or `to` a tree */
	uint32_t number;	   /* of a packet without a body: the sender's number */
	uint16_t len;		   /* bytes of the datagram, without lower layers */
	uint8_t flags;		   /* enum fan_packet_flag */
	uint8_t hops;		   /* links crossed: bounded by FAN_SIM_HOPS_MAX */
};

struct fan_body_pool {
	uint32_t bytes; /* of one body's datagram, at most */
	uint32_t used, used_max;
	/* The bodies of one size. */
	struct fan_body_shelf {
		struct fan_sim_body *free;
		uint8_t *fresh;	  /* bodies of the last slab that have never been used */
		uint32_t freshes; /* their number; their memory is untouched */
		uint32_t stride;
		uint32_t made;
		unsigned slabs;
		void *slab[FAN_BODY_SLABS_MAX];
	} whole, small;
};

/* Begin a pool of bodies for datagrams of at most `bytes`. */
void fan_body_pool_init(struct fan_body_pool *p, uint32_t bytes);
void fan_body_pool_free(struct fan_body_pool *p);

/* A body that has never been used; NULL: out of memory. */
struct fan_sim_body *fan_body_make(struct fan_body_shelf *s);

/* A body of the pool's shelf `s`, with one reference; NULL: out of memory.  The caller sets a small
 * one's `payload`: it stays unchanged until the simulation ends; NULL: there is only the header. */
static inline struct fan_sim_body *fan_body_get(struct fan_body_pool *p, struct fan_body_shelf *s)
{
	struct fan_sim_body *b = s->free;
	if (b)
		s->free = b->next;
	else if (!(b = fan_body_make(s)))
		return NULL;
	b->refs = 1;
	b->small = s == &p->small;
	for (uint32_t i = 0; s->free && p->used >= FAN_BODIES_NEAR && i < s->stride; i += 64)
		__builtin_prefetch((const char *)s->free + i, 1); /* the next one */
	if (++p->used > p->used_max)
		p->used_max = p->used;
	return b;
}

static inline void fan_body_put(struct fan_body_pool *p, struct fan_sim_body *b)
{
	if (!b || --b->refs)
		return;
	struct fan_body_shelf *s = b->small ? &p->small : &p->whole;
	b->next = s->free;
	s->free = b;
	p->used--;
}

#define FAN_PS_PER_NS	   UINT64_C(1000)
#define FAN_Q16_SHIFT	   16
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
	struct fan_sim_packet packet;
};
_Static_assert(sizeof(struct fan_link_entry) == 32, "two to a cache line");

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
	struct fan_link_stats {
		uint64_t packets, bytes; /* carried, overhead included */
		uint64_t overflows;	 /* dropped: the queue was full */
		uint64_t lost;		 /* by faults */
		uint64_t marked;
		uint64_t queue_max_ps; /* a packet's longest wait for those before it */
	} stats;
};

void fan_link_init(struct fan_sim_link *l, const struct fan_link_config *cfg, uint32_t from,
		   uint32_t to, struct fan_rng rng);
void fan_link_free(struct fan_sim_link *l, struct fan_body_pool *pool);

/* When a packet of `len` bytes, handed over at `now_ns`, will have arrived, or FAN_LINK_NO_ROOM
 * (counted).  With `own` it is the sender's own: it waits in the sender's sockets rather than be
 * dropped, so there is always room.  `*marked`: it found a long queue. */
static inline uint64_t fan_link_take(struct fan_sim_link *l, uint64_t now_ns, uint16_t len,
				     bool own, bool *marked)
{
	uint64_t now_ps = now_ns * FAN_PS_PER_NS;
	uint64_t start_ps = l->busy_ps > now_ps ? l->busy_ps : now_ps;
	uint64_t wait_ps = start_ps - now_ps;
	uint32_t bytes = len + l->overhead_bytes;
	uint64_t took_ps = bytes * l->byte_q16 >> FAN_Q16_SHIFT;
	if (wait_ps + took_ps > l->queue_ps && !own) {
		l->stats.overflows++;
		return FAN_LINK_NO_ROOM;
	}
	*marked = wait_ps > l->ecn_ps && !own; /* own packets wait in sockets, which do not mark */
	l->stats.marked += *marked;
	l->busy_ps = start_ps + took_ps;
	l->stats.packets++;
	l->stats.bytes += bytes;
	if (wait_ps > l->stats.queue_max_ps)
		l->stats.queue_max_ps = wait_ps;
	return (l->busy_ps + FAN_PS_PER_NS - 1) / FAN_PS_PER_NS + l->delay_ns;
}

/* Double the ring; false: out of memory. */
bool fan_link_grow(struct fan_sim_link *l);

static inline struct fan_link_entry *fan_link_first(struct fan_sim_link *l)
{
	return &l->ring[l->head & (l->room - 1)];
}

/* Send at another rate from now on, also what has not left yet.  The caller must read the first
 * entry's time again. */
void fan_link_set_rate(struct fan_sim_link *l, uint64_t now_ns, uint64_t bps);

/* Does the checksum in a datagram's header cover its payload as well? */
bool fan_fault_is_covered(const uint8_t *head);

/* Damage the datagram of `*len` bytes at `p`, which has room for FAN_FAULT_LONGER more.  False: a
 * checksum of the lower layers would have noticed, so the packet is lost.  The header has a
 * checksum of its own, so it passes damaged, and so does a payload that this checksum covers. */
#define FAN_FAULT_LONGER 16
bool fan_fault_damage(struct fan_rng *r, uint8_t *p, uint16_t *len);

#endif
