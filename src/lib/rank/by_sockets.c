/* SPDX-License-Identifier: Apache-2.0 */
#include "by_sockets.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plan_client.h"
#include "rank.h"
#include "regroup.h"

/* A filter of system calls may refuse those without which the thread would never wake. */
static bool can_wake(const struct fan_rank *c)
{
	uint64_t one = 1;
	struct epoll_event ev;
	return write(c->thread.wake_fd, &one, sizeof one) == sizeof one &&
	       epoll_wait(c->thread.epoll_fd, &ev, 1, 0) == 1 &&
	       read(c->thread.wake_fd, &one, sizeof one) == sizeof one;
}

static int open_events(struct fan_rank *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = FAN_RANK_WAKE};
	char why[FAN_CONNECTION_WHY_BYTES], cause[160];
	c->thread.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->thread.epoll_fd >= 0)
		c->thread.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->thread.wake_fd >= 0 &&
	    !epoll_ctl(c->thread.epoll_fd, EPOLL_CTL_ADD, c->thread.wake_fd, &ev) && can_wake(c))
		return FAN_OK;
	snprintf(why, sizeof why, "cannot wait for events: %s",
		 fan_files_strerror(errno, cause, sizeof cause));
	return fan_rank_refuse(c, FAN_E_SYSTEM, why);
}

/* Buffers and events, and the controller's client, once it is known whom to ask. */
static int open_all(struct fan_rank *c)
{
	c->io = fan_connection_io_new(c->cfg.payload_bytes, c->cfg.keys.count);
	if (!c->io)
		return fan_rank_refuse(c, FAN_E_NOMEM, fan_err_text(FAN_E_NOMEM));
	int e = open_events(c);
	if (!e && *c->cfg.controller_addr)
		fan_plan_client_init(c);
	if (!e)
		fan_regroup_prepare(c);
	return e;
}

static void wake(struct fan_rank *c)
{
	uint64_t one = 1;
	if (c->asked.awake)
		return;
	c->asked.awake = true;
	ssize_t n = write(c->thread.wake_fd, &one, sizeof one);
	(void)n; /* fails only when it is full of wake-ups already */
}

/* Its thread does before it sleeps again. */
static void look(struct fan_rank *c)
{
	pthread_mutex_lock(&c->lock);
	c->shown.snapshot.asked = true;
	wake(c);
	pthread_mutex_unlock(&c->lock);
}

static uint64_t gone(const struct fan_rank *c)
{
	return atomic_load(&c->gone);
}

static void release(struct fan_rank *c)
{
	for (unsigned i = 0; i < FAN_SHARDS_MAX; i++)
		fan_connection_close(&c->connection[i]);
	fan_plan_client_free(c);
	fan_regroup_free(c->regroup);
	fan_regroup_free(c->prepared);
	if (c->thread.epoll_fd >= 0)
		close(c->thread.epoll_fd);
	if (c->thread.wake_fd >= 0)
		close(c->thread.wake_fd);
	fan_connection_io_free(c->io);
}

const struct fan_rank_kind fan_rank_by_sockets = {
	.has_sockets = true,
	.open = open_all,
	.run = fan_rank_loop,
	.wake = wake,
	.look = look,
	.end = fan_rank_end_with,
	.gone = gone,
	.release = release,
};

int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank)
{
	char suffix[16];
	assert(number < column->columns);
	assert(column->global && column->host_first && column->rank_at);
	struct fan_rank *c = *rank = fan_rank_new(&fan_rank_by_sockets);
	if (!c)
		return FAN_E_NOMEM;
	c->cfg = *cfg;
	c->own = of->own;
	c->trace = of->trace; /* which outlives it */
	c->parent = of->parent;
	memcpy(c->parts.of, of->parts.of, sizeof c->parts.of);
	c->column = *column;
	c->idle.call = of->kind->join_on;
	c->idle.arg = of->host;
	snprintf(suffix, sizeof suffix, "/c%u", number);
	for (unsigned k = 0; k < of->parts.count; k++) {
		const struct fan_rank_part part = {of->parts.job[k].at, of->parts.inside[k],
						   of->parts.mbps[k], of->parts.rail[k]};
		fan_rank_add_part(c, &part, suffix);
	}
	c->asked.complete = true;
	return fan_rank_begin(c);
}
