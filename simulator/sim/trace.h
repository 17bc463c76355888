/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - records of a run in progress: its packets. */
#ifndef FAN_SIM_TRACE_H
#define FAN_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "experiment.h"

/* Every packet of a run, as lines for people, or as a capture for Wireshark.  The capture has
 * headers and control messages of one node's packets or of all, and ends at its bound. */

#define FAN_PCAP_BYTES_MAX (UINT64_C(64) << 20) /* of one capture */

struct fan_trace {
	const struct fan_experiment *e;
	FILE *lines;		   /* or NULL */
	FILE *pcap;		   /* or NULL */
	uint32_t node;		   /* captured packets are from or for it; FAN_SIM_NONE: any */
	uint64_t captured, missed; /* packets in the capture, and those that it had no room for */
	uint64_t bytes;		   /* of the capture */
	uint64_t until_ns;	   /* time of its last packet */
};

/* Write what `e` does from now on to `lines` and `pcap`, which are open for writing, or NULL. */
void fan_trace_begin(struct fan_trace *t, struct fan_experiment *e, FILE *lines, FILE *pcap,
		     uint32_t node);

#endif
