/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - what a rank does over time, in Chrome's trace format, which Perfetto opens.
 *
 * FANIN_TRACE=FILE keeps the last FAN_TRACE_EVENTS events of each communicator that the program
 * makes in memory, and writes them when that is destroyed: operations from their start by the
 * caller to their end, their parts, and stalls.  A line is one event, so that files of several
 * ranks can be joined line by line.  Without the variable there is nothing but tests of a pointer.
 */
#ifndef FAN_LIB_BASE_TRACE_H
#define FAN_LIB_BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define FAN_TRACE_EVENTS   65536 /* 3 MiB */
#define FAN_TRACE_STALL_NS (10 * FAN_MS)

struct fan_trace;

enum fan_trace_kind {
	FAN_TRACE_OP,	 /* from a caller's start to the end */
	FAN_TRACE_PART,	 /* from the start on a connection to its last result */
	FAN_TRACE_STALL, /* a time without a result while operations are open */
	FAN_TRACE_JOIN,	 /* until all ranks had joined */
};

struct fan_trace_event {
	enum fan_trace_kind kind;
	const char *name; /* constant */
	uint64_t begin_ns, end_ns;
	uint64_t id;	/* of the operation */
	uint64_t bytes; /* OP: of the tensor */
	uint16_t part, shard;
	int result; /* OP: enum fan_err */
};

/* For the communicator of `c`; NULL: nobody wants it, or there is no memory for it. */
struct fan_trace *fan_trace_open(const struct fan_config *c);

/* A number for an operation, different each time.  From any thread, as the next. */
uint64_t fan_trace_id(struct fan_trace *t);
void fan_trace_add(struct fan_trace *t, const struct fan_trace_event *e);

/* Free all, and before that `write` the file.  NULL is allowed. */
void fan_trace_close(struct fan_trace *t, bool write);

#endif
