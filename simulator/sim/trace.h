/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - every packet of a run: as lines for people, or as a capture for Wireshark. */
#ifndef FAN_SIM_TRACE_H
#define FAN_SIM_TRACE_H

#include <stdio.h>

#include "experiment.h"

struct fan_trace {
	const struct fan_experiment *e;
	FILE *lines; /* or NULL */
	FILE *pcap;  /* or NULL */
};

/* Write what `e` does from now on to the files, which are open for writing. */
void fan_trace_begin(struct fan_trace *t, struct fan_experiment *e, FILE *lines, FILE *pcap);

#endif
