/* SPDX-License-Identifier: Apache-2.0 */
/* tree_uplink.h - the uplink: a job's membership at the parent of its aggregator. */
#ifndef FAN_AGGREGATOR_TREE_UPLINK_H
#define FAN_AGGREGATOR_TREE_UPLINK_H

#include "aggregator_priv.h"

/* Most items of one step. */
#define FAN_TREE_UPLINK_ITEMS 4

/* All members are ready: join at the parent. */
void fan_tree_uplink_begin(struct fan_aggregator *ag, struct fan_job *j);

/* Leave the parent with the cause `err`.  True if that takes further steps. */
bool fan_tree_uplink_end(struct fan_aggregator *ag, struct fan_job *j, int err);

/* Send round `round`, which is AWAITING. */
void fan_tree_uplink_send(struct fan_aggregator *ag, struct fan_job *j,
			  const struct fan_round *round, struct fan_out *out);

/* Run the uplink's timers and changes of phase. */
void fan_tree_uplink_step(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* Time of the next step; UINT64_MAX: none is needed. */
uint64_t fan_tree_uplink_deadline(const struct fan_job *j);

#endif
