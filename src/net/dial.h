/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - a stream to a controller that redials (lines.h).
 *
 * Used by one thread that sleeps in epoll: the socket reports there under the given number, and
 * fan_dial_deadline gives the time of the next fan_dial_work.  Nothing blocks.  A stream that
 * fails, ends or takes too long to connect is tried again after a pause, for ever; `why` has the
 * cause. */
#ifndef FAN_DIAL_H
#define FAN_DIAL_H

#include "lines.h"

#define FAN_DIAL_PAUSE_MS     250  /* before the first new try; then doubled */
#define FAN_DIAL_PAUSE_MAX_MS 1000 /* bound of the pause, without a random quarter */
#define FAN_DIAL_OPEN_MS      3000 /* time-out of connect */
#define FAN_DIAL_SILENT_S     5	   /* TCP time-out of a silent peer */
#define FAN_DIAL_WHY_BYTES    160

struct fan_dial {
	fan_peer to;
	int epoll_fd;
	uint32_t number; /* in epoll */
	struct fan_lines lines;
	struct fan_keys keys; /* to be set after fan_dial_init; count 0: lines are not signed */
	bool up;	      /* connected; otherwise connecting if there is a socket */
	int ended;	      /* -errno: the stream has ended, some lines are not taken yet */
	uint32_t tries;	      /* failures in a row */
	uint64_t at_ns;	      /* not up: time of the next try, or time-out of this one */
	char why[FAN_DIAL_WHY_BYTES]; /* of the last failure; "" */
};

/* The next fan_dial_work tries for the first time. */
void fan_dial_init(struct fan_dial *d, const fan_peer *to, int epoll_fd, uint32_t number);
void fan_dial_free(struct fan_dial *d);

/* Connect, read and write without blocking, when the socket has reported or the deadline has
 * passed; then take all lines.  True: it has just connected. */
bool fan_dial_work(struct fan_dial *d, uint64_t now_ns);
uint64_t fan_dial_deadline(const struct fan_dial *d);

/* The next received line, see fan_lines_next.  After the last line of a stream that has ended, the
 * stream is closed. */
char *fan_dial_line(struct fan_dial *d, size_t *bytes);

/* Send `bytes` at `text` and an LF.  False: not connected, or not any more. */
bool fan_dial_send(struct fan_dial *d, const char *text, size_t bytes);

/* Close the stream because of a wrong line, and try again after a pause. */
void fan_dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why);

/* A valid line has come: the next pause is short again. */
void fan_dial_content(struct fan_dial *d);

#endif
