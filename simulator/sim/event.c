/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <assert.h>
#include <stdlib.h>

#define CHILDREN   4u
#define ROOM_FIRST 64u

void fan_events_free(struct fan_events *q)
{
	free(q->at);
	free(q->near);
	*q = (struct fan_events){0};
}

/* `at`, moved to twice the room; NULL: out of memory, and it stays. */
static void *larger(void *at, uint32_t *room, size_t bytes)
{
	uint32_t more = *room ? 2 * *room : ROOM_FIRST;
	at = realloc(at, more * bytes);
	*room = at ? more : *room;
	return at;
}

uint64_t fan_event_rise(struct fan_events *q, struct fan_sim_event e)
{
	if (q->count == q->room) {
		void *at = larger(q->at, &q->room, sizeof *q->at);
		if (!at)
			return 0;
		q->at = at;
	}
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

void fan_event_pop_far(struct fan_events *q)
{
	assert(q->count > 0);
	struct fan_sim_event e = q->at[--q->count];
	uint32_t i = 0;
	for (uint32_t first; (first = CHILDREN * i + 1) < q->count;) {
		uint32_t least = first;
		for (uint32_t c = first + 1; c < first + CHILDREN && c < q->count; c++)
			least = fan_event_before(&q->at[c], &q->at[least]) ? c : least;
		if (!fan_event_before(&q->at[least], &e))
			break;
		q->at[i] = q->at[least];
		i = least;
	}
	q->at[i] = e;
}

bool fan_event_room(struct fan_events *q)
{
	uint32_t before = q->near_room;
	void *near = larger(q->near, &q->near_room, sizeof *q->near);
	if (!near)
		return false;
	q->near = near;
	for (uint32_t i = before; i < q->near_room; i++)
		q->near[i].next = i + 1;
	return true;
}
