/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - the multicast group of a job: its address, and whether members hear it. */
#ifndef FAN_AGGREGATOR_GROUP_H
#define FAN_AGGREGATOR_GROUP_H

#include "aggregator_priv.h"

/* Write the group's address to `addr`, 16 bytes in network order, IPv4 in the first 4: job number i
 * has the configured one + i. */
void fan_job_group_put(const struct fan_aggregator *ag, const struct fan_job *j, uint8_t *addr);

/* Let the job have its group, by the interface towards `via`. */
void fan_job_group_set(const struct fan_aggregator *ag, struct fan_job *j, const fan_peer *via);

/* Turn the multicast group off if many members miss results.  Called for each replay and, with
 * rank FAN_RANK_NONE, for each result. */
void fan_job_group_health(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank);

#endif
