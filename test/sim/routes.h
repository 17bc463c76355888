/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h - random ways for the parts of jobs through switches that are all linked.
 *
 * Each rank joins somewhere, its parts go on to one of a few switches that sum, or to the
 * aggregator, and each sum goes on to another such switch, or to the aggregator; over any switches,
 * and over the same one more than once.  What a planner would never do is drawn as well,
 * as long as a route can say it. */
#ifndef TEST_SIM_ROUTES_H
#define TEST_SIM_ROUTES_H

#include "core/switch/switch.h"
#include "draw.h"

#define ROUTES_SWITCHES_MAX 6
#define ROUTES_AGGREGATOR   ROUTES_SWITCHES_MAX /* as a place */
#define ROUTES_STEPS_MAX    FAN_ROUTE_HOPS_MAX

/* Where one rank's part passes: switches, and the aggregator at the end. */
struct routes_walk {
	unsigned steps;
	uint8_t at[ROUTES_STEPS_MAX + 1];
	bool sums[ROUTES_STEPS_MAX + 1];
};

/* One job's. */
struct routes {
	uint16_t number;
	unsigned ranks;
	struct routes_walk walk[FAN_RANKS_MAX];
};

/* Draw the ways of a job of `ranks` through so many switches. */
void routes_draw(struct routes *r, struct fan_rng *rng, uint16_t number, unsigned ranks,
		 unsigned switches);

/* The ways of two levels: each rank's part is summed in its rack's switch, 1 and on, and the racks'
 * sums in switch 0. */
void routes_levels(struct routes *r, uint16_t number, unsigned ranks, unsigned switches);

/* What switch `place` must know of it, `peer` being the addresses of all places: how many
 * entries; 0: nothing, it is on no way. */
unsigned routes_entries(const struct routes *r, unsigned place, const fan_peer *peer,
			struct fan_route_entry *entry);

#endif
