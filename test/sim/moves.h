/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - jobs that change their routes while they run, as a controller has them do.
 *
 * New ways are drawn under a new number and installed switch by switch; then workers go there,
 * each at its own time; then the old number is taken away.  At times the old ways go first, as
 * when a switch on them has died, and at times a further plan comes before all have moved. */
#ifndef TEST_SIM_MOVES_H
#define TEST_SIM_MOVES_H

#include "routes.h"
#include "sim.h"

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
