/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - what a process has: file descriptors, and whether it is a child of fork().
 *
 * A communicator that takes the last descriptors fails while there are some left, so that it can
 * still join and tell the other ranks. */
#ifndef FAN_LIB_BASE_FILES_H
#define FAN_LIB_BASE_FILES_H

#include <stddef.h>

#define FAN_FILES_RESERVE 16 /* that a communicator leaves to the rest of the process, at least */

/* Descriptors that somebody has, and the highest of them; begins as FAN_FILES_NONE. */
struct fan_files {
	unsigned count;
	int highest;
};

#define FAN_FILES_NONE                                                                             \
	(struct fan_files)                                                                         \
	{                                                                                          \
		.count = 0, .highest = -1                                                          \
	}

/* One more; < 0: it is none. */
void fan_files_add(struct fan_files *f, int fd);

/* Whether fewer are left beyond `held`, the descriptors of a communicator, all of which are open;
 * and the sentence to `text`, `bytes` bytes, which names limit, need and cure.  0, or FAN_E_FILES.
 */
int fan_files_check(const struct fan_files *held, char *text, size_t bytes);

/* Descriptors that this process may have; 0: as many as there are. */
unsigned long long fan_files_limit(void);

/* The text of errno `e`, with the limit if that is what it is about. */
const char *fan_files_strerror(int e, char *text, size_t bytes);

/* Forks between the first caller and this process.  An object stores the number when it is made; if
 * that has changed since, the object belongs to the parent, whose threads a child has not and whose
 * sockets it must not use. */
unsigned fan_fork_guard(void);

#endif
