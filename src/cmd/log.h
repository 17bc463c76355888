/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the log of daemons and controllers: lines with their time, to standard error.
 *
 * Strangers can cause lines, so there are bounds: a burst, and then so many a second.  What costs a
 * stranger a packet, and what costs him some, have bounds of their own, so that they displace no
 * other line. What is left out is counted, and a line says how much it was. */
#ifndef FAN_CMD_LOG_H
#define FAN_CMD_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_BURST     2000 /* lines at a time: the start of the largest job, all counters */
#define LOG_LINES_A_S 20   /* after that: 300 MB a day at most */

#define LOG_REFUSALS_BURST 200
#define LOG_REFUSALS_A_S   2

/* What may displace each other. */
enum log_kind {
	LOG_REFUSALS, /* of ranks, daemons and lines: one packet makes one */
	LOG_COMINGS,  /* jobs and ranks that come, move and go: whoever may join makes these */
	LOG_REST,     /* jobs that are ready or fail, warnings, answers to signals */
	LOG_KINDS
};

/* What has been taken of a bound.  All zero: nothing. */
struct log_bound {
	uint64_t full_ns; /* time at which a whole burst may come again */
	uint64_t omitted; /* since the last line */
};

/* Of which kind is the line? */
enum log_kind log_kind_of(const char *line);

/* May a line of `kind`, whose bound is `b`, be written at `now_ns`?  If so `*omitted` is the number
 * of those left out before. */
bool log_takes(struct log_bound *b, enum log_kind kind, uint64_t now_ns, uint64_t *omitted);

/* Write a line.  Threads may call it. */
void cmd_log(const char *line);

#endif
