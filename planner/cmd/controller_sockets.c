/* SPDX-License-Identifier: Apache-2.0 */
/* controller_sockets.c - the sockets around planner/ctl: daemons and workers connect by TCP, people
 * by a Unix socket.  All lines that have come are handled before timers run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "controller.h"
#include "net/clock.h"
#include "plan_load.h"

#define CAP_MS	      1000
#define ADDRESS_BYTES 80
#define EVENTS_MAX    (FAN_CTL_CONNS_MAX + CONTROLLER_ASKERS_MAX + 5)
#define ASKER	      FAN_CTL_CONNS_MAX
#define LISTENER      (ASKER + CONTROLLER_ASKERS_MAX)
#define UNIX	      (LISTENER + 1)
#define SIGNALS	      (LISTENER + 2)

static int watch(const struct controller_sockets *s, int op, int fd, uint32_t tag, short events)
{
	struct epoll_event ev = {.events = (uint32_t)(uint16_t)events, .data.u32 = tag};

	return epoll_ctl(s->epoll_fd, op, fd, &ev) ? -errno : 0;
}

void controller_send(void *ctx, unsigned conn, const char *line, size_t bytes)
{
	struct controller_sockets *s = ctx;
	struct controller_peer *p = &s->peer[conn];

	if (p->open && !p->broken && fan_lines_put(&p->lines, line, bytes))
		p->broken = true;
	s->told = true;
}

void controller_close(void *ctx, unsigned conn)
{
	struct controller_sockets *s = ctx;

	s->peer[conn].closing = true;
}

/* ---- opening ---- */

/* Listen at `path`.  Replaces the socket of an ended controller, but not one that answers. */
static int listen_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof a.sun_path) {
		close(fd);
		return -ENAMETOOLONG;
	}
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	if (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0) {
		close(fd);
		return -EADDRINUSE;
	}
	if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
	if (bind(fd, (const struct sockaddr *)&a, sizeof a) || listen(fd, CONTROLLER_ASKERS_MAX)) {
		int e = -errno;
		close(fd);
		return e;
	}
	return fd;
}

/* Raise the limit of descriptors as needed and allowed: the usual 1,024 allow fewer ranks. */
static void want_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= CONTROLLER_FILES_MAX)
		return;
	r.rlim_cur = r.rlim_max < CONTROLLER_FILES_MAX ? r.rlim_max : CONTROLLER_FILES_MAX;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

int controller_open(struct controller_sockets *s, fan_peer *at, const char *path, const char **what)
{
	sigset_t signals;

	want_descriptors();
	s->planner.fd = -1;
	*what = "epoll";
	s->listen_fd = s->unix_fd = s->signal_fd = -1;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return -errno;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	s->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	int e = s->signal_fd < 0 ? -errno : watch(s, EPOLL_CTL_ADD, s->signal_fd, SIGNALS, EPOLLIN);
	if (e)
		return e;
	*what = "--listen";
	s->listen_fd = fan_lines_listen(at);
	e = s->listen_fd < 0 ? s->listen_fd
			     : watch(s, EPOLL_CTL_ADD, s->listen_fd, LISTENER, EPOLLIN);
	if (e || !path[0])
		return e;
	*what = "--socket";
	s->unix_fd = listen_unix(path);
	return s->unix_fd < 0 ? s->unix_fd : watch(s, EPOLL_CTL_ADD, s->unix_fd, UNIX, EPOLLIN);
}

int controller_watch_metrics(struct controller_sockets *s)
{
	return watch(s, EPOLL_CTL_ADD, metrics_http_fd(s->metrics), CONTROLLER_METRICS, EPOLLIN);
}

void controller_shut(struct controller_sockets *s, const char *path)
{
	controller_stop_apart(s);
	free(s->planner.text);
	for (unsigned i = 0; i < FAN_CTL_CONNS_MAX; i++)
		if (s->peer[i].open)
			fan_lines_close(&s->peer[i].lines);
	for (unsigned i = 0; i < CONTROLLER_ASKERS_MAX; i++)
		if (s->asker[i].open)
			fan_lines_close(&s->asker[i].lines);
	if (s->unix_fd >= 0)
		unlink(path);
	for (unsigned i = 0; i < 4; i++) {
		int fd = (int[]){s->unix_fd, s->listen_fd, s->signal_fd, s->epoll_fd}[i];
		if (fd >= 0)
			close(fd);
	}
}

