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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_BURST     2000 /* lines of a burst: the start of the largest job, all counters */
#define LOG_LINES_A_S 20   /* after that: 300 MB a day at most */

#define LOG_REFUSALS_BURST 200
#define LOG_REFUSALS_A_S   2

/* Kinds of lines, each with a bound of its own. */
enum log_kind {
	LOG_REFUSALS, /* of ranks, daemons and lines: one packet causes one */
	LOG_COMINGS,  /* jobs and ranks that join, move and leave: members cause these */
	LOG_REST,     /* jobs that are ready or fail, warnings, answers to signals */
	LOG_KINDS
};

/* Use of a bound.  All zero: none. */
struct log_bound {
	uint64_t full_ns; /* time at which a whole burst is permitted again */
	uint64_t omitted; /* since the last line */
};

/* May a line of `kind`, whose bound is `b`, be written at `now_ns`?  If so `*omitted` is the number
 * of those left out before. */
bool log_takes(struct log_bound *b, enum log_kind kind, uint64_t now_ns, uint64_t *omitted);

#define LOG_ENTRY_BYTES 8192 /* of a line for the journal, with its fields */

/* Fill `entry`, LOG_ENTRY_BYTES, with a line as the journal takes it: MESSAGE, PRIORITY,
 * SYSLOG_IDENTIFIER, and of what the line has FANIN_EVENT, FANIN_JOB, FANIN_RANK, FANIN_SHARD and
 * FANIN_CAUSE.  A part of a job, "j/1!4", has two FANIN_JOB: its own name, and "j".  Returns its
 * bytes. */
size_t log_entry(char *entry, const char *line);

/* Is `fd` the stream that `stream` names, "DEVICE:INODE" as systemd has it?  NULL names none. */
bool log_is_journal(int fd, const char *stream);

#define LOG_QUEUE_BYTES (1u << 20) /* of lines that wait: more than all bursts */
#define LOG_END_MS	1000	   /* for lines that wait when the program ends */

/* Write a line.  Threads may call it; it does not wait. */
void cmd_log(const char *line);

/* Wait until all lines are written, LOG_END_MS at most; exit() does. */
void log_end(void);

/* Lines that found no room, or could not be written. */
uint64_t log_lost(void);

#endif
