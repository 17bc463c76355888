/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.h - what the ranks of a run do over time, in Chrome's trace format, as the library
 * writes it of real ranks (lib/trace.h): the same names, nested likewise, a line for each event.
 *
 * An all-reduce is a bucket of gradients, from when its last gradient is there.  Times begin at 0,
 * or at the first operation of a measured trace that this one is laid over. */
#ifndef FAN_SIM_TIMELINE_H
#define FAN_SIM_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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
