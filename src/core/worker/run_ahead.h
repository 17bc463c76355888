/* SPDX-License-Identifier: Apache-2.0 */
/* run_ahead.h - the bound of a worker's distance to the slowest rank. */
#ifndef FAN_WORKER_RUN_AHEAD_H
#define FAN_WORKER_RUN_AHEAD_H

#include "worker_priv.h"

/* The window of a job with run-ahead has been opened. */
void fan_run_ahead_begin(struct fan_worker *w);

/* The RESULT of slot `s` has come. */
void fan_run_ahead_heard(struct fan_worker *w, const struct fan_wslot *s,
			 const struct fan_frag *result);

/* A PROGRESS message for this worker's job has come. */
enum fan_verdict fan_run_ahead_progress(struct fan_worker *w, uint64_t now_ns,
					const struct fan_frag *f);

#endif
