/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - metrics of daemons and of their jobs; each says what it is.
 *
 * Labels are bounded: `shard` by FAN_SHARDS_MAX, `fanin_job` by FAN_JOBS_MAX a shard, `reason` by
 * FAN_DROP_COUNT, `rank` by METRICS_WAITS_MAX of a job, or its ranks where these run ahead.  The
 * label is not called `job`, which is Prometheus' own. */
#ifndef FAN_CMD_METRICS_H
#define FAN_CMD_METRICS_H

#include "net/expose.h"

/* The build and the process, of `role` "switch" or "server". */
void metrics_put_process(struct fan_expose *x, const char *role);

#endif
