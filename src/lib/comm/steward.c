/* SPDX-License-Identifier: Apache-2.0 */
#include "steward.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/err.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "switch_starter.h"

#define NOT_PASSED "LD_PRELOAD=" /* what is preloaded into a program is not for another one */

struct fan_steward {
	int fd; /* of the socket to it */
	char address[FAN_CONFIG_WHY_BYTES];
};

/* The file of this library and the loader that runs it.  False: it is no library, or not one that
 * can be run. */
static bool find_files(const char **library, const char **loader)
{
	Dl_info own, its;
	const unsigned long base = getauxval(AT_BASE);
	if (!dladdr((void *)(uintptr_t)fan_steward_main, &own) || !own.dli_fname || !base ||
	    !dladdr((void *)base, &its) || !its.dli_fname)
		return false;
	const ElfW(Ehdr) *h = own.dli_fbase;
	if ((uintptr_t)h + h->e_entry != (uintptr_t)fan_steward_main)
		return false;
	*library = own.dli_fname;
	*loader = its.dli_fname;
	return true;
}

/* The environment without NOT_PASSED; to be freed.  NULL: no memory. */
static char **environment(void)
{
	size_t count = 0, kept = 0;
	while (environ && environ[count])
		count++;
	char **copy = calloc(count + 1, sizeof *copy);
	for (size_t i = 0; copy && i < count; i++)
		if (strncmp(environ[i], NOT_PASSED, sizeof NOT_PASSED - 1))
			copy[kept++] = environ[i];
	return copy;
}

/* What the process gets: standard streams that lead nowhere, its end `fd` of the socket as the next
 * descriptor, no signals, and a group of processes of its own, so that nobody ends it with the
 * rank's.  Not a session: the scheduler may share out cores among sessions, and a rank that yields
 * its core would yield it to no switch. */
static int set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *how, int fd)
{
	sigset_t all;
	sigfillset(&all);
	int e = 0;
	for (int i = 0; i < 3 && !e; i++)
		e = posix_spawn_file_actions_addopen(files, i, "/dev/null", O_RDWR, 0);
	if (!e)
		e = posix_spawn_file_actions_adddup2(files, fd, 3);
	if (!e)
		e = posix_spawnattr_setsigmask(how, &all);
	if (!e)
		e = posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	return e;
}

static int spawn(pid_t *pid, int fd)
{
	const char *library, *loader;
	char whose[32];
	char **env = environment();
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	if (!env || !find_files(&library, &loader)) {
		free(env);
		return ENOEXEC;
	}
	snprintf(whose, sizeof whose, "of process %ld", (long)getpid());
	char *const argv[] = {(char *)loader, (char *)library, whose, NULL};
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	int e = set_up(&files, &how, fd);
	if (!e)
		e = posix_spawn(pid, loader, &files, &how, argv, env);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	free(env);
	return e;
}

/* Take an answer.  False: there is none in time, or there will be none any more. */
static bool hear(const struct fan_steward *st, struct fan_steward_answer *a, int ms)
{
	const uint64_t by_ns = fan_clock_ns() + (uint64_t)ms * FAN_MS;
	struct pollfd p = {.fd = st->fd, .events = POLLIN};
	int n;
	do
		n = poll(&p, 1, fan_clock_timeout_ms(by_ns, -1));
	while (n < 0 && errno == EINTR && fan_clock_ns() < by_ns);
	if (n <= 0 || recv(st->fd, a, sizeof *a, MSG_DONTWAIT) != (ssize_t)sizeof *a)
		return false;
	a->text[sizeof a->text - 1] = '\0';
	return !strncmp(a->version, FAN_BUILD_VERSION, sizeof a->version) &&
	       a->bytes == sizeof(struct fan_steward_question);
}