/* ---- daemons and workers ---- */

bool controller_is_from(void *ctx, unsigned conn, const char *host)
{
	const struct controller_sockets *s = ctx;
	char text[ADDRESS_BYTES];
	fan_peer p;

	snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:1" : "%s:1", host);
	return fan_peer_read(&p, text) && fan_peer_same_host(&p, &s->peer[conn].from);
}

bool controller_is_beside(void *ctx, unsigned conn, unsigned other)
{
	const struct controller_sockets *s = ctx;

	return fan_peer_same_host(&s->peer[conn].from, &s->peer[other].from);
}

static bool is_nameless(const struct controller_sockets *s, unsigned i)
{
	return s->peer[i].open && !s->peer[i].closing && !fan_ctl_is_named(s->ctl, i);
}

/* The oldest connection that has not said who it is, of one host or, if `of` is NULL, of all;
 * FAN_CTL_CONNS_MAX: there is none.  `*count`: how many there are. */
static unsigned oldest_nameless(const struct controller_sockets *s, const fan_peer *of,
				unsigned *count)
{
	unsigned oldest = FAN_CTL_CONNS_MAX;

	*count = 0;
	for (unsigned i = 0; i < FAN_CTL_CONNS_MAX; i++) {
		const struct controller_peer *p = &s->peer[i];
		if (!is_nameless(s, i) || (of && !fan_peer_same_host(of, &p->from)))
			continue;
		++*count;
		if (oldest == FAN_CTL_CONNS_MAX || p->since_ns < s->peer[oldest].since_ns)
			oldest = i;
	}
	return oldest;
}

static void hang_up(struct controller_sockets *s, unsigned i)
{
	fan_lines_close(&s->peer[i].lines);
	s->peer[i] = (struct controller_peer){.open = false};
	fan_ctl_closed(s->ctl, fan_clock_ns(), i);
}

/* Find a place for a connection from a host.  It may close one that has not said who it is: the
 * oldest of the host if there are too many of these, or the oldest of all if no place is left. */
static unsigned find_place(struct controller_sockets *s, const fan_peer *from)
{
	unsigned i = 0, count, oldest = oldest_nameless(s, from, &count);

	if (count >= CONTROLLER_NAMELESS_MAX)
		hang_up(s, oldest);
	while (i < FAN_CTL_CONNS_MAX && s->peer[i].open)
		i++;
	if (i < FAN_CTL_CONNS_MAX)
		return i;
	oldest = oldest_nameless(s, NULL, &count);
	if (oldest < FAN_CTL_CONNS_MAX)
		hang_up(s, oldest);
	return oldest;
}

/* Accept connections if `events` is EPOLLIN; 0 leaves them in the kernel's queue. */
static void accept_by(const struct controller_sockets *s, short events)
{
	(void)watch(s, EPOLL_CTL_MOD, s->listen_fd, LISTENER, events);
	if (s->unix_fd >= 0)
		(void)watch(s, EPOLL_CTL_MOD, s->unix_fd, UNIX, events);
}

/* Handle a lack of descriptors: close a connection that has not said who it is, or stop accepting
 * for a while. */
static void run_short(struct controller_sockets *s)
{
	unsigned count, oldest = oldest_nameless(s, NULL, &count);

	if (oldest < FAN_CTL_CONNS_MAX) {
		hang_up(s, oldest);
		return;
	}
	s->accept_ns = fan_clock_ns() + CONTROLLER_PAUSE_MS * UINT64_C(1000000);
	accept_by(s, 0);
}

static void accept_again(struct controller_sockets *s)
{
	if (!s->accept_ns || fan_clock_ns() < s->accept_ns)
		return;
	s->accept_ns = 0;
	accept_by(s, EPOLLIN);
}

static bool is_shortage(int e)
{
	return e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM;
}

