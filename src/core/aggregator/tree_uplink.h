/* SPDX-License-Identifier: Apache-2.0 */
/* tree_uplink.h - a job's membership at the parent of its aggregator. */
#ifndef FAN_AGGREGATOR_TREE_UPLINK_H
#define FAN_AGGREGATOR_TREE_UPLINK_H

#include "aggregator_priv.h"

/* Items that one step may need. */
#define FAN_TREE_UPLINK_ITEMS 4

/* All members are here: be one at the parent. */
void fan_tree_uplink_begin(struct fan_aggregator *ag, struct fan_job *j);

/* Be no longer one, because of `err`.  True if that takes a while. */
bool fan_tree_uplink_end(struct fan_aggregator *ag, struct fan_job *j, int err);

/* Round `round` is AWAITING: send it. */
void fan_tree_uplink_send(struct fan_aggregator *ag, struct fan_job *j,
			  const struct fan_round *round, struct fan_out *out);

/* Do what time and the uplink's phase ask for. */
void fan_tree_uplink_step(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* When the next step is due; UINT64_MAX: never. */
uint64_t fan_tree_uplink_deadline(const struct fan_job *j);

#endif
