/* SPDX-License-Identifier: Apache-2.0 */
/* rank_file.h - files that each rank writes for itself: FANIN_METRICS, FANIN_TRACE.
 *
 * A rank goes on without them: what was wrong is kept for the program, which may ask. */
#ifndef FAN_LIB_BASE_RANK_FILE_H
#define FAN_LIB_BASE_RANK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define FAN_RANK_FILE_BYTES  1024
#define FAN_RANK_FILE_STATUS "FANIN_PS" /* of the process's status file: status_file.h */

/* The value of `variable`; NULL: it is not set, or empty. */
const char *fan_rank_file_pattern(const char *variable);

/* The file of rank `rank` of `job` for `pattern`: %r is the rank, %j the job with "_" for "/" and
 * ".", and %% a percent sign.  Without %r the rank is inserted before the last dot: "fanin.prom"
 * becomes "fanin-3.prom".  False: it does not fit `bytes`. */
bool fan_rank_file(char *path, size_t bytes, const char *pattern, const char *job, int rank);

/* `variable` names a file that cannot be written, because of `why`.  The first of a process is
 * kept, of a status file only until there is another.  Threads may call it. */
void fan_rank_file_fail(const char *variable, const char *why);

/* "FANIN_TRACE: t-0.json: No space left on device", which stays; "": nothing was wrong so far. */
const char *fan_rank_file_error(void);

#endif
