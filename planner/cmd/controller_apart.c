/* SPDX-License-Identifier: Apache-2.0 */
/* controller_apart.c - makes plans in a child process, so that lines do not wait for them.
 *
 * fork() gives the child a copy of the controller; it writes its answer to a pipe.  It closes all
 * other descriptors, which would otherwise stay open after the controller has closed them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "controller.h"
#include "net/clock.h"

#define FIRST_BYTES 65536
#define MOST_BYTES  (64u << 20) /* bytes of an answer */
#define PIPE_FD	    3		/* the pipe in the child */

static _Noreturn void be_child(struct fan_ctl *ctl, int fd, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(fd, PIPE_FD) < 0)
		_exit(1);
	close_range(PIPE_FD + 1, ~0u, 0);
	json_t *answer = fan_ctl_draft(ctl);
	_exit(answer && json_dumpfd(answer, PIPE_FD, JSON_COMPACT) == 0 ? 0 : 1);
}

static void end(struct controller_planner *p)
{
	while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(p->fd);
	p->fd = -1;
}

bool controller_apart(void *ctx)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = CONTROLLER_PLANNER};
	struct controller_sockets *s = ctx;
	struct controller_planner *p = &s->planner;
	pid_t self = getpid();
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return false;
	p->pid = fork();
	if (p->pid == 0)
		be_child(s->ctl, fd[1], self);
	close(fd[1]);
	if (p->pid < 0) {
		close(fd[0]);
		return false;
	}
	p->fd = fd[0];
	p->used = 0;
	if (!fcntl(p->fd, F_SETFL, O_NONBLOCK) &&
	    !epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, p->fd, &ev))
		return true;
	controller_stop_apart(s);
	return false;
}

void controller_stop_apart(void *ctx)
{
	struct controller_sockets *s = ctx;

	if (s->planner.fd < 0)
		return;
	kill(s->planner.pid, SIGKILL);
	end(&s->planner);
}

/* Make room for more of the answer; false: no memory, or it is too long. */
static bool grow(struct controller_planner *p)
{
	size_t room = p->room ? 2 * p->room : FIRST_BYTES;

	if (p->used < p->room)
		return true;
	char *more = room <= MOST_BYTES ? realloc(p->text, room) : NULL;
	if (!more)
		return false;
	p->text = more;
	p->room = room;
	return true;
}

void controller_hear_planner(struct controller_sockets *s)
{
	struct controller_planner *p = &s->planner;
	ssize_t n = 1;

	while (p->fd >= 0 && n > 0) {
		if (!grow(p)) {
			controller_stop_apart(s);
			fan_ctl_planned(s->ctl, fan_clock_ns(), NULL);
			return;
		}
		n = read(p->fd, p->text + p->used, p->room - p->used);
		p->used += n > 0 ? (size_t)n : 0;
	}
	if (p->fd < 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	end(p);
	json_t *answer = n == 0 && p->used ? json_loadb(p->text, p->used, 0, NULL) : NULL;
	fan_ctl_planned(s->ctl, fan_clock_ns(), answer);
	json_decref(answer);
}
