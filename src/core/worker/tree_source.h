/* SPDX-License-Identifier: Apache-2.0 */
/* tree_source.h - the rounds of an aggregator as source and destination of its uplink. */
#ifndef FAN_WORKER_TREE_SOURCE_H
#define FAN_WORKER_TREE_SOURCE_H

#include "source.h"

/* It has the rounds that are AWAITING; with its result a round is DONE. */
extern const struct fan_source fan_tree_source;

#endif
