/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - a line to a controller that comes back by itself (lines.h).
 *
 * It is used from one thread that sleeps in epoll: the socket reports there under the number
 * that it was given, and fan_dial_deadline says when fan_dial_work wants to be called besides.
 * Nothing blocks.  A connection that fails, ends or takes too long to come about is tried again
 * after a pause, for ever; `why` keeps the reason. */
#ifndef FAN_DIAL_H
#define FAN_DIAL_H

#include "lines.h"

#define FAN_DIAL_PAUSE_MS     250  /* before the first new try... */
#define FAN_DIAL_PAUSE_MAX_MS 1000 /* ...doubled up to this, and up to a quarter more */
#define FAN_DIAL_OPEN_MS      3000 /* for a connection to come about */
#define FAN_DIAL_SILENT_S     5	   /* a peer whose kernel is silent for so long is gone */
#define FAN_DIAL_WHY_BYTES    160

struct fan_dial {
	fan_peer to;
	int epoll_fd;
	uint32_t number; /* in epoll */
	struct fan_lines lines;
	bool up;		      /* connected; else it is under way if there is a socket */
	int ended;		      /* -errno: it has, and its last lines are to be taken yet */
	uint32_t tries;		      /* in a row that came to nothing */
	uint64_t at_ns;		      /* not up: when to try again, or to give a try up */
	char why[FAN_DIAL_WHY_BYTES]; /* of the last failure; "" */
};

/* The first try is the next fan_dial_work's. */
void fan_dial_init(struct fan_dial *d, const fan_peer *to, int epoll_fd, uint32_t number);
void fan_dial_free(struct fan_dial *d);

/* Connect, read and write as far as that goes now, when the socket has reported or the deadline
 * has passed; then take all lines.  True: it has just been connected, say hello. */
bool fan_dial_work(struct fan_dial *d, uint64_t now_ns);
uint64_t fan_dial_deadline(const struct fan_dial *d);

/* The next line that has come, as fan_lines_next has it.  With the last one of a connection that
 * has ended, it is dropped. */
char *fan_dial_line(struct fan_dial *d, size_t *bytes);

/* Send `bytes` at `text` and an LF.  False: not connected, or it is no longer. */
bool fan_dial_send(struct fan_dial *d, const char *text, size_t bytes);

/* End the connection since the peer said something wrong, and try again after a pause. */
void fan_dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why);

/* Lines have made sense: the next pause is short again. */
void fan_dial_content(struct fan_dial *d);

#endif
