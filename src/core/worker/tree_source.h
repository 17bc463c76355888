/* SPDX-License-Identifier: Apache-2.0 */
/* tree_source.h - what an uplink sends, and where its results go: the rounds of its
 * aggregator. */
#ifndef FAN_WORKER_TREE_SOURCE_H
#define FAN_WORKER_TREE_SOURCE_H

#include "worker_priv.h"

/* Is there something to send for `frag`? */
bool fan_tree_source_has(const struct fan_worker *w, uint64_t frag);

/* What the contribution says beyond its job and number. */
void fan_tree_source_fill(const struct fan_worker *w, uint64_t frag, struct fan_frag *f);

/* Is `f` the result of what was sent?  -1, or why it is dropped. */
int fan_tree_source_unfit(const struct fan_worker *w, const struct fan_frag *f);

/* The round gets the result and is DONE. */
void fan_tree_source_take(const struct fan_worker *w, const struct fan_frag *f);

#endif
