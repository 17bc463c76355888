/* SPDX-License-Identifier: Apache-2.0 */
/* rank_file.h - names of files that each rank writes for itself: FANIN_METRICS, FANIN_TRACE. */
#ifndef FAN_LIB_RANK_FILE_H
#define FAN_LIB_RANK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define FAN_RANK_FILE_BYTES 1024

/* The value of `variable`; NULL: it is not set, or empty. */
const char *fan_rank_file_pattern(const char *variable);

/* The file of rank `rank` of `job` for `pattern`: %r is the rank, %j the job with "_" for "/" and
 * ".", and %% a percent sign.  Without %r the rank is inserted before the last dot: "fanin.prom"
 * becomes "fanin-3.prom".  False: it does not fit `bytes`. */
bool fan_rank_file(char *path, size_t bytes, const char *pattern, const char *job, int rank);

#endif
