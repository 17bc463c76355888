/* SPDX-License-Identifier: Apache-2.0 */
/* shard_tell.h - what a shard says of itself: lines of the log, and its health.  Called by its
 * thread alone. */
#ifndef FAN_SHARD_TELL_H
#define FAN_SHARD_TELL_H

#include "shard.h"

/* Log the aggregator's events; the counters; what each job waits for. */
void fan_shard_tell_events(struct fan_shard *s);
void fan_shard_tell_counters(struct fan_shard *s);
void fan_shard_tell_jobs(struct fan_shard *s);

/* Log, once, that datagrams were too long for a path; that some came by queue `q` of the plane
 * without a checksum.  That the path to the next hop loses large ones. */
void fan_shard_tell_too_long(struct fan_shard *s);
void fan_shard_tell_unfinished(struct fan_shard *s);
void fan_shard_tell_above(struct fan_shard *s);

void fan_shard_fill_health(const struct fan_shard *s, struct fan_shard_health *h);

#endif
