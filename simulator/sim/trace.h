/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - records of a run in progress: its packets, and what its ranks do. */
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

/* The operations of a run's ranks over time, in Chrome's trace format, with the names and nesting
 * of the library's trace (lib/base/trace.h) and a line for each event.
 *
 * An all-reduce is one bucket of gradients, from the time of its last gradient on. */

#define FAN_TIMELINE_STALL_NS UINT64_C(10000000) /* without a result: like FAN_TRACE_STALL_NS */

struct fan_experiment;
struct fan_timeline;
struct fan_trainer;

/* Write what the ranks of `e` do from now on to `f`, which stays open, with `start_ns` added to all
 * times.  NULL: out of memory. */
struct fan_timeline *fan_timeline_begin(struct fan_experiment *e, FILE *f, uint64_t start_ns);

/* Record what has changed at a rank of any job of the experiment.  A NULL `l` is allowed. */
void fan_timeline_look(struct fan_timeline *l, const struct fan_trainer *t);

/* End the file and free everything.  NULL is allowed. */
void fan_timeline_end(struct fan_timeline *l);

#endif
