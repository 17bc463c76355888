/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - datagrams in flight, and the pool that their bytes come from.
 *
 * The bytes of a datagram lie in a body that all its copies share: a result for a hundred workers
 * is one body with a hundred references.  Bodies are made in slabs and reused; no packet needs an
 * allocation.
 *
 * What a worker reduces is a table that never changes, so a body need not copy it: a small body
 * holds the header, fills a cache line, and points to the payload.  This shrinks a thousand
 * workers' windows from a hundred megabytes to a few. */
#ifndef FAN_SIM_PACKET_H
#define FAN_SIM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/out.h"

#define FAN_BODIES_NEAR	   1024 /* with more in use, free ones are in no cache */
#define FAN_BODY_SLABS_MAX 128	/* each adds a quarter to what is there before it */

/* `bytes` starts 36 before a multiple of 64, so that payloads are aligned. */
struct fan_sim_body {
	union {
		struct fan_sim_body *next; /* while it is free */
		const uint8_t *payload;	   /* of a small one in use; NULL: it has none */
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

/* The bodies of one size. */
struct fan_body_shelf {
	struct fan_sim_body *free;
	uint8_t *fresh;	  /* bodies of the last slab that have never been used */
	uint32_t freshes; /* their number; their memory is untouched */
	uint32_t stride;
	uint32_t made;
	unsigned slabs;
	void *slab[FAN_BODY_SLABS_MAX];
};

struct fan_body_pool {
	uint32_t bytes; /* of one body's datagram, at most */
	uint32_t used, used_max;
	struct fan_body_shelf whole, small;
};

/* Begin a pool of bodies for datagrams of at most `bytes`. */
void fan_body_pool_init(struct fan_body_pool *p, uint32_t bytes);
void fan_body_pool_free(struct fan_body_pool *p);

/* A body that has never been used; NULL: out of memory. */
struct fan_sim_body *fan_body_make(struct fan_body_shelf *s);

static inline struct fan_sim_body *fan_body_take(struct fan_body_pool *p, struct fan_body_shelf *s)
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

/* A body with one reference; NULL: out of memory. */
static inline struct fan_sim_body *fan_body_get(struct fan_body_pool *p)
{
	return fan_body_take(p, &p->whole);
}

/* As fan_body_get, for a header whose payload is at `payload` and stays unchanged until the
 * simulation ends; NULL: there is only the header. */
static inline struct fan_sim_body *fan_body_get_small(struct fan_body_pool *p,
						      const uint8_t *payload)
{
	struct fan_sim_body *b = fan_body_take(p, &p->small);
	if (b)
		b->payload = payload;
	return b;
}

/* Where a payload apart from its header is; NULL: it follows the header, or there is none. */
static inline const uint8_t *fan_body_payload_apart(const struct fan_sim_body *b)
{
	return b->small ? b->payload : NULL;
}

/* Copy the datagram of `len` bytes in `b` to `to`. */
void fan_body_copy(const struct fan_sim_body *b, uint16_t len, uint8_t *to);

static inline void fan_body_put(struct fan_body_pool *p, struct fan_sim_body *b)
{
	if (!b || --b->refs)
		return;
	struct fan_body_shelf *s = b->small ? &p->small : &p->whole;
	b->next = s->free;
	s->free = b;
	p->used--;
}

#endif
