/* SPDX-License-Identifier: Apache-2.0 */
#include "by_sockets.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop.h"
#include "plan_client.h"
#include "rank.h"
#include "regroup.h"

static int open_events(struct fan_rank *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = FAN_RANK_WAKE};
	char why[FAN_CONNECTION_WHY_BYTES], cause[160];
	c->thread.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->thread.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->thread.epoll_fd >= 0 && c->thread.wake_fd >= 0 &&
	    !epoll_ctl(c->thread.epoll_fd, EPOLL_CTL_ADD, c->thread.wake_fd, &ev))
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
	return e;
}

static void wake(struct fan_rank *c)
{
	uint64_t one = 1;
	if (c->awake)
		return;
	c->awake = true;
	ssize_t n = write(c->thread.wake_fd, &one, sizeof one);
	(void)n; /* fails only when it is full of wake-ups already */
}

static void release(struct fan_rank *c)
{
	for (unsigned i = 0; i < FAN_SHARDS_MAX; i++)
		fan_connection_close(&c->connection[i]);
	fan_plan_client_free(c);
	fan_regroup_free(c->regroup);
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
	.release = release,
};
