/* SPDX-License-Identifier: Apache-2.0 */
/* route_table.h - which way a plan lets the parts of a job travel, as one switch sees it.
 *
 * A route is a number, 1 .. 65535, that stands in the upper 16 bits of `job` in every
 * message of a job that follows it.  A switch on the way has entries for it: what comes
 * from there, of these ranks, is summed here or not, and goes on there.  A rank may have
 * two entries, before and after its sum, that differ in where it comes from.
 *
 * Entries are installed as a whole and never change: a new plan has new numbers, so that
 * each packet is handled by one plan all the way, and packets of two plans never meet in
 * a slot.  doc/protocol/shared.md, section 8; adr 11. */
#ifndef FAN_WIRE_ROUTE_TABLE_H
#define FAN_WIRE_ROUTE_TABLE_H

#include "core/base/err.h"
#include "core/base/out.h"
#include "core/base/rank_set.h"

#define FAN_ROUTE_BITS 16u /* of `job`, the upper ones */

struct fan_route_entry {
	fan_peer from;			/* the switch below; none: workers that join here */
	fan_peer next;			/* who is next on the way up */
	uint64_t ranks[FAN_RANK_WORDS]; /* at least one */
	uint8_t depth;			/* hops to the aggregator: 1 .. FAN_ROUTE_HOPS_MAX */
	bool sums;			/* the parts of these ranks are summed here */
};

/* What is to be installed.  The entries are copied. */
struct fan_route_config {
	uint16_t number; /* not 0 */
	uint32_t quota;	 /* most slots that its job holds; 0: as the switch's */
	const struct fan_route_entry *entry;
	unsigned entries; /* 1 .. FAN_ROUTE_ENTRIES_MAX */
};

/* A route that is installed. */
struct fan_route {
	uint16_t number; /* 0: none, the place is free */
	uint16_t entries;
	uint32_t quota;
	struct fan_route_entry
		entry[FAN_ROUTE_ENTRIES_MAX];	  /* by next and depth: a way's in a row */
	uint64_t asked_ns[FAN_ROUTE_ENTRIES_MAX]; /* when a switch below was sent a WHO last, + 1 */
	fan_peer hop[FAN_ROUTE_ENTRIES_MAX]; /* by entry: `from`, none if an earlier one of the way
						has it */
	fan_peer all[FAN_ROUTE_ENTRIES_MAX]; /* each switch below once */
	struct fan_group below;		     /* all of `all` */
	struct fan_group way[FAN_ROUTE_ENTRIES_MAX]; /* by its first entry: the way's hops */
	uint64_t sums[FAN_RANK_WORDS];		     /* ranks summed here... */
	fan_peer up; /* ...and where their sum goes; none: no ranks */
	/* Of the last fragment whose result has passed, by its number mod FAN_WINDOW_MAX: the
	 * rest of the number, and the job's epoch in it. */
	uint32_t passed[FAN_ROUTE_LIVES][FAN_WINDOW_MAX];
};

static inline uint16_t fan_route_number(uint32_t job)
{
	return (uint16_t)(job >> FAN_ROUTE_BITS);
}

/* Write the route into the free `r`.  FAN_OK, or FAN_E_INVALID: a number, depth or count out
 * of range, no ranks, two entries that a packet could both belong to, or sums that would go two
 * ways. */
int fan_route_set(struct fan_route *r, const struct fan_route_config *c);

/* Is it what `c` says? */
bool fan_route_is(const struct fan_route *r, const struct fan_route_config *c);

/* The entry of what `from` sends of these ranks, which must all be in it.  Whoever is no
 * switch of the route is taken for a worker.  NULL: it is off the route. */
const struct fan_route_entry *fan_route_up(const struct fan_route *r, const fan_peer *from,
					   const uint64_t *ranks);

/* The same for one rank. */
const struct fan_route_entry *fan_route_up_one(const struct fan_route *r, const fan_peer *from,
					       unsigned rank);

/* Is `from` next on the way up for any rank? */
bool fan_route_leads_to(const struct fan_route *r, const fan_peer *from);

/* Which of the switches below, r->all, `from` is; -1: none. */
int fan_route_find(const struct fan_route *r, const fan_peer *from);
static inline bool fan_route_has(const struct fan_route *r, const fan_peer *from)
{
	return fan_route_find(r, from) >= 0;
}

/* The entry along which what `from`, above, has for one rank goes down; NULL: none. */
const struct fan_route_entry *fan_route_down_one(const struct fan_route *r, const fan_peer *from,
						 unsigned rank);

/* The first entry of the way from `from`, above, where a message has come `depth` hops; NULL:
 * it ends here.  r->way says which switches below it goes to. */
const struct fan_route_entry *fan_route_way(const struct fan_route *r, const fan_peer *from,
					    unsigned depth);

/* Does that way begin at workers that join here? */
bool fan_route_way_has_workers(const struct fan_route *r, const struct fan_route_entry *way);

/* A result of life `life` < FAN_ROUTE_LIVES of the job, with this epoch, comes by.  True: it is the
 * first one of the fragment, as far as is remembered. */
bool fan_route_passes(struct fan_route *r, unsigned life, uint32_t epoch, uint64_t frag);

#endif
