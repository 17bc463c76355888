/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <assert.h>
#include <stdlib.h>

#include "core/wire/wire.h"
#include "core/worker/worker.h"

/* The source of an event is a link, an actor or a stray packet; two bits say which. */
#define KIND_SHIFT 22
#define LINE	   64u /* bytes of a cache line */
#define SELF_LINES 4   /* of an actor, used before the others */
enum kind { KIND_LINK = 0, KIND_ACTOR = 1, KIND_STRAY = 2 };

_Static_assert(KIND_SHIFT + 2 == FAN_EVENT_SOURCE_BITS, "sources");

static uint32_t source(enum kind kind, uint32_t index)
{
	return (uint32_t)kind << KIND_SHIFT | index;
}

void fan_sim_init(struct fan_sim *s, uint64_t seed, uint32_t packet_bytes)
{
	memset(s, 0, sizeof *s);
	s->seed = seed;
	fan_body_pool_init(&s->pool, packet_bytes + FAN_FAULT_LONGER);
}

void fan_sim_free(struct fan_sim *s)
{
	for (uint32_t i = 0; i < s->links; i++)
		fan_link_free(&s->link[i], &s->pool);
	for (uint32_t i = 0; i < s->nodes; i++) {
		free(s->node[i].next);
		free(s->node[i].depth);
	}
	fan_sim_free_trees(s);
	free(s->node);
	free(s->link);
	free(s->actor);
	free(s->out);
	free(s->stray);
	fan_events_free(&s->events);
	fan_body_pool_free(&s->pool);
}

/* Make room for one more entry of `bytes`; `most` bounds their number. */
static bool grow(void **list, uint32_t count, uint32_t *room, uint32_t most, size_t bytes)
{
	if (count < *room)
		return true;
	if (count >= most)
		return false;
	uint32_t more = *room ? 2 * *room : 16;
	void *p = realloc(*list, more * bytes);
	if (!p)
		return false;
	*list = p;
	*room = more;
	return true;
}

uint32_t fan_sim_add_link(struct fan_sim *s, uint32_t a, uint32_t b,
			  const struct fan_link_config *cfg)
{
	assert(a < s->nodes && b < s->nodes);
	void *list = s->link;
	if (!grow(&list, s->links, &s->links_room, FAN_SIM_LINKS_MAX, sizeof *s->link))
		return FAN_SIM_NONE;
	s->link = list;
	struct fan_rng rng = fan_rng_stream(s->seed, s->links);
	fan_link_init(&s->link[s->links], cfg, a, b, rng);
	return s->links++;
}

uint32_t fan_sim_add_node(struct fan_sim *s, bool forwards, uint64_t bps, uint32_t ecn_bytes)
{
	void *list = s->node;
	if (!grow(&list, s->nodes, &s->nodes_room, FAN_SIM_NODES_MAX, sizeof *s->node))
		return FAN_SIM_NONE;
	s->node = list;
	uint32_t n = s->nodes++;
	s->node[n] = (struct fan_sim_node){.forwards = forwards, .inside = FAN_SIM_NONE};
	if (!bps)
		return n;
	const struct fan_link_config inside = {
		.bps = bps, .queue_bytes = FAN_LINK_QUEUE_MAX, .ecn_bytes = ecn_bytes};
	s->node[n].inside = fan_sim_add_link(s, n, n, &inside);
	return s->node[n].inside == FAN_SIM_NONE ? FAN_SIM_NONE : n;
}

uint32_t fan_sim_add_actor(struct fan_sim *s, uint32_t node, void *self,
			   const struct fan_actor_ops *ops)
{
	assert(node < s->nodes);
	void *list = s->actor;
	if (!grow(&list, s->actors, &s->actors_room, FAN_SIM_ACTORS_MAX, sizeof *s->actor))
		return FAN_SIM_NONE;
	s->actor = list;
	const struct fan_sim_node *n = &s->node[node];
	s->actor[s->actors] = (struct fan_sim_actor){
		.self = self,
		.ops = ops,
		.node = node,
		.uplink = n->links == 1 ? s->out[n->first] : FAN_SIM_NONE,
		.wake_ns = FAN_SIM_NEVER,
	};
	return s->actors++;
}

