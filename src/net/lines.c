/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_BYTES 4096
#define BACKLOG	    128
#define IDLE_S	    5  /* of silence, before the other host is asked whether it lives */
#define READS_MAX   16 /* receives of one turn: others get theirs */

/* A host that is gone without a word is noticed soon, sending or not. */
static void notice_loss(int fd)
{
	static const int values[][3] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, IDLE_S},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, 2 * IDLE_S * 1000},
	};

	/* They fail for a Unix socket, which needs none. */
	for (unsigned i = 0; i < sizeof values / sizeof values[0]; i++)
		(void)setsockopt(fd, values[i][0], values[i][1], &values[i][2], sizeof(int));
}

void fan_lines_open(struct fan_lines *l, int fd)
{
	memset(l, 0, sizeof *l);
	l->fd = fd;
	l->in_max = FAN_LINE_IN_MAX;
	notice_loss(fd);
}

int fan_lines_dial(struct fan_lines *l, const fan_peer *to)
{
	struct sockaddr_storage ss;
	int family = fan_peer_family(to);
	socklen_t bytes = fan_peer_to_sockaddr(to, family, &ss);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memset(l, 0, sizeof *l);
	l->fd = -1;
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&ss, bytes) && errno != EINPROGRESS) {
		int e = -errno;
		close(fd);
		return e;
	}
	fan_lines_open(l, fd);
	l->connecting = true;
	return 0;
}

void fan_lines_close(struct fan_lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->in);
	free(l->out);
	memset(l, 0, sizeof *l);
	l->fd = -1;
}

short fan_lines_events(const struct fan_lines *l)
{
	if (l->fd < 0)
		return 0;
	return (short)(POLLIN | (l->connecting || l->out_sent < l->out_used ? POLLOUT : 0));
}

/* Room for at least one more byte, at most `most` altogether. */
static bool grow(char **buffer, size_t *room, size_t need, size_t most)
{
	size_t more = *room ? *room : FIRST_BYTES;

	if (need > most)
		return false;
	while (more < need)
		more *= 2;
	if (more == *room)
		return true;
	char *moved = realloc(*buffer, more);
	if (!moved)
		return false;
	*buffer = moved;
	*room = more;
	return true;
}

static int flush(struct fan_lines *l)
{
	while (l->out_sent < l->out_used) {
		ssize_t n =
			send(l->fd, l->out + l->out_sent, l->out_used - l->out_sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		l->out_sent += (size_t)n;
	}
	l->out_sent = l->out_used = 0;
	return 0;
}

/* Lines that were taken make room. */
static void shift(struct fan_lines *l)
{
	memmove(l->in, l->in + l->in_taken, l->in_used - l->in_taken);
	l->in_used -= l->in_taken;
	l->in_seen -= l->in_taken;
	l->in_taken = 0;
}

static int receive(struct fan_lines *l)
{
	for (unsigned i = 0; i < READS_MAX; i++) {
		if (l->in_taken)
			shift(l);
		if (l->in_used >= l->in_max)
			return memchr(l->in, '\n', l->in_used) ? 0 : -EMSGSIZE;
		if (l->in_used == l->in_room &&
		    !grow(&l->in, &l->in_room, l->in_used + 1, FAN_LINE_IN_MAX))
			return -ENOMEM;
		size_t room = l->in_room < l->in_max ? l->in_room : l->in_max;
		ssize_t n = recv(l->fd, l->in + l->in_used, room - l->in_used, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		if (n == 0)
			return -ECONNRESET;
		l->in_used += (size_t)n;
	}
	return 0;
}

int fan_lines_turn(struct fan_lines *l, short revents)
{
	int e = 0;
	socklen_t bytes = sizeof e;

	if (l->fd < 0)
		return -EPIPE;
	if (l->connecting) {
		if (!(revents & (POLLOUT | POLLERR | POLLHUP)))
			return 0;
		if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &e, &bytes) || e)
			return e ? -e : -errno;
		l->connecting = false;
	}
	e = revents & (POLLIN | POLLERR | POLLHUP) ? receive(l) : 0;
	return e ? e : flush(l);
}

char *fan_lines_next(struct fan_lines *l, size_t *bytes)
{
	if (l->in_seen < l->in_taken)
		l->in_seen = l->in_taken;
	char *end = l->in_seen < l->in_used
			    ? memchr(l->in + l->in_seen, '\n', l->in_used - l->in_seen)
			    : NULL;

	if (!end) {
		l->in_seen = l->in_used;
		return NULL;
	}
	char *line = l->in + l->in_taken;
	*end = '\0';
	*bytes = (size_t)(end - line);
	l->in_seen = l->in_taken = (size_t)(end - l->in) + 1;
	return line;
}

int fan_lines_put(struct fan_lines *l, const char *text, size_t bytes)
{
	if (l->fd < 0)
		return -EPIPE;
	if (l->out_sent && l->out_used + bytes + 1 > l->out_room) {
		memmove(l->out, l->out + l->out_sent, l->out_used - l->out_sent);
		l->out_used -= l->out_sent;
		l->out_sent = 0;
	}
	if (!grow(&l->out, &l->out_room, l->out_used + bytes + 1, FAN_LINES_OUT_MAX))
		return -ENOBUFS;
	memcpy(l->out + l->out_used, text, bytes);
	l->out[l->out_used + bytes] = '\n';
	l->out_used += bytes + 1;
	return l->connecting ? 0 : flush(l);
}

int fan_lines_listen(fan_peer *at)
{
	struct sockaddr_storage ss;
	int family = fan_peer_family(at), on = 1;
	socklen_t bytes = fan_peer_to_sockaddr(at, family, &ss);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(fd, (const struct sockaddr *)&ss, bytes) || listen(fd, BACKLOG)) {
		int e = -errno;
		close(fd);
		return e;
	}
	bytes = sizeof ss;
	if (getsockname(fd, (struct sockaddr *)&ss, &bytes) == 0)
		*at = fan_peer_from_sockaddr((const struct sockaddr *)&ss, bytes);
	return fd;
}
