/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_jobs.h - metrics of a daemon's shards and of their jobs.
 *
 * Labels are bounded: `shard` by FAN_SHARDS_MAX, `fanin_job` by FAN_JOBS_MAX a shard, `reason` by
 * FAN_DROP_COUNT, `rank` by METRICS_WAITS_MAX of a job.  The label is not called `job`, which is
 * Prometheus' own. */
#ifndef FAN_CMD_METRICS_JOBS_H
#define FAN_CMD_METRICS_JOBS_H

#include "core/wire/ctlmsg.h"
#include "net/daemon.h"
#include "net/expose.h"

#define METRICS_WAITS_MAX 8 /* ranks named that a job waits for; their number is exact */

/* Jobs as shards report them.  Start with zeros; metrics_jobs_free frees what it holds. */
struct metrics_jobs {
	struct metrics_job {
		unsigned shard, copy; /* copy: others of its name in the shard before it */
		struct fan_report report;
	} * job;
	struct metrics_slots {
		unsigned shard, copy;
		struct fan_slot_stats slots;
	} * slots;
	unsigned jobs, slot_jobs;
	bool lost; /* there was no memory for one */
};

/* Add one.  A job replaces a failed one of its name; beside one that lives it has the label `copy`,
 * 1 and more, in the shard's order. */
void metrics_add_job(struct metrics_jobs *m, unsigned shard, const struct fan_report *r);
void metrics_add_slots(struct metrics_jobs *m, unsigned shard, const struct fan_slot_stats *s);
void metrics_jobs_free(struct metrics_jobs *m);

/* The families fanin_job_*. */
void metrics_put_jobs(struct fan_expose *x, const struct metrics_jobs *m);

/* Everything about a running daemon: its build, its process, shards and jobs. */
void metrics_put_daemon(struct fan_expose *x, struct fan_daemon *d, const char *role);

#endif
