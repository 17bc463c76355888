/* SPDX-License-Identifier: Apache-2.0 */
/* tree_source.h - the rounds of an aggregator as source and destination of its uplink. */
#ifndef FAN_WORKER_TREE_SOURCE_H
#define FAN_WORKER_TREE_SOURCE_H

#include "worker_priv.h"

/* Is the round of `frag` AWAITING? */
bool fan_tree_source_has(const struct fan_worker *w, uint64_t frag);

/* Fill in the contribution, beyond its job and number. */
void fan_tree_source_fill(const struct fan_worker *w, uint64_t frag, struct fan_frag *f);

/* Is `f` the result of the contribution?  -1, or the reason to drop it. */
int fan_tree_source_unfit(const struct fan_worker *w, const struct fan_frag *f);

/* Put the result into the round, which is DONE then. */
void fan_tree_source_take(const struct fan_worker *w, const struct fan_frag *f);

#endif
