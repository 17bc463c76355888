/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - one seed from beginning to end. */
#ifndef TEST_SIM_RUN_H
#define TEST_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

struct run_options {
	int story; /* enum story; negative: as the seed says */
	enum plan_policy policy;
	bool stragglers, verbose;
	bool sealed;   /* jobs are */
	uint32_t loss; /* of all links, in a million; 0: as the seed says */
};

/* What switches have done in all seeds, to see that what is to be tested has happened. */
struct run_totals {
	uint64_t completions; /* sums of all ranks below */
	uint64_t preemptions; /* slots taken from a lower priority */
	uint64_t yields;      /* slots that gave way since they waited for stragglers */
	uint64_t late;	      /* parts of stragglers that found their slot left */
	uint64_t collided;    /* contributions dropped for want of a slot */
	uint64_t sealed;      /* packets... */
	uint64_t refused;     /* ...and those that aggregators did not open */
	uint64_t lent, kept;  /* to helpers, and what those have added */
};

/* Run the plan of `seed` and add to `totals`.  Returns if all is as it must be, otherwise says what
 * is not and ends the process. */
void run_seed(const struct run_options *o, uint64_t seed, struct run_totals *totals);

#endif
