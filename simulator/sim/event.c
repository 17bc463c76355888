/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"

#define CHILDREN   4u
#define ROOM_FIRST 64u
#define BEFORE	   (CHILDREN - 1) /* unused entries, so that siblings fill a cache line */

void fan_event_heap_free(struct fan_event_heap *h)
{
	if (h->at)
		free(h->at - BEFORE);
	*h = (struct fan_event_heap){0};
}

/* Compares as numbers of 128 bits: a branch on which event is first could not be predicted. */
static bool before(const struct fan_sim_event *a, const struct fan_sim_event *b)
{
	__extension__ typedef unsigned __int128 when;
	return ((when)a->at_ns << 64 | a->key) < ((when)b->at_ns << 64 | b->key);
}

static bool grow(struct fan_event_heap *h)
{
	uint32_t room = h->room ? 2 * h->room : ROOM_FIRST;
	struct fan_sim_event *at = fan_pages_alloc((BEFORE + (size_t)room) * sizeof *at);
	if (!at)
		return false;
	at += BEFORE;
	if (h->at) {
		memcpy(at, h->at, h->count * sizeof *at);
		free(h->at - BEFORE);
	}
	h->at = at;
	h->room = room;
	return true;
}

uint64_t fan_event_push(struct fan_event_heap *h, uint64_t at_ns, uint32_t source)
{
	if ((h->count == h->room && !grow(h)) || h->order + 1 >= FAN_EVENT_ORDERS_MAX)
		return 0;
	struct fan_sim_event e = {at_ns, ++h->order << FAN_EVENT_SOURCE_BITS | source};
	uint32_t i = h->count++;
	while (i) {
		uint32_t parent = (i - 1) / CHILDREN;
		if (!before(&e, &h->at[parent]))
			break;
		h->at[i] = h->at[parent];
		i = parent;
	}
	h->at[i] = e;
	return e.key;
}

/* The index of the earliest of `count` adjacent events. */
static uint32_t least_of(const struct fan_sim_event *at, uint32_t count)
{
	if (count >= CHILDREN) {
		uint32_t low = before(&at[1], &at[0]), high = 2u + before(&at[3], &at[2]);
		return before(&at[high], &at[low]) ? high : low;
	}
	uint32_t least = 0;
	for (uint32_t c = 1; c < count; c++)
		if (before(&at[c], &at[least]))
			least = c;
	return least;
}

/* Sift `e` down from the top to its place. */
static void sink(struct fan_event_heap *h, struct fan_sim_event e)
{
	uint32_t i = 0;
	for (;;) {
		uint32_t first = CHILDREN * i + 1;
		if (first >= h->count)
			break;
		uint32_t least = first + least_of(&h->at[first], h->count - first);
		if (!before(&h->at[least], &e))
			break;
		h->at[i] = h->at[least];
		i = least;
	}
	h->at[i] = e;
}

void fan_event_pop(struct fan_event_heap *h)
{
	assert(h->count > 0);
	struct fan_sim_event last = h->at[--h->count];
	if (h->count)
		sink(h, last);
}

uint64_t fan_event_replace(struct fan_event_heap *h, uint64_t at_ns)
{
	assert(h->count > 0);
	uint32_t source = fan_event_source(h->at[0].key);
	if (h->order + 1 >= FAN_EVENT_ORDERS_MAX)
		return 0;
	struct fan_sim_event e = {at_ns, ++h->order << FAN_EVENT_SOURCE_BITS | source};
	sink(h, e);
	return e.key;
}
