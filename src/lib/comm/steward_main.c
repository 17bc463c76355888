/* SPDX-License-Identifier: Apache-2.0 */
/* steward_main.c - what the steward's process does (steward.h).
 *
 * Nothing here runs in the process of a library's user. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/err.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "steward.h"
#include "switch_starter.h"

#define CONTROL 3	  /* descriptor of the socket to the rank's process */
#define FILES	(1 << 16) /* looked at where close_range is not known */
#define LOOK_MS 50	  /* between looks at when a rank was heard */

/* The loader calls the entry of a program without a return address on the stack. */
#ifdef __x86_64__
#define ENTRY __attribute__((force_align_arg_pointer, noreturn, used))
#else
#define ENTRY __attribute__((noreturn, used))
#endif

struct steward {
	fanin_switch *running;	   /* NULL: not started here */
	struct fan_daemon *daemon; /* that it is, or that has been inherited; NULL: not yet */
	struct fan_estate estate;  /* watched over; sockets 0: none */
	int files[FAN_ESTATE_FILES_MAX];
	int room; /* socket by which others ask for the port; -1: none */
};

/* The library does not exit, so it does not link the call; this process is its own. */
static void __attribute__((noreturn)) end(void)
{
	for (;;)
		syscall(SYS_exit_group, 0);
}

/* Files of the rank's process that are not closed by exec: somebody may wait for the end of one. */
static void close_files(void)
{
	if (!syscall(SYS_close_range, CONTROL + 1, ~0U, 0))
		return;
	for (int fd = CONTROL + 1; fd < FILES; fd++)
		close(fd);
}

static void answer(int error, const char *text)
{
	struct fan_steward_answer a = {.error = error,
				       .bytes = sizeof(struct fan_steward_question)};
	snprintf(a.version, sizeof a.version, "%s", FAN_BUILD_VERSION);
	snprintf(a.text, sizeof a.text, "%s", text);
	ssize_t n = send(CONTROL, &a, sizeof a, MSG_NOSIGNAL);
	(void)n; /* it has ended: the next look at its socket tells */
}

/* Where others of this user ask for the port. */
static int open_room(unsigned port)
{
	struct sockaddr_un name;
	const int yes = 1;
	int fd = port ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	if (fd < 0)
		return -1;
	unsigned len = fan_steward_room_name(&name, port);
	if (!setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) &&
	    !bind(fd, (struct sockaddr *)&name, len))
		return fd;
	close(fd);
	return -1;
}

static void start(struct steward *st, struct fan_steward_question *q)
{
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	char why[FAN_CONFIG_WHY_BYTES];
	q->listen[sizeof q->listen - 1] = q->key_file[sizeof q->key_file - 1] = '\0';
	o.listen = q->listen;
	o.slots = q->slots;
	o.threads = q->threads;
	o.mtu = q->mtu;
	o.multicast = q->multicast;
	o.key_file = *q->key_file ? q->key_file : NULL;
	int e = st->running ? FAN_E_BUSY
			    : fan_switch_start(&o, false, &st->running, why, sizeof why);
	if (!e) {
		st->daemon = fan_switch_daemon(st->running);
		st->room = open_room(fan_daemon_address(st->daemon).port);
	}
	answer(e, e ? why : fan_switch_address(st->running));
}

static void watch(struct steward *st, const struct fan_steward_question *q, unsigned files)
{
	const bool fits =
		!st->running && !st->estate.sockets && files && files == 1 + q->estate.sockets;
	const int e = fits ? fan_estate_map(&q->estate, st->files[0]) : FAN_E_INVALID;
	if (!e) {
		st->estate = q->estate;
		st->room = open_room(q->port);
	}
	for (unsigned i = 0; e && i < files; i++)
		close(st->files[i]); /* the port must be free */
	answer(e, "");
}

/* Somebody of this user wants the port. */
static bool is_asked_for_room(const struct steward *st)
{
	char byte;
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {&byte, sizeof byte};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof control};
	struct ucred who;
	if (st->room < 0 || recvmsg(st->room, &m, MSG_DONTWAIT) < 0)
		return false;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
		return false;
	memcpy(&who, CMSG_DATA(c), sizeof who);
	return who.uid == geteuid() || who.uid == 0;
}

/* The rank's process has ended: serve its jobs until nobody of them asks any more. */
static void outlive(const struct steward *st)
{
	uint64_t by_ns = fan_clock_ns() + FAN_STEWARD_LINGER_MS * FAN_MS;
	uint64_t quiet_ms = FAN_STEWARD_QUIET_MS, now_ns;
	while (is_asked_for_room(st))
		; /* before the rank's process ended */
	while ((now_ns = fan_clock_ns()) < by_ns) {
		uint64_t heard_ns = fan_daemon_heard_ns(st->daemon);
		struct pollfd p = {.fd = st->room, .events = POLLIN};
		if (!heard_ns || now_ns > heard_ns + quiet_ms * FAN_MS)
			return;
		poll(&p, 1, LOOK_MS);
		if (is_asked_for_room(st) && quiet_ms == FAN_STEWARD_QUIET_MS) {
			const uint64_t room_ns = fan_clock_ns() + FAN_STEWARD_ROOM_MS * FAN_MS;
			quiet_ms = FAN_STEWARD_ROOM_QUIET_MS;
			by_ns = room_ns < by_ns ? room_ns : by_ns;
		}
	}
}

/* The next question, and the files with it.  False: the rank's process has ended. */
static bool hear(struct steward *st, struct fan_steward_question *q, unsigned *files)
{
	union {
		char bytes[CMSG_SPACE(FAN_ESTATE_FILES_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {q, sizeof *q};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof control};
	ssize_t n;
	do
		n = recvmsg(CONTROL, &m, 0);
	while (n < 0 && errno == EINTR);
	*files = 0;
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*files = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(st->files, CMSG_DATA(c), *files * sizeof(int));
	}
	return n == (ssize_t)sizeof *q;
}

static void serve(struct steward *st)
{
	static struct fan_steward_question q;
	unsigned files;
	answer(FAN_OK, FAN_STEWARD_BEGUN);
	while (hear(st, &q, &files)) {
		if (q.wish == FAN_STEWARD_START) {
			start(st, &q);
		} else if (q.wish == FAN_STEWARD_WATCH) {
			watch(st, &q, files);
		} else {
			fan_switch_stop(st->running, &q.of, q.linger_ms);
			for (unsigned i = 0; i < st->estate.sockets; i++)
				close(st->files[1 + i]); /* so the port is free */
			answer(FAN_OK, "");
			return;
		}
	}
	if (st->estate.sockets && fan_daemon_inherit(&st->daemon, &st->estate, st->files + 1))
		return;
	if (st->daemon)
		outlive(st);
}

ENTRY void fan_steward_main(void)
{
	close_files();
	pthread_setname_np(pthread_self(), "fanin-steward");
	if (fork() != 0) /* the rank's process waits for this one, and has no other child */
		end();
	static struct steward st = {.room = -1};
	serve(&st);
	end();
}
