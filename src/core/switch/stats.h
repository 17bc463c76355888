/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - a switch's answers to QUERY. */
#ifndef FAN_SWITCH_STATS_H
#define FAN_SWITCH_STATS_H

#include "switch_priv.h"

/* Prepare the answer to ECHO. */
void fan_stats_prepare(struct fan_switch *sw);

/* Answer the QUERY `f`. */
enum fan_verdict fan_stats_recv(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

#endif
