/* SPDX-License-Identifier: Apache-2.0 */
/* lib_controller.h - a controller in a thread of the test, that says what the test has it say:
 * for each line that a worker sends, and between them. */
#ifndef FAN_TEST_LIB_CONTROLLER_H
#define FAN_TEST_LIB_CONTROLLER_H

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/lib/team.h"

#define SCRIPTED_MAX   16
#define SCRIPTED_BYTES 4096

struct scripted;

struct scripted_worker {
	int fd; /* -1: free */
	char in[SCRIPTED_BYTES];
	size_t bytes;
};

struct scripted {
	int fd;
	char address[80];
	pthread_t thread;
	atomic_bool ends;
	/* What it does on a connection and on a line; NULL: nothing. */
	void (*met)(struct scripted *s, struct scripted_worker *w);
	void (*heard)(struct scripted *s, struct scripted_worker *w, const char *line);
	const char *text; /* for those */
	atomic_int joins, moved, met_count;
	pthread_mutex_t lock; /* for the workers' sockets */
	struct scripted_worker worker[SCRIPTED_MAX];
};

static inline void scripted_say(const struct scripted_worker *w, const char *text)
{
	size_t n = strlen(text);
	while (n) {
		ssize_t sent = send(w->fd, text, n, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		text += sent;
		n -= (size_t)sent;
	}
}

/* To all that are connected. */
static inline void scripted_say_all(struct scripted *s, const char *text)
{
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SCRIPTED_MAX; i++)
		if (s->worker[i].fd >= 0)
			scripted_say(&s->worker[i], text);
	pthread_mutex_unlock(&s->lock);
}

static inline void scripted_hang_up(struct scripted_worker *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	w->bytes = 0;
}

static inline void scripted_hang_up_all(struct scripted *s)
{
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SCRIPTED_MAX; i++)
		scripted_hang_up(&s->worker[i]);
	pthread_mutex_unlock(&s->lock);
}

static inline void scripted_accept(struct scripted *s)
{
	int fd = accept(s->fd, NULL, NULL);
	for (int i = 0; i < SCRIPTED_MAX && fd >= 0; i++) {
		if (s->worker[i].fd >= 0)
			continue;
		s->worker[i].fd = fd;
		atomic_fetch_add(&s->met_count, 1);
		if (s->met)
			s->met(s, &s->worker[i]);
		return;
	}
	if (fd >= 0)
		close(fd);
}

static inline void scripted_read(struct scripted *s, struct scripted_worker *w)
{
	char *end;
	ssize_t n = recv(w->fd, w->in + w->bytes, sizeof w->in - 1 - w->bytes, MSG_DONTWAIT);
	if (n <= 0) {
		scripted_hang_up(w);
		return;
	}
	w->bytes += (size_t)n;
	w->in[w->bytes] = '\0';
	while (w->fd >= 0 && (end = strchr(w->in, '\n'))) {
		*end = '\0';
		if (strstr(w->in, "\"join\""))
			atomic_fetch_add(&s->joins, 1);
		if (strstr(w->in, "\"moved\""))
			atomic_fetch_add(&s->moved, 1);
		if (s->heard)
			s->heard(s, w, w->in);
		w->bytes -= w->bytes ? (size_t)(end + 1 - w->in) : 0;
		memmove(w->in, end + 1, w->bytes + 1);
	}
}

static inline void *scripted_run(void *arg)
{
	struct scripted *s = arg;
	while (!atomic_load(&s->ends)) {
		struct pollfd p[SCRIPTED_MAX + 1];
		pthread_mutex_lock(&s->lock);
		for (int i = 0; i < SCRIPTED_MAX; i++)
			p[i] = (struct pollfd){.fd = s->worker[i].fd, .events = POLLIN};
		pthread_mutex_unlock(&s->lock);
		p[SCRIPTED_MAX] = (struct pollfd){.fd = s->fd, .events = POLLIN};
		if (poll(p, SCRIPTED_MAX + 1, 20) <= 0)
			continue;
		pthread_mutex_lock(&s->lock);
		for (int i = 0; i < SCRIPTED_MAX; i++)
			if (p[i].revents && s->worker[i].fd == p[i].fd)
				scripted_read(s, &s->worker[i]);
		if (p[SCRIPTED_MAX].revents)
			scripted_accept(s);
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

static inline void scripted_start(struct scripted *s)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof at;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < SCRIPTED_MAX; i++)
		s->worker[i].fd = -1;
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(s->fd, SCRIPTED_MAX), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
	snprintf(s->address, sizeof s->address, "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&s->thread, NULL, scripted_run, s), 0);
}

static inline void scripted_stop(struct scripted *s)
{
	atomic_store(&s->ends, true);
	pthread_join(s->thread, NULL);
	scripted_hang_up_all(s);
	close(s->fd);
	pthread_mutex_destroy(&s->lock);
}

#endif