struct fan_sim_body *fan_sim_body(struct fan_sim *s, const struct fan_out_item *it, bool lent)
{
	struct fan_sim_body *b = NULL;
	/* nodes read a bitmap, and, for its checksum, what that covers */
	bool small = (lent || !s->elements) && !fan_fault_is_covered(it->head) &&
		     it->head[1] != FAN_TYPE_PARTIAL;
	if (small || fan_out_item_bytes(it) <= s->pool.bytes)
		b = fan_body_get(&s->pool, small ? &s->pool.small : &s->pool.whole);
	if (!b) {
		s->broke = true;
	} else if (small) {
		b->payload = s->elements ? it->payload : NULL;
		memcpy(b->bytes, it->head, FAN_HEAD_BYTES);
	} else {
		fan_out_item_copy(it, b->bytes);
	}
	return b;
}

/* Copy the datagram of `len` bytes in `b` to `to`; without elements, the header alone. */
static void copy_body(const struct fan_sim_body *b, uint16_t len, uint8_t *to)
{
	memcpy(to, b->bytes, b->small ? FAN_HEAD_BYTES : len);
	if (b->small && b->payload)
		memcpy(to + FAN_HEAD_BYTES, b->payload, len - FAN_HEAD_BYTES);
}

const uint8_t *fan_sim_bytes(struct fan_sim *s, const struct fan_sim_packet *p)
{
	if (!p->body->small || p->len <= FAN_HEAD_BYTES)
		return p->body->bytes;
	copy_body(p->body, p->len, s->desk->bytes);
	return s->desk->bytes;
}

bool fan_sim_read(const struct fan_sim_packet *p, uint32_t types, struct fan_frag *f)
{
	const struct fan_sim_body *b = p->body;
	if (p->flags & FAN_PACKET_DAMAGED || b->bytes[1] >= 32 || !(types >> b->bytes[1] & 1))
		return false;
	fan_wire_head(f, b->bytes);
	f->payload = b->small ? b->payload : b->bytes + FAN_HEAD_BYTES;
	f->payload_bytes = p->len - FAN_HEAD_BYTES;
	return true;
}

static void saw(struct fan_sim *s, enum fan_sight what, uint32_t link,
		const struct fan_sim_packet *p)
{
	if (s->watch.saw)
		s->watch.saw(s->watch.arg, what, link, p);
}

/* Push a packet that arrives out of order: it has an event of its own. */
static void push_stray(struct fan_sim *s, const struct fan_link_entry *e, uint32_t node)
{
	uint32_t i = s->stray_free;
	if (i == s->strays) {
		void *list = s->stray;
		if (!grow(&list, i, &s->strays_room, FAN_SIM_STRAYS_MAX, sizeof *s->stray)) {
			fan_body_put(&s->pool, e->packet.body);
			s->broke = true;
			return;
		}
		s->stray = list;
		s->stray_free = ++s->strays;
	} else {
		s->stray_free = s->stray[i].node;
	}
	s->stray[i] = (struct fan_sim_stray){*e, node};
	s->in_flight++;
	s->broke |= !fan_event_push(&s->events, e->at_ns, source(KIND_STRAY, i));
}

/* The place of one more packet on a link, behind those in flight; NULL: out of memory. */
static struct fan_link_entry *add_entry(struct fan_sim_link *l)
{
	if (l->count == l->room && !fan_link_grow(l))
		return NULL;
	return &l->ring[(l->head + l->count++) & (l->room - 1)];
}

static void push_in_order(struct fan_sim *s, uint32_t link, uint64_t at_ns,
			  const struct fan_sim_packet *p, uint8_t flags)
{
	assert(link < s->links);
	struct fan_sim_link *l = &s->link[link];
	struct fan_link_entry *e = add_entry(l);
	if (!e) {
		fan_body_put(&s->pool, p->body);
		s->broke = true;
		return;
	}
	__builtin_prefetch(e + 2, 1);
	/* one by one, as they were written just now: the processor waits for a load of several */
	e->at_ns = at_ns;
	e->packet.body = p->body;
	e->packet.from = p->from;
	e->packet.to = p->to;
	e->packet.number = p->number;
	e->packet.len = p->len;
	e->packet.flags = p->flags | flags;
	e->packet.hops = p->hops;
	s->in_flight++;
	if (l->count > 1)
		return;
	l->key = fan_event_push(&s->events, at_ns, source(KIND_LINK, link));
	s->broke |= !l->key;
}

/* True with a probability of `millionths` / 1,000,000. */
static bool chance(struct fan_rng *r, uint32_t millionths)
{
	return millionths && fan_rng_below(r, 1000000) < millionths;
}

static bool is_lost(struct fan_sim *s, struct fan_sim_link *l)
{
	const struct fan_sim_fault *f = &l->cfg.fault;
	if (l->down || s->now_ns < l->burst_until_ns)
		return true;
	if (!chance(&l->rng, f->loss))
		return false;
	if (chance(&l->rng, f->burst))
		l->burst_until_ns = s->now_ns + fan_rng_below(&l->rng, f->burst_ns + 1);
	return true;
}

