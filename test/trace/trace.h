/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - a script of one job on one switch, run in virtual time, as lines of text.
 *
 * A script is lines of words; # begins a comment.
 *
 *     ranks N | window N | payload N | group | alive MS | stall MS | link US
 *     op SUM|AVG|MIN|MAX|BCAST|BARRIER COUNT [fixed] [reduce] [root R] [int64] [rank R]
 *     start R US       rank R joins so much later
 *     deaf R           rank R hears no multicast
 *     idle R           rank R begins no operation
 *     lose TYPE R N    packet number N (1 is the first) of the type between rank R and
 *                      the switch is lost
 *     delay TYPE R N US    or arrives so much later
 *     again TYPE R N US    or arrives a second time, so much later
 *     die R US         rank R is gone at that time
 *     show TYPE...     of these types the trace tells; others are there in silence
 *
 * `op ... rank R` is what rank R begins instead of the operation before it.
 *
 * Below it stands what the trace was when it was recorded: lines that begin with "[".  Another
 * script may follow. */
#ifndef TEST_TRACE_TRACE_H
#define TEST_TRACE_TRACE_H

#include <stdio.h>

#include "sim/host.h"

#define TRACE_RANKS_MAX 16
#define TRACE_RULES_MAX 16

enum trace_what { TRACE_LOSE, TRACE_DELAY, TRACE_AGAIN };

struct trace_rule {
	enum trace_what what;
	uint8_t type;
	uint16_t rank;
	unsigned number; /* counts down to the packet that is meant */
	uint64_t by_ns;
};

struct trace_script {
	struct host_job job;
	bool group;
	uint64_t delay_ns;
	uint64_t start_ns[TRACE_RANKS_MAX], die_ns[TRACE_RANKS_MAX];
	bool deaf[TRACE_RANKS_MAX], idle[TRACE_RANKS_MAX];
	struct tensor_op other[TRACE_RANKS_MAX];
	unsigned other_at[TRACE_RANKS_MAX]; /* operation number + 1 */
	struct trace_rule rule[TRACE_RULES_MAX];
	unsigned rules;
	uint64_t shown; /* bit for each message type */
};

/* Read the next script of `f`, which is the file `path`, and copy it to `copy` where that is not
 * NULL; false at the end.  Wrong lines end the program with what was expected. */
bool trace_read(struct trace_script *s, FILE *f, const char *path, FILE *copy);

/* The next line of what was recorded below it, without its end; its number, or 0: there is none. */
unsigned trace_recorded(FILE *f, char *line, size_t bytes);

/* The number of a message type by its name, or -1; and its name. */
int trace_type(const char *name);
const char *trace_type_name(unsigned type);

#endif
