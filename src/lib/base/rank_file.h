/* SPDX-License-Identifier: Apache-2.0 */
/* rank_file.h - files that each rank writes for itself, FANIN_METRICS and FANIN_TRACE, and the
 * status file of its process.
 *
 * A rank goes on without them: what was wrong is kept for the program, which may ask. */
#ifndef FAN_LIB_BASE_RANK_FILE_H
#define FAN_LIB_BASE_RANK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define FAN_RANK_FILE_BYTES  1024
#define FAN_RANK_FILE_STATUS "status" /* of the process's status file */

/* The file of rank `rank` of `job` for `pattern`: %r is the rank, %j the job with "_" for "/" and
 * ".", and %% a percent sign.  Without %r the rank is inserted before the last dot: "fanin.prom"
 * becomes "fanin-3.prom".  False: it does not fit `bytes`. */
bool fan_rank_file(char *path, size_t bytes, const char *pattern, const char *job, int rank);

/* `variable`, or FAN_RANK_FILE_STATUS, names a file that cannot be written, because of `why`.  The
 * first of a process is kept, of a status file only until there is another.  Threads may call it.
 */
void fan_rank_file_fail(const char *variable, const char *why);

/* "FANIN_TRACE: t-0.json: No space left on device", which stays; "": nothing was wrong so far. */
const char *fan_rank_file_error(void);

/* The status file has the state of this process, in a folder of its user's alone.  It is empty
 * until somebody looks.  The folder is `fanin` in $XDG_RUNTIME_DIR or /run/user/UID, whichever is
 * first there and the user's, or else /tmp/fanin-UID.  Beside the files of all the user's processes
 * lies a FIFO, `watch`: a reader empties it and writes a byte to have all of them written anew.
 * Nothing is followed that is a link, and every file is replaced at once, so a reader finds it
 * whole. python/fanin/operate/top/status.py reads them. */

#define FAN_STATUS_BYTES      (4 << 20) /* the longest text */
#define FAN_STATUS_NAME_BYTES 64	/* of a file's name with its zero */
#define FAN_STATUS_PATH_BYTES 512	/* of its path */

struct fan_status_file {
	char parent[FAN_STATUS_PATH_BYTES / 2], folder[FAN_STATUS_NAME_BYTES];
	char name[FAN_STATUS_NAME_BYTES]; /* PID-START-NAMESPACE: when the process began, where it
					     has that number */
	int watch; /* the FIFO: an event of edge-triggered epoll for each reader */
};

/* Find or make the folder and the FIFO.  0, or an error number, of the last folder that was tried,
 * and `watch` is -1: EPERM, others may change it, or it is another user's. */
int fan_status_open(struct fan_status_file *s);

/* Write `text`, at most FAN_STATUS_BYTES, in place of what the file has.  0, or an error number. */
int fan_status_write(const struct fan_status_file *s, const char *text, size_t bytes);

/* The file's path to `path`, FAN_STATUS_PATH_BYTES. */
void fan_status_path(const struct fan_status_file *s, char *path);

/* Remove the file.  The FIFO stays for others. */
void fan_status_remove(const struct fan_status_file *s);

/* Descriptors that this process may have; 0: as many as there are. */
unsigned long long fan_files_limit(void);

/* The text of errno `e`, with the limit if that is what it is about. */
const char *fan_files_strerror(int e, char *text, size_t bytes);

/* Forks between the first caller and this process.  An object stores the number when it is made; if
 * that has changed since, the object belongs to the parent, whose threads a child has not and whose
 * sockets it must not use. */
unsigned fan_fork_guard(void);

#endif