/* Replace the packet by a damaged copy; false: it is lost. */
static bool damage(struct fan_sim *s, struct fan_sim_link *l, struct fan_sim_packet *p)
{
	/* a packet cut and then lengthened would pass all checks but UDP's */
	if (!p->body || p->flags & FAN_PACKET_DAMAGED)
		return false;
	struct fan_sim_body *copy = fan_body_get(&s->pool, &s->pool.whole);
	if (!copy) {
		s->broke = true;
		return false;
	}
	copy_body(p->body, p->len, copy->bytes);
	if (!fan_fault_damage(&l->rng, copy->bytes, &p->len)) {
		fan_body_put(&s->pool, copy);
		return false;
	}
	fan_body_put(&s->pool, p->body);
	p->body = copy;
	p->flags |= FAN_PACKET_DAMAGED;
	return true;
}

/* Push a packet that has a place on a link with faults, which takes over its reference. */
static void push_faulty(struct fan_sim *s, uint32_t link, struct fan_link_entry e)
{
	assert(link < s->links);
	struct fan_sim_link *l = &s->link[link];
	const struct fan_sim_fault *f = &l->cfg.fault;
	uint64_t late_ns = 0;
	bool lost =
		is_lost(s, l) || (s->filter && s->filter(s->filter_arg, link, &e.packet, &late_ns));
	if (!lost && chance(&l->rng, f->duplicate)) {
		struct fan_link_entry twin = e;
		twin.at_ns += fan_rng_below(&l->rng, f->reorder_ns + 1);
		if (twin.packet.body)
			twin.packet.body->refs++;
		push_stray(s, &twin, l->to);
	}
	if (!lost && chance(&l->rng, f->corrupt))
		lost = !damage(s, l, &e.packet);
	if (lost) {
		l->stats.lost++;
		saw(s, FAN_SIGHT_LOST, link, &e.packet);
		fan_body_put(&s->pool, e.packet.body);
		return;
	}
	if (chance(&l->rng, f->reorder))
		late_ns += 1 + fan_rng_below(&l->rng, f->reorder_ns);
	if (late_ns) {
		e.at_ns += late_ns;
		push_stray(s, &e, l->to);
		return;
	}
	e.at_ns += fan_rng_below(&l->rng, f->jitter_ns + 1);
	if (e.at_ns < l->last_ns)
		e.at_ns = l->last_ns;
	l->last_ns = e.at_ns;
	push_in_order(s, link, e.at_ns, &e.packet, 0);
}

/* Put a packet on a link, as `len` bytes; the link takes over the caller's reference. */
static void push_as(struct fan_sim *s, uint32_t link, const struct fan_sim_packet *p, uint16_t len,
		    uint8_t flags, bool own)
{
	struct fan_sim_link *l = &s->link[link];
	bool marked;
	bool safe = p->flags & FAN_PACKET_SAFE;
	uint64_t at_ns = fan_link_take(l, s->now_ns, len, own || safe, &marked);
	if (at_ns == FAN_LINK_NO_ROOM) {
		saw(s, FAN_SIGHT_OVERFLOW, link, p);
		fan_body_put(&s->pool, p->body);
		return;
	}
	flags |= marked ? FAN_PACKET_ECN : 0;
	if (__builtin_expect((!l->faulty && !s->filter) || safe, 1)) {
		push_in_order(s, link, at_ns, p, flags);
		return;
	}
	struct fan_link_entry e = {at_ns, *p};
	e.packet.flags |= flags;
	push_faulty(s, link, e);
}

/* Pass a packet on from `node` to members here and along its links.  Takes its own references. */
static void branch(struct fan_sim *s, uint32_t node, const struct fan_sim_packet *p, bool own)
{
	const struct fan_sim_tree *t = &s->tree[p->to];
	struct fan_sim_packet copy = *p;
	for (uint32_t i = t->link_first[node]; i < t->link_first[node + 1]; i++) {
		p->body->refs++;
		push_as(s, t->link[i], &copy, p->len, 0, own);
	}
	copy.flags &= (uint8_t)~FAN_PACKET_TREE;
	copy.flags |= FAN_PACKET_LOCAL;
	for (uint32_t i = 0; i < t->members; i++) {
		if (s->actor[t->member[i]].node != node)
			continue;
		p->body->refs++;
		copy.to = t->member[i];
		const struct fan_link_entry e = {.at_ns = s->now_ns, .packet = copy};
		push_stray(s, &e, node);
	}
}

