/* SPDX-License-Identifier: Apache-2.0 */
/* status_file.h - a file that says what this process does, in a folder of its user's alone.
 *
 * It is empty until somebody looks.  The folder is `fanin` in $XDG_RUNTIME_DIR or /run/user/UID,
 * whichever is first there and the user's, or else /tmp/fanin-UID.  Beside the files of all the
 * user's processes lies a FIFO, `watch`: a reader empties it and writes a byte to have all of them
 * written anew.  Nothing is followed that is a link, and every file is replaced at once, so a
 * reader finds it whole. python/fanin/operate/top/status.py reads them. */
#ifndef FAN_LIB_BASE_STATUS_FILE_H
#define FAN_LIB_BASE_STATUS_FILE_H

#include <stdbool.h>
#include <stddef.h>

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

/* Has somebody removed the FIFO?  Then no reader reaches this process. */
bool fan_status_is_gone(const struct fan_status_file *s);

/* Write `text`, at most FAN_STATUS_BYTES, in place of what the file has.  0, or an error number. */
int fan_status_write(const struct fan_status_file *s, const char *text, size_t bytes);

/* The file's path to `path`, FAN_STATUS_PATH_BYTES. */
void fan_status_path(const struct fan_status_file *s, char *path);

/* Remove the file.  The FIFO stays for others. */
void fan_status_remove(const struct fan_status_file *s);

#endif