static void accept_peer(struct controller_sockets *s)
{
	struct sockaddr_storage ss;
	socklen_t bytes = sizeof ss;
	int fd =
		accept4(s->listen_fd, (struct sockaddr *)&ss, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (is_shortage(errno))
			run_short(s);
		return;
	}
	const fan_peer from = fan_peer_from_sockaddr((const struct sockaddr *)&ss, bytes);
	unsigned i = find_place(s, &from);
	if (i == FAN_CTL_CONNS_MAX || watch(s, EPOLL_CTL_ADD, fd, i, EPOLLIN)) {
		close(fd);
		return;
	}
	s->peer[i] = (struct controller_peer){
		.open = true, .events = EPOLLIN, .from = from, .since_ns = fan_clock_ns()};
	fan_lines_open(&s->peer[i].lines, fd);
	s->peer[i].lines.in_max = CONTROLLER_NAMELESS_BYTES;
	s->peer[i].lines.waits = true;
	s->peer[i].broken = fan_lines_sign(&s->peer[i].lines, &s->keys, false) != 0;
	fan_ctl_opened(s->ctl, fan_clock_ns(), i);
}

static void hear_peer(struct controller_sockets *s, unsigned i, short revents)
{
	struct controller_peer *p = &s->peer[i];
	size_t bytes;
	char *line;

	if (!p->open)
		return;
	p->broken |= fan_lines_turn(&p->lines, revents) != 0;
	while (!p->closing && (line = fan_lines_next(&p->lines, &bytes)))
		fan_ctl_line(s->ctl, fan_clock_ns(), i, line, bytes);
	p->broken |= fan_lines_trouble(&p->lines) != 0;
	if (p->lines.in_max < FAN_LINE_IN_MAX && fan_ctl_is_named(s->ctl, i))
		p->lines.in_max = FAN_LINE_IN_MAX;
}

/* Close connections that are broken or to be closed. */
static void sweep(struct controller_sockets *s)
{
	for (unsigned i = 0; i < FAN_CTL_CONNS_MAX; i++) {
		struct controller_peer *p = &s->peer[i];
		if (!p->open)
			continue;
		if (p->broken || p->closing) {
			bool told = !p->closing;
			(void)fan_lines_flush(&p->lines); /* send why it is closed */
			fan_lines_close(&p->lines);
			*p = (struct controller_peer){.open = false};
			if (told)
				fan_ctl_closed(s->ctl, fan_clock_ns(), i);
		}
	}
}

/* Send waiting lines, and let epoll wait where they cannot be sent yet.  The state is written
 * already: if this controller is killed, the next one knows what it has sent. */
static void send_all(struct controller_sockets *s)
{
	for (unsigned i = 0; i < FAN_CTL_CONNS_MAX; i++) {
		struct controller_peer *p = &s->peer[i];
		if (!p->open)
			continue;
		p->broken |= fan_lines_flush(&p->lines) != 0;
		const short events = fan_lines_events(&p->lines);
		if (events != p->events && watch(s, EPOLL_CTL_MOD, p->lines.fd, i, events) == 0)
			p->events = events;
	}
}

/* ---- people ---- */

