/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - the queue of events in virtual time.
 *
 * A heap of 16-byte entries with four children a node.  An event has no memory of its own: it names
 * its source (a link whose first packet arrives, an actor whose deadline expires).  A source has
 * about one event in the heap however many packets it carries, so the heap is as small as the
 * topology.  Events of the same nanosecond happen in the order in which they were pushed. */
#ifndef FAN_SIM_EVENT_H
#define FAN_SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_EVENT_SOURCE_BITS 24
#define FAN_EVENT_SOURCES_MAX (UINT32_C(1) << FAN_EVENT_SOURCE_BITS)
#define FAN_EVENT_ORDERS_MAX  (UINT64_C(1) << (64 - FAN_EVENT_SOURCE_BITS)) /* pushes to a heap */

struct fan_sim_event {
	uint64_t at_ns;
	uint64_t key; /* order << FAN_EVENT_SOURCE_BITS | source; never 0 */
};

struct fan_event_heap {
	struct fan_sim_event *at;
	uint32_t count, room;
	uint64_t order;
};

static inline uint32_t fan_event_source(uint64_t key)
{
	return (uint32_t)key & (FAN_EVENT_SOURCES_MAX - 1);
}

void fan_event_heap_free(struct fan_event_heap *h);

/* Add an event.  Returns its key, or 0: out of memory or of orders. */
uint64_t fan_event_push(struct fan_event_heap *h, uint64_t at_ns, uint32_t source);

/* Remove the first event.  The heap must not be empty. */
void fan_event_pop(struct fan_event_heap *h);

/* Replace the first event by the next one of its source: a pop and a push in one. */
uint64_t fan_event_replace(struct fan_event_heap *h, uint64_t at_ns);

#endif
