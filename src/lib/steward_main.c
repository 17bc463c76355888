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
#include "fanin_switch.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "steward.h"

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
	fanin_switch *running; /* NULL: not started yet */
	int room;	       /* socket by which others ask for the port; -1: none */
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

/* Where others of this user ask for a port that somebody has chosen. */
static int open_room(const char *listen)
{
	const char *colon = strrchr(listen, ':');
	const unsigned port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
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
	int e = st->running ? FAN_E_BUSY : fanin_switch_start(&o, &st->running, why, sizeof why);
	if (!e) {
		st->room = open_room(q->listen);
	}
	answer(e, e ? why : fanin_switch_address(st->running));
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

/* The rank's process has ended: serve until nobody asks any more. */
static void outlive(const struct steward *st)
{
	const uint64_t by_ns = fan_clock_ns() + FAN_STEWARD_LINGER_MS * FAN_MS;
	uint64_t quiet_ms = FAN_STEWARD_QUIET_MS, now_ns;
	while (is_asked_for_room(st))
		; /* before the rank's process ended */
	while ((now_ns = fan_clock_ns()) < by_ns) {
		uint64_t heard_ns = fan_daemon_heard_ns(fan_switch_daemon(st->running));
		struct pollfd p = {.fd = st->room, .events = POLLIN};
		if (!heard_ns || now_ns > heard_ns + quiet_ms * FAN_MS)
			return;
		poll(&p, 1, LOOK_MS);
		if (is_asked_for_room(st))
			quiet_ms = FAN_STEWARD_ROOM_QUIET_MS;
	}
}

static void serve(void)
{
	struct steward st = {.room = -1};
	struct fan_steward_question q;
	answer(FAN_OK, FAN_STEWARD_BEGUN);
	for (;;) {
		ssize_t n = recv(CONTROL, &q, sizeof q, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof q) /* the rank's process has ended */
			break;
		if (q.wish == FAN_STEWARD_START) {
			start(&st, &q);
			continue;
		}
		fanin_switch_stop(st.running, q.linger_ms);
		answer(FAN_OK, "");
		return;
	}
	if (st.running)
		outlive(&st);
}

ENTRY void fan_steward_main(void)
{
	close_files();
	pthread_setname_np(pthread_self(), "fanin-steward");
	if (fork() != 0) /* the rank's process waits for this one, and has no other child */
		end();
	serve();
	end();
}