static void accept_asker(struct controller_sockets *s)
{
	int fd = accept4(s->unix_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	unsigned i = 0;

	if (fd < 0) {
		if (is_shortage(errno))
			run_short(s);
		return;
	}
	while (i < CONTROLLER_ASKERS_MAX && s->asker[i].open)
		i++;
	if (i == CONTROLLER_ASKERS_MAX || watch(s, EPOLL_CTL_ADD, fd, ASKER + i, EPOLLIN)) {
		close(fd);
		return;
	}
	s->asker[i] = (struct controller_asker){.open = true, .since_ns = fan_clock_ns()};
	fan_lines_open(&s->asker[i].lines, fd);
}

/* Replace FILE in "install FILE" and "admit FILE" by its contents.  NULL, with `why`, on error. */
static char *with_file(const char *line, struct fan_why *why)
{
	const char *space = strchr(line, ' ');
	bool takes =
		space && (strncmp(line, "install ", 8) == 0 || strncmp(line, "admit ", 6) == 0);

	if (!takes || strchr(line, '{'))
		return strdup(line);
	json_t *root = plan_read_json(space + 1, why);
	char *packed = root ? json_dumps(root, JSON_COMPACT) : NULL;
	char *whole = NULL;
	if (packed && asprintf(&whole, "%.*s %s", (int)(space - line), line, packed) < 0)
		whole = NULL;
	free(packed);
	json_decref(root);
	return whole;
}

static void reply(struct controller_sockets *s, struct controller_asker *a, const char *line)
{
	struct fan_why why = {"no memory"};
	char *whole = with_file(line, &why), *text = NULL;

	if (whole)
		text = fan_ctl_ask(s->ctl, fan_clock_ns(), whole, strlen(whole));
	else if (asprintf(&text, "error: %s\n", why.text) < 0)
		text = NULL;
	if (text && text[0])
		(void)fan_lines_put(&a->lines, text, strlen(text) - 1);
	free(text);
	free(whole);
	a->done = true;
}

static void hear_asker(struct controller_sockets *s, unsigned i, short revents)
{
	struct controller_asker *a = &s->asker[i];
	size_t bytes;

	if (!a->open)
		return;
	int e = fan_lines_turn(&a->lines, revents);
	char *line = a->done ? NULL : fan_lines_next(&a->lines, &bytes);
	if (line)
		reply(s, a, line);
	if (line || (a->done && revents & EPOLLOUT))
		a->since_ns = fan_clock_ns();
	bool sent = a->done && !(fan_lines_events(&a->lines) & EPOLLOUT);
	if (sent || (e && !line)) {
		fan_lines_close(&a->lines);
		a->open = false;
	} else if (a->done) {
		(void)watch(s, EPOLL_CTL_MOD, a->lines.fd, ASKER + i, EPOLLOUT);
	}
}

static void end_slow_askers(struct controller_sockets *s)
{
	uint64_t now = fan_clock_ns();

	for (unsigned i = 0; i < CONTROLLER_ASKERS_MAX; i++)
		if (s->asker[i].open &&
		    now - s->asker[i].since_ns > CONTROLLER_ASK_MS * UINT64_C(1000000)) {
			fan_lines_close(&s->asker[i].lines);
			s->asker[i].open = false;
		}
}

/* ---- all ---- */

/* Handle an event.  Returns true to stop. */
static bool heed(struct controller_sockets *s, const struct epoll_event *ev)
{
	uint32_t tag = ev->data.u32;
	short revents = (short)ev->events;

	if (tag == SIGNALS)
		return true;
	if (tag == CONTROLLER_PLANNER)
		controller_hear_planner(s);
	else if (tag == CONTROLLER_METRICS)
		return false; /* metrics_http_run serves it each round */
	else if (tag == LISTENER)
		accept_peer(s);
	else if (tag == UNIX)
		accept_asker(s);
	else if (tag >= ASKER)
		hear_asker(s, tag - ASKER, revents);
	else
		hear_peer(s, tag, revents);
	return false;
}

/* Call s->changed after events or when due.  `*events`: number of events at the last call. */
static void tell_changes(struct controller_sockets *s, uint64_t *events)
{
	const uint64_t now_ns = fan_clock_ns(), all = fan_ctl_events(s->ctl);
	const bool due = all != *events || s->told || (s->again_ns && now_ns >= s->again_ns);

	*events = all;
	s->told = false;
	if (!s->changed || !due)
		return;
	const uint32_t again_ms = s->changed(s->ctx);
	s->again_ns = again_ms ? now_ns + again_ms * FAN_MS : 0;
}

/* The time at which something is to be done without an event. */
static uint64_t deadline(const struct controller_sockets *s)
{
	const uint64_t due_ns = fan_ctl_deadline(s->ctl);

	return s->again_ns && s->again_ns < due_ns ? s->again_ns : due_ns;
}

int controller_run(struct controller_sockets *s)
{
	static struct epoll_event ev[EVENTS_MAX];
	uint64_t events = 0;

	for (;;) {
		int timeout = fan_clock_timeout_ms(deadline(s), CAP_MS);
		int n = epoll_wait(s->epoll_fd, ev, EVENTS_MAX, timeout < 0 ? CAP_MS : timeout);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			if (heed(s, &ev[i]))
				return 0;
		sweep(s);
		fan_ctl_tick(s->ctl, fan_clock_ns());
		sweep(s);
		end_slow_askers(s);
		accept_again(s);
		metrics_http_run(s->metrics);
		tell_changes(s, &events);
		send_all(s);
	}
}
