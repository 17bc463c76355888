/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - runs of a sweep that differ only in their seed: mean and spread of completion
 * times. */
#ifndef FAN_SIM_OUTCOME_H
#define FAN_SIM_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FAN_OUTCOME_NAME_BYTES 160

struct fan_outcome {
	char name[FAN_OUTCOME_NAME_BYTES]; /* "ring, slots=64": all of "set" except the seed */
	double mean, low, high; /* of the runs' mean completion times, s; NAN: no run has one */
	unsigned counted, runs; /* runs that have a mean time; all runs */
	unsigned failed, jobs;	/* jobs that failed; all jobs */
	const char *job, *why;	/* the first failed job and its error, both in `result` */
};

/* The groups of the sweep `result`, in the order of their first runs, for the caller to free;
 * `*count` of them.  A run in which a job failed has no time.  NULL: out of memory. */
struct fan_outcome *fan_outcomes_make(const json_t *result, size_t *count);

#endif
