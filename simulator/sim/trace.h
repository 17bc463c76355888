/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - a run written down as it goes: its packets, and what its ranks do. */
#ifndef FAN_SIM_TRACE_H
#define FAN_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "experiment.h"

/* ---- trace.c ---- */

/* Every packet of a run: as lines for people, or as a capture for Wireshark, which has headers and
 * control messages, of one node's packets or of all, until it has reached its bound. */

#define FAN_PCAP_BYTES_MAX (UINT64_C(64) << 20) /* of a capture */

struct fan_trace {
	const struct fan_experiment *e;
	FILE *lines;		   /* or NULL */
	FILE *pcap;		   /* or NULL */
	uint32_t node;		   /* that captured packets are from or for; FAN_SIM_NONE: any */
	uint64_t captured, missed; /* packets: in the capture, and that it has no room for */
	uint64_t bytes;		   /* of the capture */
	uint64_t until_ns;	   /* time of its last packet */
};

/* Write what `e` does from now on to the files, which are open for writing. */
void fan_trace_begin(struct fan_trace *t, struct fan_experiment *e, FILE *lines, FILE *pcap,
		     uint32_t node);

/* ---- timeline.c ---- */

/* The operations of a run's ranks over time, in Chrome's trace format, with the names and the
 * nesting that the library's trace has (lib/base/trace.h), a line for each event.
 *
 * An all-reduce is a bucket of gradients, from when its last gradient is there.  Times begin at 0,
 * or at the first operation of a measured trace that this one is laid over. */

#define FAN_TIMELINE_STALL_NS UINT64_C(10000000) /* without a result: as FAN_TRACE_STALL_NS */

struct fan_experiment;
struct fan_timeline;
struct fan_trainer;

/* Write what the ranks of `e` do from now on to `f`, which stays open.  `beside`: a trace of
 * real ranks, whose events come first, or NULL; it must be a list with an event a line.  NULL with
 * errno: there is no such trace, or no memory. */
struct fan_timeline *fan_timeline_begin(struct fan_experiment *e, FILE *f, FILE *beside);

/* Look at what has changed at a rank of any job of the experiment; with NULL do nothing. */
void fan_timeline_look(struct fan_timeline *l, const struct fan_trainer *t);

/* End the file, and free all.  NULL is allowed. */
void fan_timeline_end(struct fan_timeline *l);

#endif
