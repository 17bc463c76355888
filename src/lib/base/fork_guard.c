/* SPDX-License-Identifier: Apache-2.0 */
#include "fork_guard.h"

#include <pthread.h>
#include <stdatomic.h>

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
