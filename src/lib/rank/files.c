/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/comm/comm.h"

/* Descriptors of a communicator, and the highest of them. */
struct held {
	unsigned count;
	int highest;
};

static void add(struct held *h, int fd)
{
	if (fd < 0)
		return;
	h->count++;
	h->highest = fd > h->highest ? fd : h->highest;
}

static struct held find_held(const struct fanin_comm *c)
{
	struct held h = {.count = 0, .highest = -1};
	add(&h, c->epoll_fd);
	add(&h, c->wake_fd);
	for (unsigned i = 0; i < c->connections; i++) {
		const struct fan_connection *cn = &c->connection[i];
		if (!cn->w)
			continue;
		add(&h, cn->udp.fd);
		add(&h, cn->group.fd);
		add(&h, cn->failover.aside.fd);
	}
	return h;
}

unsigned long long fan_files_limit(void)
{
	struct rlimit r;
	return getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY ? 0 : r.rlim_cur;
}

unsigned fan_files_held(const struct fanin_comm *c)
{
	return find_held(c).count;
}

/* The kernel gives the lowest number that is free, so what is left is above the highest. */
int fan_files_check(const struct fanin_comm *c, char *text, size_t bytes)
{
	const struct held h = find_held(c);
	const unsigned long long all = fan_files_limit();
	const unsigned long long used = (unsigned long long)(h.highest + 1);
	if (!all || used + FAN_FILES_RESERVE <= all)
		return FAN_OK;
	snprintf(
		text, bytes,
		"this process may have %llu file descriptors, and with the %u of this communicator "
		"%llu are left: at least %d must be; raise the limit (ulimit -n) or destroy groups "
		"that are not used",
		all, h.count, all > used ? all - used : 0, FAN_FILES_RESERVE);
	return FAN_E_FILES;
}

const char *fan_files_strerror(int e, char *text, size_t bytes)
{
	if (e == EMFILE)
		snprintf(text, bytes,
			 "%s: this process may have %llu file descriptors; raise the limit "
			 "(ulimit -n) or destroy groups that are not used",
			 strerror(e), fan_files_limit());
	else
		snprintf(text, bytes, "%s", strerror(e));
	return text;
}