/* Send along a tree. */
static void spread(struct fan_sim *s, const struct fan_sim_packet *p, bool own)
{
	struct fan_sim_packet mine = *p;
	mine.flags |= FAN_PACKET_BY_GROUP;
	mine.flags |= p->body->bytes[1] <= FAN_TYPE_RESULT ? FAN_PACKET_FRAGMENT : 0;
	saw(s, FAN_SIGHT_SENT, FAN_SIM_NONE, &mine);
	branch(s, s->actor[p->from].node, &mine, own);
}

void fan_sim_send(struct fan_sim *s, const struct fan_sim_packet *p, bool own)
{
	const struct fan_sim_actor *from = &s->actor[p->from];
	uint32_t link = from->uplink;
	uint8_t flags = 0;
	if (p->flags & FAN_PACKET_TREE) {
		spread(s, p, own);
		return;
	}
	if (p->body) {
		p->body->refs++;
		flags = p->body->bytes[1] <= FAN_TYPE_RESULT ? FAN_PACKET_FRAGMENT : 0;
	}
	if (link == FAN_SIM_NONE || s->actor[p->to].node == from->node)
		link = fan_sim_hop(s, from->node, p->from, p->to);
	if (link == FAN_SIM_NONE) { /* to an actor of the same node: at once, on no link */
		struct fan_link_entry e = {.at_ns = s->now_ns, .packet = *p};
		e.packet.flags |= flags | FAN_PACKET_LOCAL;
		push_stray(s, &e, from->node);
		return;
	}
	saw(s, FAN_SIGHT_SENT, link, p);
	push_as(s, link, p, p->len, flags, own);
}

void fan_sim_hear_nothing(void *self, const struct fan_sim_packet *p)
{
	(void)self;
	(void)p;
}

void fan_sim_wake(struct fan_sim *s, uint32_t actor)
{
	assert(actor < s->actors);
	struct fan_sim_actor *a = &s->actor[actor];
	uint64_t at_ns = a->ops->deadline(a->self);
	if (at_ns < s->now_ns)
		at_ns = s->now_ns;
	if (at_ns >= a->wake_ns)
		return;
	a->wake_ns = at_ns;
	s->broke |= !fan_event_push(&s->events, at_ns, source(KIND_ACTOR, actor));
}

/* The packet has reached `node`, which owns its reference. */
static void arrive(struct fan_sim *s, uint32_t node, struct fan_sim_packet *p)
{
	const struct fan_sim_node *n = &s->node[node];
	if (n->inside != FAN_SIM_NONE && !(p->flags & FAN_PACKET_INSIDE)) {
		enum fan_sim_need need = n->uses ? n->uses(n->uses_arg, p) : FAN_NEED_CAPACITY;
		if (need != FAN_NEED_NOTHING) {
			p->flags |= FAN_PACKET_INSIDE;
			push_as(s, n->inside, p, need == FAN_NEED_ORDER ? 0 : p->len, 0, false);
			return;
		}
	}
	bool local = p->flags & FAN_PACKET_LOCAL;
	s->hops += !local;
	s->frag_hops += !local && p->flags & FAN_PACKET_FRAGMENT;
	p->flags &= (uint8_t) ~(FAN_PACKET_INSIDE | FAN_PACKET_LOCAL);
	if (p->flags & FAN_PACKET_TREE) {
		if (++p->hops < FAN_SIM_HOPS_MAX)
			branch(s, node, p, false);
		fan_body_put(&s->pool, p->body);
		return;
	}
	struct fan_sim_actor *a = &s->actor[p->to];
	if (a->node == node) {
		saw(s, FAN_SIGHT_ARRIVED, FAN_SIM_NONE, p);
		a->ops->recv(a->self, p);
		fan_body_put(&s->pool, p->body);
		fan_sim_wake(s, p->to);
		return;
	}
	uint32_t link = n->forwards ? fan_sim_hop(s, node, p->from, p->to) : FAN_SIM_NONE;
	if (link == FAN_SIM_NONE || ++p->hops >= FAN_SIM_HOPS_MAX) {
		saw(s, FAN_SIGHT_LOST, FAN_SIM_NONE, p);
		fan_body_put(&s->pool, p->body);
		return;
	}
	push_as(s, link, p, p->len, 0, false);
}

/* With thousands of workers and links, none is in a cache when its turn comes, and each access to
 * it waits for the one before.  So, while an event is handled, what the next ones will touch is
 * prefetched, one access further for each event that is nearer. */
