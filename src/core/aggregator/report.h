/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - questions that an aggregator answers to any sender: its jobs, their ranks, and ECHO.
 * doc/protocol/stats.md */
#ifndef FAN_AGGREGATOR_REPORT_H
#define FAN_AGGREGATOR_REPORT_H

#include "aggregator_priv.h"

/* Answer the QUERY `f` of `from`.  FAN_CTL, or FAN_DROP if it is malformed. */
enum fan_verdict fan_report_query(struct fan_aggregator *ag, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* Prepare the answer to ECHO, which depends on the configuration alone. */
void fan_report_prepare_echo(struct fan_aggregator *ag);

#endif
