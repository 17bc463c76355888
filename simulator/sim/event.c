/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"

#define CHILDREN   4u
#define ROOM_FIRST 64u
#define BEFORE	   (CHILDREN - 1) /* unused entries, so that siblings fill a cache line */

void fan_events_free(struct fan_events *q)
{
	if (q->at)
		free(q->at - BEFORE);
	free(q->near);
	*q = (struct fan_events){0};
}

/* ---- the heap ---- */

static bool grow(struct fan_events *q)
{
	uint32_t room = q->room ? 2 * q->room : ROOM_FIRST;
	struct fan_sim_event *at = fan_pages_alloc((BEFORE + (size_t)room) * sizeof *at);
	if (!at)
		return false;
	at += BEFORE;
	if (q->at) {
		memcpy(at, q->at, q->count * sizeof *at);
		free(q->at - BEFORE);
	}
	q->at = at;
	q->room = room;
	return true;
}

uint64_t fan_event_rise(struct fan_events *q, struct fan_sim_event e)
{
	if (q->count == q->room && !grow(q))
		return 0;
	uint32_t i = q->count++;
	while (i) {
		uint32_t parent = (i - 1) / CHILDREN;
		if (!fan_event_before(&e, &q->at[parent]))
			break;
		q->at[i] = q->at[parent];
		i = parent;
	}
	q->at[i] = e;
	return e.key;
}

/* The index of the earliest of `count` adjacent events. */
static uint32_t least_of(const struct fan_sim_event *at, uint32_t count)
{
	if (count >= CHILDREN) {
		uint32_t low = fan_event_before(&at[1], &at[0]),
			 high = 2u + fan_event_before(&at[3], &at[2]);
		return fan_event_before(&at[high], &at[low]) ? high : low;
	}
	uint32_t least = 0;
	for (uint32_t c = 1; c < count; c++)
		if (fan_event_before(&at[c], &at[least]))
			least = c;
	return least;
}

/* Sift `e` down from the top to its place. */
static void sink(struct fan_events *q, struct fan_sim_event e)
{
	uint32_t i = 0;
	for (;;) {
		uint32_t first = CHILDREN * i + 1;
		if (first >= q->count)
			break;
		uint32_t least = first + least_of(&q->at[first], q->count - first);
		if (!fan_event_before(&q->at[least], &e))
			break;
		q->at[i] = q->at[least];
		i = least;
	}
	q->at[i] = e;
}

/* ---- the wheel ---- */

bool fan_event_room(struct fan_events *q)
{
	uint32_t room = q->near_room ? 2 * q->near_room : ROOM_FIRST;
	struct fan_event_near *near = realloc(q->near, room * sizeof *near);
	if (!near)
		return false;
	for (uint32_t i = q->near_room; i < room; i++)
		near[i].next = i + 1;
	q->near = near;
	q->near_room = room;
	return true;
}

void fan_event_pop_far(struct fan_events *q)
{
	assert(q->count > 0);
	struct fan_sim_event last = q->at[--q->count];
	if (q->count)
		sink(q, last);
}

uint64_t fan_event_replace_far(struct fan_events *q, uint64_t at_ns)
{
	assert(q->count > 0);
	uint32_t source = fan_event_source(q->at[0].key);
	if (q->at[0].at_ns > q->now_ns)
		q->now_ns = q->at[0].at_ns;
	if (q->order + 1 >= FAN_EVENT_ORDERS_MAX)
		return 0;
	struct fan_sim_event e = {at_ns, ++q->order << FAN_EVENT_SOURCE_BITS | source};
	sink(q, e);
	return e.key;
}