#define MANY  256 /* actors; fewer stay in the caches */
#define AHEAD 4

/* The first packet of the link that the event is of; NULL: it is of something else. */
static const struct fan_link_entry *first_of(const struct fan_sim *s, uint32_t from)
{
	bool busy = from >> KIND_SHIFT == KIND_LINK && s->link[from].count;
	return busy ? fan_link_first(&s->link[from]) : NULL;
}

static void foresee_actor(const struct fan_sim_actor *a)
{
	if (!a->worker)
		return;
	for (unsigned i = 0; i < SELF_LINES; i++)
		__builtin_prefetch((const char *)a->self + i * LINE);
	fan_worker_prefetch(a->worker);
}

static void foresee(const struct fan_sim *s)
{
	uint32_t from[AHEAD];
	if (s->actors < MANY)
		return;
	const unsigned n = fan_event_ahead(&s->events, from, AHEAD);
	const struct fan_link_entry *first = n > 0 ? first_of(s, from[0]) : NULL;
	if (first && !(first->packet.flags & FAN_PACKET_TREE))
		foresee_actor(&s->actor[first->packet.to]);
	first = n > 1 ? first_of(s, from[1]) : NULL;
	if (first) {
		__builtin_prefetch(first->packet.body);
		if (!(first->packet.flags & FAN_PACKET_TREE))
			__builtin_prefetch(&s->actor[first->packet.to]);
	}
	first = n > 2 ? first_of(s, from[2]) : NULL;
	if (first)
		__builtin_prefetch(first);
	if (n > 3 && from[3] >> KIND_SHIFT == KIND_LINK)
		__builtin_prefetch(&s->link[from[3]].head);
}

static void step_link(struct fan_sim *s, const struct fan_sim_event *e, uint32_t link)
{
	assert(link < s->links);
	struct fan_sim_link *l = &s->link[link];
	if (l->key != e->key) { /* the link's rate has changed since */
		fan_event_pop(&s->events, e);
		return;
	}
	struct fan_sim_packet p = fan_link_first(l)->packet;
	l->head++;
	l->count--;
	s->in_flight--;
	fan_event_pop(&s->events, e);
	l->key = 0;
	if (l->count) {
		const struct fan_link_entry *next = fan_link_first(l);
		__builtin_prefetch(next->packet.body);
		__builtin_prefetch(next + 2);
		l->key = fan_event_push(&s->events, next->at_ns, source(KIND_LINK, link));
		s->broke |= !l->key;
	}
	foresee(s);
	arrive(s, l->to, &p);
}

static void step_actor(struct fan_sim *s, const struct fan_sim_event *e, uint32_t actor)
{
	assert(actor < s->actors);
	struct fan_sim_actor *a = &s->actor[actor];
	fan_event_pop(&s->events, e);
	if (a->wake_ns != e->at_ns) /* an earlier wake-up has replaced this one */
		return;
	a->wake_ns = FAN_SIM_NEVER;
	foresee(s);
	if (a->ops->deadline(a->self) <= s->now_ns)
		a->ops->tick(a->self);
	fan_sim_wake(s, actor);
}

static void step_stray(struct fan_sim *s, const struct fan_sim_event *event, uint32_t i)
{
	assert(i < s->strays);
	struct fan_sim_stray e = s->stray[i];
	fan_event_pop(&s->events, event);
	s->stray[i].node = s->stray_free;
	s->stray_free = i;
	s->in_flight--;
	foresee(s);
	arrive(s, e.node, &e.e.packet);
}

bool fan_sim_step(struct fan_sim *s, uint64_t until_ns)
{
	struct fan_sim_event e;
	if (!fan_event_first(&s->events, &e) || e.at_ns > until_ns || s->broke)
		return false;
	uint32_t from = fan_event_source(e.key), index = from & ((1u << KIND_SHIFT) - 1);
	s->now_ns = e.at_ns;
	switch ((enum kind)(from >> KIND_SHIFT)) {
	case KIND_LINK: step_link(s, &e, index); break;
	case KIND_ACTOR: step_actor(s, &e, index); break;
	case KIND_STRAY: step_stray(s, &e, index); break;
	}
	return true;
}

void fan_sim_set_rate(struct fan_sim *s, uint32_t link, uint64_t bps)
{
	assert(link < s->links);
	struct fan_sim_link *l = &s->link[link];
	fan_link_set_rate(l, s->now_ns, bps);
	if (!l->count)
		return;
	l->key = fan_event_push(&s->events, fan_link_first(l)->at_ns, source(KIND_LINK, link));
	s->broke |= !l->key;
}
