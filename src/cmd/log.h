/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the log of daemons and controllers: lines with their time, to standard error.
 *
 * Strangers can cause lines, so there is a bound: a burst, and then so many a second.  What is left
 * out is counted, and a line says how much it was. */
#ifndef FAN_CMD_LOG_H
#define FAN_CMD_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_BURST     2000 /* lines at a time: the start of the largest job, all counters */
#define LOG_LINES_A_S 20   /* after that: 300 MB a day at most */

/* What has been taken of the bound.  All zero: nothing. */
struct log_bound {
	uint64_t full_ns; /* time at which a whole burst may come again */
	uint64_t omitted; /* since the last line */
};

/* May a line be written at `now_ns`?  If so `*omitted` is the number of those left out before. */
bool log_takes(struct log_bound *b, uint64_t now_ns, uint64_t *omitted);

/* Write a line.  Threads may call it. */
void cmd_log(const char *line);

#endif