/* Ask, and pass `count` files. */
static bool ask(const struct fan_steward *st, const struct fan_steward_question *q,
		const int *files, unsigned count)
{
	union {
		char bytes[CMSG_SPACE(FAN_ESTATE_FILES_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {(void *)q, sizeof *q};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (count) {
		const size_t bytes = count * sizeof *files;
		memset(&control, 0, sizeof control);
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), files, bytes);
	}
	return sendmsg(st->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *q;
}

/* The process that was started has made another one, and ended; the host program may have heard of
 * it first. */
static void reap(pid_t pid, bool begun)
{
	if (!begun && waitpid(pid, NULL, WNOHANG) == 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

struct fan_steward *fan_steward_new(void)
{
	int fd[2];
	pid_t pid;
	struct fan_steward_answer a;
	/* A program with rights that its user lacks runs no other one in the user's environment. */
	if (getpid() == 1 || getauxval(AT_SECURE))
		return NULL;
	struct fan_steward *st = calloc(1, sizeof *st);
	if (!st || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd)) {
		free(st);
		return NULL;
	}
	st->fd = fd[0];
	int e = spawn(&pid, fd[1]);
	close(fd[1]);
	bool begun = !e && hear(st, &a, FAN_STEWARD_ANSWER_MS);
	if (!e)
		reap(pid, begun);
	if (!begun) {
		fan_steward_abandon(st);
		return NULL;
	}
	return st;
}

int fan_steward_start(struct fan_steward *st, const struct fanin_switch_options *o, char *why,
		      size_t bytes)
{
	struct fan_steward_question q = {
		.wish = FAN_STEWARD_START,
		.slots = o->slots,
		.threads = o->threads,
		.mtu = o->mtu,
		.multicast = o->multicast,
	};
	struct fan_steward_answer a;
	snprintf(q.listen, sizeof q.listen, "%s", o->listen);
	snprintf(q.key_file, sizeof q.key_file, "%s", o->key_file ? o->key_file : "");
	if (!ask(st, &q, NULL, 0) || !hear(st, &a, FAN_STEWARD_ANSWER_MS)) {
		snprintf(why, bytes, "%s", fan_err_text(FAN_E_CLOSED));
		return FAN_E_CLOSED;
	}
	if (a.error)
		snprintf(why, bytes, "%s", a.text);
	else
		memcpy(st->address, a.text, sizeof st->address);
	return a.error;
}

bool fan_steward_watch(struct fan_steward *st, const fanin_switch *running)
{
	const struct fan_daemon *d = fan_switch_daemon(running);
	struct fan_steward_question q = {
		.wish = FAN_STEWARD_WATCH,
		.port = fan_daemon_address(d).port,
	};
	struct fan_steward_answer a;
	int files[FAN_ESTATE_FILES_MAX];
	const unsigned count = fan_daemon_estate(d, &q.estate, files);
	return count && ask(st, &q, files, count) && hear(st, &a, FAN_STEWARD_ANSWER_MS) &&
	       !a.error;
}

const char *fan_steward_address(const struct fan_steward *st)
{
	return st->address;
}

void fan_steward_stop(struct fan_steward *st, const struct fan_drain *of, int linger_ms)
{
	const struct fan_steward_question q = {
		.wish = FAN_STEWARD_STOP, .linger_ms = linger_ms, .of = *of};
	struct fan_steward_answer a;
	if (!st)
		return;
	if (ask(st, &q, NULL, 0)) /* it has ended its switch when it answers: the port is free */
		hear(st, &a, (linger_ms > 0 ? linger_ms : 0) + FAN_STEWARD_ANSWER_MS);
	fan_steward_abandon(st);
}

void fan_steward_abandon(struct fan_steward *st)
{
	close(st->fd);
	free(st);
}

/* An abstract name: one for each port of a network namespace. */
unsigned fan_steward_room_name(struct sockaddr_un *name, unsigned port)
{
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "fanin-steward/%u", port);
	return (unsigned)offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)n;
}

void fan_steward_ask_for_room(unsigned port)
{
	struct sockaddr_un name;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned len = fan_steward_room_name(&name, port);
	if (fd < 0)
		return;
	ssize_t n = sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name, len);
	(void)n; /* nobody is there */
	close(fd);
}
