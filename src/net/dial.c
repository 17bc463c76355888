/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "core/err.h"

int fan_dial_init(struct fan_dial *d, const fan_peer *to, int epoll_fd, uint32_t number)
{
	memset(d, 0, sizeof *d);
	d->to = *to;
	d->epoll_fd = epoll_fd;
	d->number = number;
	d->fd = -1;
	d->in = malloc(FAN_DIAL_LINE_BYTES);
	d->out = malloc(FAN_DIAL_SEND_BYTES);
	if (d->in && d->out)
		return FAN_OK;
	fan_dial_free(d);
	return FAN_E_NOMEM;
}

/* After this it may be tried again. */
static void hang_up(struct fan_dial *d)
{
	if (d->fd >= 0)
		close(d->fd); /* epoll forgets it */
	d->fd = -1;
	d->up = false;
	d->in_bytes = d->taken = d->out_bytes = 0;
}

void fan_dial_free(struct fan_dial *d)
{
	if (d->in)
		hang_up(d);
	free(d->in);
	free(d->out);
	d->in = d->out = NULL;
}

void fan_dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why)
{
	uint64_t pause_ms = FAN_DIAL_PAUSE_MS;
	for (uint32_t i = 0; i < d->tries && pause_ms < FAN_DIAL_PAUSE_MAX; i++)
		pause_ms *= 2;
	pause_ms += fan_clock_nonce() % (pause_ms / 4 + 1);
	hang_up(d);
	if (d->tries < UINT32_MAX)
		d->tries++;
	d->at_ns = now_ns + pause_ms * FAN_MS;
	if (why != d->why)
		snprintf(d->why, sizeof d->why, "%s", why);
}

void fan_dial_content(struct fan_dial *d)
{
	d->tries = 0;
}

static bool watch(const struct fan_dial *d, int operation)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = d->number};
	if (!d->up || d->out_bytes)
		ev.events |= EPOLLOUT;
	return epoll_ctl(d->epoll_fd, operation, d->fd, &ev) == 0;
}

/* Small lines at once; and a machine that is gone is noticed. */
static void set_options(int fd)
{
	const int on = 1, idle_s = FAN_DIAL_SILENT_S - 2, each_s = 1, probes = 2;
	const unsigned unacked_ms = FAN_DIAL_SILENT_S * 1000;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof each_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
}

static void try(struct fan_dial *d, uint64_t now_ns)
{
	struct sockaddr_storage ss;
	socklen_t len = fan_peer_to_sockaddr(&d->to, AF_UNSPEC, &ss);
	d->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0) {
		fan_dial_drop(d, now_ns, strerror(errno));
		return;
	}
	set_options(d->fd);
	d->at_ns = now_ns + FAN_DIAL_OPEN_MS * FAN_MS;
	if ((connect(d->fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS) ||
	    !watch(d, EPOLL_CTL_ADD))
		fan_dial_drop(d, now_ns, strerror(errno));
}

/* A port that nobody listens at may be given to the caller itself. */
static bool is_self(int fd)
{
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof here, there_len = sizeof there;
	if (getsockname(fd, (struct sockaddr *)&here, &here_len) ||
	    getpeername(fd, (struct sockaddr *)&there, &there_len))
		return false;
	fan_peer a = fan_peer_from_sockaddr((struct sockaddr *)&here, here_len);
	fan_peer b = fan_peer_from_sockaddr((struct sockaddr *)&there, there_len);
	return fan_peer_equal(&a, &b);
}

/* Has the connection come about? */
static bool meet(struct fan_dial *d, uint64_t now_ns)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss, e_len = sizeof(int);
	int e = 0;
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &e, &e_len))
		e = errno;
	if (!e && is_self(d->fd))
		e = ECONNREFUSED;
	if (e) {
		fan_dial_drop(d, now_ns, strerror(e));
		return false;
	}
	d->up = !getpeername(d->fd, (struct sockaddr *)&ss, &len);
	if (d->up)
		watch(d, EPOLL_CTL_MOD);
	else if (now_ns >= d->at_ns)
		fan_dial_drop(d, now_ns, "no answer");
	return d->up;
}

static void flush(struct fan_dial *d, uint64_t now_ns)
{
	while (d->out_bytes) {
		ssize_t n = send(d->fd, d->out, d->out_bytes, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			fan_dial_drop(d, now_ns, strerror(errno));
			return;
		}
		if (n < 0)
			break;
		d->out_bytes -= (size_t)n;
		memmove(d->out, d->out + n, d->out_bytes);
	}
	watch(d, EPOLL_CTL_MOD);
}

/* Read what is there, as far as it fits.  Lines that wait in the buffer go first. */
static void fill(struct fan_dial *d, uint64_t now_ns)
{
	if (d->taken) {
		d->in_bytes -= d->taken;
		memmove(d->in, d->in + d->taken, d->in_bytes);
		d->taken = 0;
	}
	while (d->in_bytes < FAN_DIAL_LINE_BYTES) {
		ssize_t n = recv(d->fd, d->in + d->in_bytes, FAN_DIAL_LINE_BYTES - d->in_bytes, 0);
		if (n > 0) {
			d->in_bytes += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		bool ended = n == 0 || errno != EAGAIN;
		if (ended && !memchr(d->in, '\n', d->in_bytes)) /* else: the next time */
			fan_dial_drop(d, now_ns, n ? strerror(errno) : "the connection was closed");
		return;
	}
	if (!memchr(d->in, '\n', d->in_bytes))
		fan_dial_drop(d, now_ns, "a line is too long");
}

bool fan_dial_work(struct fan_dial *d, uint64_t now_ns)
{
	if (d->fd < 0 && now_ns >= d->at_ns)
		try(d, now_ns);
	if (d->fd < 0)
		return false;
	if (!d->up)
		return meet(d, now_ns);
	fill(d, now_ns);
	if (d->up && d->out_bytes)
		flush(d, now_ns);
	return false;
}

uint64_t fan_dial_deadline(const struct fan_dial *d)
{
	return d->up ? UINT64_MAX : d->at_ns;
}

char *fan_dial_line(struct fan_dial *d, size_t *bytes)
{
	char *line = d->in + d->taken;
	char *end = d->up ? memchr(line, '\n', d->in_bytes - d->taken) : NULL;
	if (!end)
		return NULL;
	*end = '\0';
	*bytes = (size_t)(end - line);
	d->taken += *bytes + 1;
	return line;
}

bool fan_dial_send(struct fan_dial *d, const char *text, size_t bytes)
{
	if (!d->up)
		return false;
	if (bytes > FAN_DIAL_SEND_BYTES - d->out_bytes) {
		fan_dial_drop(d, fan_clock_ns(), "the peer takes nothing in");
		return false;
	}
	memcpy(d->out + d->out_bytes, text, bytes);
	d->out_bytes += bytes;
	flush(d, fan_clock_ns());
	return d->up;
}
