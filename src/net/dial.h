/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - a TCP connection to a controller that speaks lines, and comes back by itself.
 *
 * It is used from one thread, that sleeps in epoll: the socket reports there under the number
 * that it was given, and fan_dial_deadline says when fan_dial_work wants to be called besides.
 * Nothing blocks.  A connection that fails, ends, overflows a buffer or takes too long to
 * come about is closed, and tried again after a pause, for ever; `why` keeps the reason.
 *
 * Lines are UTF-8 of at most FAN_DIAL_LINE_BYTES, ended by LF; what they mean is the caller's
 * matter. */
#ifndef FAN_DIAL_H
#define FAN_DIAL_H

#include "udp.h"

#define FAN_DIAL_LINE_BYTES (256u << 10) /* longest line that comes in */
#define FAN_DIAL_SEND_BYTES (64u << 10)	 /* written and not taken by the kernel */
#define FAN_DIAL_PAUSE_MS   250		 /* before the first new try... */
#define FAN_DIAL_PAUSE_MAX  1000	 /* ...doubled up to this, and up to a quarter more */
#define FAN_DIAL_OPEN_MS    3000	 /* for a connection to come about */
#define FAN_DIAL_SILENT_S   5		 /* a peer whose kernel is silent for so long is gone */
#define FAN_DIAL_WHY_BYTES  160

struct fan_dial {
	fan_peer to;
	int epoll_fd;
	uint32_t number;	/* in epoll */
	int fd;			/* -1: not connected */
	bool up;		/* connected; else it is under way if there is an fd */
	uint32_t tries;		/* in a row without a line from the peer */
	uint64_t at_ns;		/* when to try again, or to give a try up */
	char *in;		/* FAN_DIAL_LINE_BYTES */
	size_t in_bytes, taken; /* there, and handed out of it */
	char *out;		/* FAN_DIAL_SEND_BYTES */
	size_t out_bytes;
	char why[FAN_DIAL_WHY_BYTES]; /* of the last failure; "" */
};

/* FAN_OK or FAN_E_NOMEM.  The first try is the next fan_dial_work's. */
int fan_dial_init(struct fan_dial *d, const fan_peer *to, int epoll_fd, uint32_t number);
void fan_dial_free(struct fan_dial *d);

/* Connect, read and write as far as that goes now, when the socket has reported or the deadline
 * has passed; then take all lines.  True: it has just been connected, say hello. */
bool fan_dial_work(struct fan_dial *d, uint64_t now_ns);
uint64_t fan_dial_deadline(const struct fan_dial *d);

/* The next line that has come, without its end and with a zero; NULL: none.  Valid until the
 * next call. */
char *fan_dial_line(struct fan_dial *d, size_t *bytes);

/* Send `text`, which ends in LF.  False: not connected, or no room; then it ends. */
bool fan_dial_send(struct fan_dial *d, const char *text, size_t bytes);

/* End the connection since the peer said something wrong, and try again after a pause. */
void fan_dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why);

/* Lines have made sense: the next pause is short again. */
void fan_dial_content(struct fan_dial *d);

#endif
