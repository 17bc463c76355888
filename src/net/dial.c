/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock.h"

void fan_dial_init(struct fan_dial *d, const fan_peer *to, int epoll_fd, uint32_t number)
{
	assert(epoll_fd >= 0);
	memset(d, 0, sizeof *d);
	d->to = *to;
	d->epoll_fd = epoll_fd;
	d->number = number;
	d->lines.fd = -1;
}

void fan_dial_free(struct fan_dial *d)
{
	fan_lines_close(&d->lines); /* epoll forgets it */
	d->up = false;
}

void fan_dial_drop(struct fan_dial *d, uint64_t now_ns, const char *why)
{
	uint64_t pause_ms = FAN_DIAL_PAUSE_MS;
	for (uint32_t i = 0; i < d->tries && pause_ms < FAN_DIAL_PAUSE_MAX_MS; i++)
		pause_ms *= 2;
	pause_ms += fan_clock_nonce() % (pause_ms / 4 + 1);
	fan_dial_free(d);
	d->ended = 0;
	if (d->tries < UINT32_MAX)
		d->tries++;
	d->at_ns = now_ns + pause_ms * FAN_MS;
	snprintf(d->why, sizeof d->why, "%s", why);
}

void fan_dial_content(struct fan_dial *d)
{
	d->tries = 0;
}

static bool watch(const struct fan_dial *d, int operation)
{
	assert(d->lines.fd >= 0);
	bool out = fan_lines_events(&d->lines) & POLLOUT;
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = d->number};
	if (out)
		ev.events |= EPOLLOUT;
	return epoll_ctl(d->epoll_fd, operation, d->lines.fd, &ev) == 0;
}

static void begin(struct fan_dial *d, uint64_t now_ns)
{
	assert(!d->up);
	int e = fan_lines_dial(&d->lines, &d->to);
	if (!e)
		e = fan_lines_sign(&d->lines, &d->keys, true);
	if (e) {
		fan_dial_drop(d, now_ns, strerror(-e));
		return;
	}
	fan_lines_notice_loss(d->lines.fd, FAN_DIAL_SILENT_S - 2, 1, 2, FAN_DIAL_SILENT_S * 1000);
	d->at_ns = now_ns + FAN_DIAL_OPEN_MS * FAN_MS;
	if (!watch(d, EPOLL_CTL_ADD))
		fan_dial_drop(d, now_ns, strerror(errno));
}

/* An unused local port may have been given to this very socket, which then connects to itself. */
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

bool fan_dial_work(struct fan_dial *d, uint64_t now_ns)
{
	if (d->lines.fd < 0 && now_ns >= d->at_ns)
		begin(d, now_ns);
	struct pollfd p = {.fd = d->lines.fd, .events = fan_lines_events(&d->lines)};
	if (p.fd < 0)
		return false;
	bool was_up = d->up;
	int e = poll(&p, 1, 0) > 0 ? fan_lines_turn(&d->lines, p.revents) : 0;
	d->up = !d->lines.connecting;
	if (!was_up && d->up && is_self(p.fd)) {
		e = -ECONNREFUSED;
		d->up = false;
	}
	if (e && d->up)
		d->ended = e; /* lines received before the end are still read */
	else if (e)
		fan_dial_drop(d, now_ns, strerror(-e));
	else if (!d->up && now_ns >= d->at_ns)
		fan_dial_drop(d, now_ns, "no answer");
	else
		watch(d, EPOLL_CTL_MOD);
	return d->up && !was_up;
}

uint64_t fan_dial_deadline(const struct fan_dial *d)
{
	return d->up ? UINT64_MAX : d->at_ns;
}

static const char *end_text(int e)
{
	return e == -ECONNRESET	    ? "the connection was closed"
	       : e == -EMSGSIZE	    ? "a line is too long"
	       : e == -EKEYREJECTED ? "its lines are not signed with our key"
				    : strerror(-e);
}

char *fan_dial_line(struct fan_dial *d, size_t *bytes)
{
	char *line = d->up ? fan_lines_next(&d->lines, bytes) : NULL;
	if (!line && d->up && fan_lines_trouble(&d->lines))
		d->ended = fan_lines_trouble(&d->lines);
	if (!line && d->up && d->ended)
		fan_dial_drop(d, fan_clock_ns(), end_text(d->ended));
	return line;
}

bool fan_dial_send(struct fan_dial *d, const char *text, size_t bytes)
{
	int e = d->up && !d->ended ? fan_lines_put(&d->lines, text, bytes) : -EPIPE;
	if (!e)
		watch(d, EPOLL_CTL_MOD);
	else if (d->up && !d->ended)
		fan_dial_drop(d, fan_clock_ns(), end_text(e));
	return !e;
}
