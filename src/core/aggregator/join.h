/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - JOINs at an aggregator. */
#ifndef FAN_AGGREGATOR_JOIN_H
#define FAN_AGGREGATOR_JOIN_H

#include "aggregator_priv.h"

/* Handle a JOIN: let its sender in, refuse it, or ask it to prove its address first. */
enum fan_verdict fan_join_recv(struct fan_aggregator *ag, const fan_peer *from,
			       const struct fan_frag *f, struct fan_out *out);

#endif
