/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - jobs that change their routes while they run, as a controller has them do.
 *
 * New ways are drawn under a new number and installed switch by switch; then workers go there,
 * each at its own time; then the old number is taken away.  At times the old ways go first, as
 * when a switch on them has died, and at times a further plan comes before all have moved. */
#ifndef TEST_SIM_MOVES_H
#define TEST_SIM_MOVES_H

#include "core/switch/switch.h"
#include "draw.h"
#include "sim.h"

/* ---- random ways for the parts of jobs through switches that are all linked.
 *
 * Each rank joins somewhere, its parts go on to one of a few switches that sum, or to the
 * aggregator, and each sum goes on to another such switch, or to the aggregator; over any switches,
 * and over the same one more than once.  What a planner would never do is drawn as well,
 * as long as a route can say it. ---- */

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

/* ---- moves ---- */

#define MOVES_MAX	 5 /* of one job */
#define MOVES_ROUTES_MAX (3 * (MOVES_MAX + 1))

struct run;

enum moves_phase { MOVES_REST, MOVES_INSTALL, MOVES_TELL, MOVES_WAIT };

/* One job's. */
struct moves_job {
	struct routes ways;
	unsigned left; /* moves to be made */
	enum moves_phase phase;
	uint64_t at_ns; /* when the phase goes on */
	bool cut;	/* the old ways go before workers know the new ones */
	bool hasty;	/* the next plan does not wait for all to have moved */
	unsigned olds;
	uint16_t old[MOVES_MAX + 1];
	uint64_t tell_ns[FAN_RANKS_MAX]; /* by rank; 0: told */
};

struct moves {
	struct run *run;
	int node;
	struct fan_rng rng;
	unsigned jobs;
	struct moves_job job[3];
	uint64_t next_ns;
	unsigned made, finished; /* moves; those that all ranks had made */
};

/* Begin; the hosts are there and have their first routes. */
void moves_begin(struct moves *m, struct run *r);

#endif
