/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - runs of a sweep that differ in nothing but their seed: mean and spread of the
 * completion times of their jobs. */
#ifndef FAN_SIM_OUTCOME_H
#define FAN_SIM_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FAN_OUTCOME_NAME_BYTES 160

struct fan_outcome {
	char name[FAN_OUTCOME_NAME_BYTES]; /* "ring, slots=64": all of "set" but the seed */
	double mean, low, high; /* mean completion time of a run's jobs, s; NAN: no run has it */
	unsigned counted, runs; /* runs that have it; all */
	unsigned failed, jobs;	/* jobs that failed; all */
	const char *job, *why;	/* the first that failed, and its error; of `result` */
};

/* The groups of `result`, a sweep, in the order of their first runs, to be freed by the caller;
 * `*count` of them.  A run in which a job failed has no time.  NULL: out of memory. */
struct fan_outcome *fan_outcomes_make(const json_t *result, size_t *count);

#endif
