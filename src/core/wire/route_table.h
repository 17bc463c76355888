/* SPDX-License-Identifier: Apache-2.0 */
/* route_table.h - routes: the paths of a job's contributions under a plan, as one switch has them.
 *
 * A route is a number, 1 .. 65535, in the upper 16 bits of `job` in every message of a job on
 * it.  Each switch of the route has entries: contributions of these ranks from this neighbour
 * are summed here or not, and go on to that neighbour.  A rank may have two entries with
 * different `from`, before and after its sum.
 *
 * Entries are installed together and never change: a new plan has new numbers, so one plan
 * handles a packet from end to end, and packets of two plans never meet in a slot.
 * doc/protocol/shared.md, section 8; adr 11. */
#ifndef FAN_WIRE_ROUTE_TABLE_H
#define FAN_WIRE_ROUTE_TABLE_H

#include "core/base/err.h"
#include "core/base/out.h"
#include "core/base/rank_set.h"

#define FAN_ROUTE_BITS 16u /* upper bits of `job` */

struct fan_route_entry {
	fan_peer from;			/* the switch below; none: workers that join here */
	fan_peer next;			/* the next hop */
	uint64_t ranks[FAN_RANK_WORDS]; /* at least one */
	uint8_t depth;			/* hops to the aggregator: 1 .. FAN_ROUTE_HOPS_MAX */
	bool sums;			/* contributions of these ranks are summed here */
};

/* A route to be installed.  The entries are copied. */
struct fan_route_config {
	uint16_t number; /* not 0 */
	uint32_t quota;	 /* most slots that its job holds; 0: the switch's quota */
	const struct fan_route_entry *entry;
	unsigned entries; /* 1 .. FAN_ROUTE_ENTRIES_MAX */
};

/* An installed route.  A path is the entries with one next hop and depth, in a row. */
struct fan_route {
	uint16_t number; /* 0: free */
	uint16_t entries;
	uint32_t quota;
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX]; /* sorted by path */
	uint64_t
		asked_ns[FAN_ROUTE_ENTRIES_MAX]; /* by entry: time of the last WHO to `from`, + 1 */
	/* by entry: `from`; none if an earlier entry of the path has it */
	fan_peer hop[FAN_ROUTE_ENTRIES_MAX];
	fan_peer all[FAN_ROUTE_ENTRIES_MAX];	      /* each switch below once */
	struct fan_group below;			      /* all of `all` */
	struct fan_group path[FAN_ROUTE_ENTRIES_MAX]; /* by first entry of a path: its hops */
	uint64_t sums[FAN_RANK_WORDS];		      /* ranks summed here */
	fan_peer up; /* next hop of their sum; none if `sums` is empty */
	/* By fragment number mod FAN_WINDOW_MAX: a hash of the epoch and the rest of the number of
	 * the last result that passed. */
	uint32_t passed[FAN_ROUTE_LIVES][FAN_WINDOW_MAX];
};

static inline uint16_t fan_route_number(uint32_t job)
{
	return (uint16_t)(job >> FAN_ROUTE_BITS);
}

/* Are both the id of one job, on any routes? */
static inline bool fan_job_id_is(uint32_t a, uint32_t b)
{
	return !((a ^ b) & ((UINT32_C(1) << FAN_ROUTE_BITS) - 1));
}

/* `id` on a route. */
static inline uint32_t fan_job_id_on(uint32_t id, uint16_t route)
{
	return (uint32_t)route << FAN_ROUTE_BITS | (id & ((UINT32_C(1) << FAN_ROUTE_BITS) - 1));
}

/* Write the route into the free `r`.  FAN_OK, or FAN_E_INVALID: a number, depth or count out of
 * range, no ranks, two entries that fit one packet, or sums with two next hops. */
int fan_route_set(struct fan_route *r, const struct fan_route_config *c);

/* Is `r` the route `c`? */
bool fan_route_is(const struct fan_route *r, const struct fan_route_config *c);

/* The entry for contributions of `ranks` that `from` sends; it has all of them.  A sender that is
 * no switch of the route counts as a worker.  NULL: the sender is off the route. */
const struct fan_route_entry *fan_route_up(const struct fan_route *r, const fan_peer *from,
					   const uint64_t *ranks);

/* As fan_route_up, for one rank. */
const struct fan_route_entry *fan_route_up_one(const struct fan_route *r, const fan_peer *from,
					       unsigned rank);

/* Is `from` a next hop of any rank? */
bool fan_route_leads_to(const struct fan_route *r, const fan_peer *from);

/* Which of the switches below, r->all, `from` is; -1: none. */
int fan_route_find(const struct fan_route *r, const fan_peer *from);

/* The entry by which a message of the next hop `from` to one rank goes down; NULL: none. */
const struct fan_route_entry *fan_route_down_one(const struct fan_route *r, const fan_peer *from,
						 unsigned rank);

/* The first entry of the path of a message that comes from the next hop `from` after `depth` hops;
 * NULL: it ends here.  r->path has the switches to which the message goes. */
const struct fan_route_entry *fan_route_path(const struct fan_route *r, const fan_peer *from,
					     unsigned depth);

/* Do workers join here on that path? */
bool fan_route_path_has_workers(const struct fan_route *r, const struct fan_route_entry *path);

/* Note the result of a fragment, of life `life` < FAN_ROUTE_LIVES of the job with this epoch.  True
 * if it is the first result of the fragment, as far as `passed` remembers. */
bool fan_route_passes(struct fan_route *r, unsigned life, uint32_t epoch, uint64_t frag);

#endif
