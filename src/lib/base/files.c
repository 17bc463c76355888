/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/err.h"

void fan_files_add(struct fan_files *f, int fd)
{
	if (fd < 0)
		return;
	f->count++;
	f->highest = fd > f->highest ? fd : f->highest;
}

unsigned long long fan_files_limit(void)
{
	struct rlimit r;
	return getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY ? 0 : r.rlim_cur;
}

/* The kernel gives the lowest number that is free, so what is left is above the highest. */
int fan_files_check(const struct fan_files *held, char *text, size_t bytes)
{
	const unsigned long long all = fan_files_limit();
	const unsigned long long used = (unsigned long long)(held->highest + 1);
	if (!all || used + FAN_FILES_RESERVE <= all)
		return FAN_OK;
	snprintf(
		text, bytes,
		"this process may have %llu file descriptors, and with the %u of this communicator "
		"%llu are left: at least %d must be; raise the limit (ulimit -n) or destroy groups "
		"that are not used",
		all, held->count, all > used ? all - used : 0, FAN_FILES_RESERVE);
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

/* ---- fork guard ---- */

static atomic_uint forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void forked(void)
{
	atomic_fetch_add(&forks, 1);
}

static void count_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

unsigned fan_fork_guard(void)
{
	pthread_once(&forks_once, count_forks);
	return atomic_load(&forks);
}
