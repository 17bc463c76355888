/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - files that a variable, an option or another file names.
 *
 * A name may be wrong, or come from somebody else than the program's user.  So this file opens all
 * of them: it waits for no other end of a pipe, opens only the intended kind, empties or replaces
 * nothing else, and names the file in errors. */
#ifndef FAN_FILE_FILE_H
#define FAN_FILE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum fan_file_use {
	FAN_FILE_READ, /* configuration and the like: a regular file, or /dev/null */
	/* a secret: a regular file of this user or root, of which nobody else has anything */
	FAN_FILE_KEY,
	FAN_FILE_INPUT,	 /* what a command reads: a pipe or a device will do as well */
	FAN_FILE_WRITE,	 /* what a library writes: a regular file, made or emptied */
	FAN_FILE_OUTPUT, /* what a command writes: a pipe that somebody reads will do as well */
	FAN_FILE_PROBE,	 /* OUTPUT, neither made nor emptied: can it be written? */
};

/* Open `path`.  A descriptor that programs run from here do not get; or -1, and `why`, `bytes`
 * bytes, has the cause: "PATH: expected a regular file". */
int fan_file_open(const char *path, enum fan_file_use use, char *why, size_t bytes);

/* May a file have `bytes` bytes?  One beyond the limit of its size (RLIMIT_FSIZE) would end the
 * process by a signal.  False: errno is EFBIG. */
bool fan_file_may_have(size_t bytes);

/* Open `path` as a stream; one that a library writes fails at that limit. NULL: `why` has the
 * cause. */
FILE *fan_file_stream(const char *path, enum fan_file_use use, char *why, size_t bytes);

/* Close `f`, which was written to; is all of it in the file?  0; or -1, and `why` as above. */
int fan_file_done(FILE *f, const char *path, char *why, size_t bytes);

/* Write a file anew so that whoever reads it finds it whole: into PATH.new, which fan_file_renewed
 * makes the file unless `bad`.  `path` must be a regular file, or not exist.  Links
 * are followed at neither name: PATH.new is made, and what is at `path` replaced.  Results as of
 * the functions above. */
FILE *fan_file_renew(const char *path, char *why, size_t bytes);
int fan_file_renewed(FILE *f, const char *path, int bad, char *why, size_t bytes);

#endif
