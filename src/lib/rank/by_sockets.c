/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thread.h"

/* A filter of system calls may refuse those without which the thread would never wake. */
static bool can_wake(const struct fan_rank *r)
{
	uint64_t one = 1;
	struct epoll_event ev;
	return write(r->thread.wake_fd, &one, sizeof one) == sizeof one &&
	       epoll_wait(r->thread.epoll_fd, &ev, 1, 0) == 1 &&
	       read(r->thread.wake_fd, &one, sizeof one) == sizeof one;
}

static int open_events(struct fan_rank *r)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = FAN_RANK_WAKE};
	char why[FAN_CONNECTION_WHY_BYTES], cause[160];
	r->thread.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->thread.epoll_fd >= 0)
		r->thread.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->thread.wake_fd >= 0 &&
	    !epoll_ctl(r->thread.epoll_fd, EPOLL_CTL_ADD, r->thread.wake_fd, &ev) && can_wake(r))
		return FAN_OK;
	snprintf(why, sizeof why, "cannot wait for events: %s",
		 fan_files_strerror(errno, cause, sizeof cause));
	return fan_rank_refuse(r, FAN_E_SYSTEM, why);
}

static void init_plan_client(struct fan_rank *r)
{
	struct fan_plan_client *f = &r->client;
	assert(!f->on && r->thread.epoll_fd >= 0);
	f->on = true;
	f->behind_ns = UINT64_MAX;
	f->dial = (struct fan_dial){
		.to = r->controller_addr,
		.epoll_fd = r->thread.epoll_fd,
		.number = FAN_RANK_CONTROLLER,
		.lines.fd = -1,
		.keys = r->cfg.controller_keys,
	};
}

/* Buffers and events, and the controller's client, once it is known whom to ask. */
static int open_all(struct fan_rank *r)
{
	r->io = fan_connection_io_new(r->cfg.payload_bytes, r->cfg.keys.count);
	if (!r->io)
		return fan_rank_refuse(r, FAN_E_NOMEM, fan_err_text(FAN_E_NOMEM));
	int e = open_events(r);
	if (!e && *r->cfg.controller_addr)
		init_plan_client(r);
	if (!e)
		fan_regroup_prepare(r);
	return e;
}

static void wake(struct fan_rank *r)
{
	uint64_t one = 1;
	if (r->asked.awake)
		return;
	r->asked.awake = true;
	ssize_t n = write(r->thread.wake_fd, &one, sizeof one);
	(void)n; /* fails only when it is full of wake-ups already */
}

/* Its thread does before it sleeps again. */
static void look(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	r->shown.snapshot.asked = true;
	wake(r);
	pthread_mutex_unlock(&r->lock);
}

static uint64_t gone(const struct fan_rank *r)
{
	return atomic_load(&r->gone);
}

static void release(struct fan_rank *r)
{
	for (unsigned i = 0; i < r->connections; i++)
		fan_connection_close(&r->connection[i]);
	if (r->client.on)
		fan_lines_close(&r->client.dial.lines);
	fan_regroup_free(r->regroup);
	fan_regroup_free(r->prepared);
	if (r->thread.epoll_fd >= 0)
		close(r->thread.epoll_fd);
	if (r->thread.wake_fd >= 0)
		close(r->thread.wake_fd);
	fan_connection_io_free(r->io);
}

static void end(struct fan_rank *r, int error, const char *why)
{
	fan_rank_end(r, error, why, NULL);
}

const struct fan_rank_kind fan_rank_by_sockets = {
	.has_sockets = true,
	.open = open_all,
	.run = fan_rank_loop,
	.wake = wake,
	.look = look,
	.end = end,
	.gone = gone,
	.release = release,
};

/* Pages of its own, zero until they are used: most of its connections never are. */
static struct fan_rank *new_rank(void)
{
	struct fan_rank *r =
		mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		return NULL;
	fan_rank_init(r, &fan_rank_by_sockets, NULL);
	return r;
}

int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank)
{
	char suffix[16];
	assert(number < column->columns);
	assert(column->global && column->host_first && column->rank_at);
	struct fan_rank *r = *rank = new_rank();
	if (!r)
		return FAN_E_NOMEM;
	r->cfg = *cfg;
	r->own = of->own;
	r->trace = of->trace; /* which outlives it */
	r->parent = of->parent;
	memcpy(r->parts.of, of->parts.of, sizeof r->parts.of);
	r->column = *column;
	r->idle.call = of->kind->join_on;
	r->idle.arg = of->host;
	snprintf(suffix, sizeof suffix, "/c%u", number);
	for (unsigned k = 0; k < of->parts.count; k++) {
		const struct fan_rank_part part = {of->parts.job[k].at, of->parts.inside[k],
						   of->parts.mbps[k], of->parts.rail[k]};
		fan_rank_add_part(r, &part, suffix);
	}
	r->asked.complete = true;
	return fan_rank_begin(r);
}
