/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - runs of a sweep that differ in nothing but their seed: mean and spread of a figure.
 */
#ifndef FAN_SIM_OUTCOME_H
#define FAN_SIM_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FAN_OUTCOME_NAME_BYTES 160

struct fan_outcome {
	/* "variant=ring, slots=64": all of "set" but axis and seed */
	char name[FAN_OUTCOME_NAME_BYTES];
	double x;		/* of the axis; NAN: there is none */
	double mean, low, high; /* of the figure; NAN: no run has it */
	unsigned counted, runs; /* runs that have the figure; all */
	unsigned failed, jobs;	/* jobs that failed; all */
	const char *job, *why;	/* the first that failed, and its error; of `result` */
};

/* The groups of `result`, a sweep, in the order of their first runs, to be freed by the caller;
 * `*count` of them. `axis` may be NULL. A run in which a job failed has no figure. NULL: out of
 * memory. */
struct fan_outcome *fan_outcomes_make(const json_t *result, const char *axis,
				      double (*figure)(const json_t *run), size_t *count);

/* Mean completion time of a run's jobs in seconds; NAN: none ended. */
double fan_outcome_jct(const json_t *run);

#endif
