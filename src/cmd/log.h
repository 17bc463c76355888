/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the log of daemons and controllers: lines with their time, to standard error; where that
 * is the journal (systemd's JOURNAL_STREAM), to its socket, with fields.
 *
 * Strangers can cause lines, so lines are bounded: a burst, then a rate.  Lines that cost a
 * stranger one packet, and lines that cost a few, have bounds of their own, so that they displace
 * no others.  A line reports how many were left out.
 *
 * A thread of its own writes them, so that nobody else waits for who reads standard error: a full
 * pipe, a terminal that was stopped.  Lines that find no room, or nobody to read them, are lost and
 * counted; no signal comes of it. */
#ifndef FAN_CMD_LOG_H
#define FAN_CMD_LOG_H

#include <stdint.h>

/* Write a line.  Threads may call it; it does not wait. */
void cmd_log(const char *line);

/* Lines that found no room, or could not be written. */
uint64_t log_lost(void);

#endif
