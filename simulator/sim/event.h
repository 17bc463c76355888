/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - the queue of events in virtual time.
 *
 * An event names its source (a link whose first packet arrives, an actor whose deadline expires).
 * A source has about one event in the queue however many packets it carries, so the queue is as
 * small as the topology.  Events of the same nanosecond happen in the order in which they were
 * pushed.
 *
 * Those of the next FAN_EVENT_NEAR nanoseconds lie on a wheel, a list for each nanosecond, to which
 * pushes append; bits say which lists have any.  The others lie in a heap, and stay there when
 * their time comes near. */
#ifndef FAN_SIM_EVENT_H
#define FAN_SIM_EVENT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_EVENT_SOURCE_BITS 24
#define FAN_EVENT_SOURCES_MAX (UINT32_C(1) << FAN_EVENT_SOURCE_BITS)
#define FAN_EVENT_ORDERS_MAX  (UINT64_C(1) << (64 - FAN_EVENT_SOURCE_BITS)) /* pushes to a queue */
#define FAN_EVENT_NEAR	      2048u /* a power of two, at most 64 * 64 */

struct fan_sim_event {
	uint64_t at_ns;
	uint64_t key; /* order << FAN_EVENT_SOURCE_BITS | source; never 0 */
};

struct fan_events {
	struct fan_sim_event *at; /* the heap */
	uint32_t count, room;
	uint64_t order;
	uint64_t now_ns;		    /* no event on the wheel is earlier */
	uint64_t any;			    /* bit i: `bits[i]` is not 0 */
	uint64_t bits[FAN_EVENT_NEAR / 64]; /* of lists that are not empty */
	struct {
		uint32_t first, last;
	} list[FAN_EVENT_NEAR]; /* by the time's low bits: indices in `near` */
	struct fan_event_near {
		uint64_t key;
		uint32_t next;
	} * near;
	uint32_t near_room, near_free; /* `near_free`: a list as well, near_room ends it */
};

static inline uint32_t fan_event_source(uint64_t key)
{
	return (uint32_t)key & (FAN_EVENT_SOURCES_MAX - 1);
}

void fan_events_free(struct fan_events *q);

/* ---- the heap, and more room on the wheel: 0 and false, out of memory ---- */

uint64_t fan_event_rise(struct fan_events *q, struct fan_sim_event e);
void fan_event_pop_far(struct fan_events *q);
bool fan_event_room(struct fan_events *q);

/* Compares as numbers of 128 bits: a branch on which event is first could not be predicted. */
static inline bool fan_event_before(const struct fan_sim_event *a, const struct fan_sim_event *b)
{
	__extension__ typedef unsigned __int128 when;
	return ((when)a->at_ns << 64 | a->key) < ((when)b->at_ns << 64 | b->key);
}

/* ---- both ---- */

/* Add an event.  Returns its key, or 0: out of memory or of orders. */
static inline uint64_t fan_event_push(struct fan_events *q, uint64_t at_ns, uint32_t source)
{
	if (q->order + 1 >= FAN_EVENT_ORDERS_MAX)
		return 0;
	struct fan_sim_event e = {at_ns, ++q->order << FAN_EVENT_SOURCE_BITS | source};
	if (at_ns - q->now_ns >= FAN_EVENT_NEAR)
		return fan_event_rise(q, e);
	if (q->near_free == q->near_room && !fan_event_room(q))
		return 0;
	uint32_t n = q->near_free, slot = e.at_ns % FAN_EVENT_NEAR, word = slot / 64;
	q->near_free = q->near[n].next;
	q->near[n].key = e.key;
	if (q->bits[word] >> slot % 64 & 1)
		q->near[q->list[slot].last].next = n;
	else
		q->list[slot].first = n;
	q->list[slot].last = n;
	q->bits[word] |= UINT64_C(1) << slot % 64;
	q->any |= UINT64_C(1) << word;
	return e.key;
}

/* The first time on the wheel, which is not empty. */
static inline uint64_t fan_event_first_near(const struct fan_events *q)
{
	uint32_t now = q->now_ns % FAN_EVENT_NEAR, word = now / 64;
	uint64_t rest = q->bits[word] >> now % 64, after = q->any >> word >> 1;
	if (rest)
		return q->now_ns + (unsigned)__builtin_ctzll(rest);
	word = after ? word + 1 + (unsigned)__builtin_ctzll(after)
		     : (unsigned)__builtin_ctzll(q->any);
	uint32_t slot = word * 64 + (unsigned)__builtin_ctzll(q->bits[word]);
	return q->now_ns + (slot - now) % FAN_EVENT_NEAR;
}

/* The first event; false: there is none. */
static inline bool fan_event_first(const struct fan_events *q, struct fan_sim_event *first)
{
	if (!q->any) {
		*first = q->count ? q->at[0] : (struct fan_sim_event){0};
		return q->count;
	}
	struct fan_sim_event e = {.at_ns = fan_event_first_near(q)};
	e.key = q->near[q->list[e.at_ns % FAN_EVENT_NEAR].first].key;
	*first = q->count && fan_event_before(&q->at[0], &e) ? q->at[0] : e;
	return true;
}

/* Set `from` to the sources of the next events on the wheel, `most` at most.  Returns how many. */
static inline unsigned fan_event_ahead(const struct fan_events *q, uint32_t *from, unsigned most)
{
	unsigned n = 0;
	if (!q->any)
		return 0;
	const uint32_t slot = fan_event_first_near(q) % FAN_EVENT_NEAR;
	for (uint32_t i = q->list[slot].first; n < most; i = q->near[i].next) {
		from[n++] = fan_event_source(q->near[i].key);
		if (i == q->list[slot].last)
			break;
	}
	return n;
}

/* Remove the first event, which is `e`. */
static inline void fan_event_pop(struct fan_events *q, const struct fan_sim_event *e)
{
	if (e->at_ns > q->now_ns)
		q->now_ns = e->at_ns;
	if (q->count && q->at[0].key == e->key) { /* the first one lies in the heap */
		fan_event_pop_far(q);
		return;
	}
	uint32_t slot = e->at_ns % FAN_EVENT_NEAR, word = slot / 64, n = q->list[slot].first;
	assert(q->bits[word] >> slot % 64 & 1 && q->near[n].key == e->key);
	if (n == q->list[slot].last) {
		q->bits[word] &= ~(UINT64_C(1) << slot % 64);
		if (!q->bits[word])
			q->any &= ~(UINT64_C(1) << word);
	}
	q->list[slot].first = q->near[n].next;
	q->near[n].next = q->near_free;
	q->near_free = n;
}

#endif
