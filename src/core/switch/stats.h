/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - what a switch tells about its slots and the jobs it has seen. */
#ifndef FAN_SWITCH_STATS_H
#define FAN_SWITCH_STATS_H

#include "switch_priv.h"

/* Fill in the answer that every ECHO gets. */
void fan_stats_prepare(struct fan_switch *sw);

/* Answer a question about the switch. */
enum fan_verdict fan_stats_recv(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

#endif
