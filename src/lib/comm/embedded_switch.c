/* SPDX-License-Identifier: Apache-2.0 */
#include "embedded_switch.h"

#include <assert.h>
#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/aggregator/aggregator.h"
#include "core/base/err.h"
#include "lib/base/fork_guard.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/udp.h"
#include "switch_starter.h"

#define RETRY_NS (100 * FAN_MS)
#define LOOK_NS	 (1 * FAN_MS)

/* An entry is free while `users` is 0.  Whoever makes or stops the switch of an entry does
 * so without the lock, with `busy` set: others wait for `changed`. */
struct fan_embedded_switch {
	fanin_switch *running;
	unsigned users;
	struct fan_drain jobs; /* of its users */
	bool busy;
	bool serves_all; /* they are too many to name */
	char addr[FAN_CONFIG_SWITCH_MAX + 1];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int owner; /* the process that has the switches of the table; 0: none had any */
static struct fan_embedded_switch table[FAN_EMBEDDED_SWITCHES_MAX];

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* The switches are the parent's: a child closes its copies of their sockets, and starts
 * with none. */
static void in_child(void)
{
	for (unsigned i = 0; i < FAN_EMBEDDED_SWITCHES_MAX; i++)
		if (table[i].users && !table[i].busy)
			fan_switch_stop(table[i].running, NULL, 0);
	memset(table, 0, sizeof table);
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
}

/* The count of forks first: by it fan_switch_stop sees that it is in a child. */
static void watch_forks(void)
{
	fan_fork_guard();
	pthread_atfork(before_fork, after_fork, in_child);
}

/* With the lock: the entry of `addr`, or a free one, or NULL. */
static struct fan_embedded_switch *find(const char *addr)
{
	struct fan_embedded_switch *free_one = NULL;
	for (unsigned i = 0; i < FAN_EMBEDDED_SWITCHES_MAX; i++) {
		struct fan_embedded_switch *sw = &table[i];
		if ((sw->users || sw->busy) && !strcmp(sw->addr, addr))
			return sw;
		if (!sw->users && !sw->busy)
			free_one = sw;
	}
	return free_one;
}

/* Where to listen: `at` itself, or every interface of its family with its port. */
static int listen_text(char *text, size_t bytes, const struct fan_rendezvous *at, char *why,
		       size_t why_bytes)
{
	char wrong[FAN_CONFIG_WHY_BYTES];
	fan_peer p;
	if (fan_peer_parse(&p, at->addr, wrong, sizeof wrong)) {
		snprintf(why, why_bytes, "switch of rank 0: %.400s", wrong);
		return FAN_E_CONFIG;
	}
	if (at->one_host)
		fan_peer_text(&p, text, bytes);
	else
		snprintf(text, bytes, "%s:%u", fan_peer_family(&p) == AF_INET ? "0.0.0.0" : "[::]",
			 (unsigned)p.port);
	return FAN_OK;
}

static unsigned port_of(const char *addr)
{
	const char *colon = strrchr(addr, ':');
	return colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
}

static int start(struct fan_embedded_switch *sw, const struct fan_rendezvous *at,
		 const struct fan_config *cfg, char *why, size_t bytes)
{
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	char listen[FAN_CONFIG_SWITCH_MAX + 1], wrong[FAN_CONFIG_WHY_BYTES];
	int patience_ms =
		cfg->timeout_ms < FAN_EMBEDDED_BIND_MS ? cfg->timeout_ms : FAN_EMBEDDED_BIND_MS;
	uint64_t until_ns = fan_clock_ns() + (uint64_t)patience_ms * FAN_MS;
	int e = listen_text(listen, sizeof listen, at, why, bytes);
	if (e)
		return e;
	o.listen = listen;
	o.slots = FAN_EMBEDDED_SLOTS;
	o.threads = FAN_EMBEDDED_THREADS;
	o.mtu = cfg->mtu;
	o.multicast = cfg->multicast;
	o.key_file = *cfg->key_file ? cfg->key_file : NULL;
	while ((e = fan_switch_start(&o, &sw->running, wrong, sizeof wrong)) == FAN_E_SYSTEM &&
	       fan_clock_ns() < until_ns)
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
	if (!e)
		return FAN_OK;
	snprintf(why, bytes,
		 "rank 0 cannot start a switch: %.300s; name a running one in FANIN_SWITCH", wrong);
	return e;
}

/* Its last user will wait for this job, not for those of strangers; for all, if there are too many.
 */
static void serves(struct fan_embedded_switch *sw, const char *job)
{
	struct fan_drain *d = &sw->jobs;
	char head[FAN_DRAIN_HEAD_BYTES + 1];
	snprintf(head, sizeof head, "%.*s", FAN_DRAIN_HEAD_BYTES, job);
	if (!sw->users) {
		d->count = 0;
		sw->serves_all = false;
	}
	for (unsigned i = 0; i < d->count; i++)
		if (!strcmp(d->head[i], head))
			return;
	sw->serves_all |= d->count == FAN_DRAIN_JOBS_MAX;
	if (sw->serves_all)
		d->count = 0;
	else
		memcpy(d->head[d->count++], head, sizeof head);
}

int fan_embedded_switch_get(struct fan_embedded_switch **sw, const struct fan_rendezvous *at,
			    const struct fan_config *cfg, char *why, size_t bytes)
{
	struct fan_embedded_switch *one;
	int e = FAN_OK;
	pthread_once(&once, watch_forks);
	*sw = NULL;
	pthread_mutex_lock(&lock);
	atomic_store(&owner, getpid());
	while ((one = find(at->addr)) && one->busy)
		pthread_cond_wait(&changed, &lock);
	if (!one) {
		snprintf(why, bytes, "this process runs %d switches already",
			 FAN_EMBEDDED_SWITCHES_MAX);
		e = FAN_E_CONFIG;
	} else if (!one->users) {
		snprintf(one->addr, sizeof one->addr, "%s", at->addr);
		one->busy = true;
		pthread_mutex_unlock(&lock);
		e = start(one, at, cfg, why, bytes);
		pthread_mutex_lock(&lock);
		one->busy = false;
		pthread_cond_broadcast(&changed);
	}
	if (!e) {
		serves(one, cfg->job);
		one->users++;
		*sw = one;
	}
	pthread_mutex_unlock(&lock);
	return e;
}

struct fan_embedded_switch *fan_embedded_switch_share(struct fan_embedded_switch *sw)
{
	if (!sw)
		return NULL;
	pthread_mutex_lock(&lock);
	assert(sw->users > 0);
	sw->users++;
	pthread_mutex_unlock(&lock);
	return sw;
}

unsigned fan_embedded_switch_port(const struct fan_embedded_switch *sw)
{
	assert(sw->running);
	return port_of(fan_switch_address(sw->running));
}

struct fan_daemon *fan_embedded_switch_daemon(const struct fan_embedded_switch *sw)
{
	return sw ? fan_switch_daemon(sw->running) : NULL;
}

void fan_embedded_switch_put(struct fan_embedded_switch *sw, int linger_ms)
{
	if (!sw)
		return;
	pthread_mutex_lock(&lock);
	assert(sw->users > 0);
	if (--sw->users) {
		pthread_mutex_unlock(&lock);
		return;
	}
	sw->busy = true;
	pthread_mutex_unlock(&lock);
	fan_switch_stop(sw->running, &sw->jobs, linger_ms);
	pthread_mutex_lock(&lock);
	sw->running = NULL;
	sw->busy = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Take the lock, which a thread may have that ends with the process. */
static bool lock_by(uint64_t by_ns)
{
	while (pthread_mutex_trylock(&lock)) {
		if (fan_clock_ns() >= by_ns)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
	return true;
}

/* The process ends, by exit or a return from main, with communicators that nobody has destroyed:
 * the threads of its switches go on until this returns. */
static void __attribute__((destructor)) linger(void)
{
	static atomic_flag begun = ATOMIC_FLAG_INIT;
	const uint64_t by_ns = fan_clock_ns() + FAN_EMBEDDED_EXIT_MS * FAN_MS;
	if (atomic_load(&owner) != getpid() || atomic_flag_test_and_set(&begun) || !lock_by(by_ns))
		return;
	for (unsigned i = 0; i < FAN_EMBEDDED_SWITCHES_MAX; i++)
		if (table[i].users && !table[i].busy)
			fan_daemon_linger(fan_switch_daemon(table[i].running),
					  FAN_EMBEDDED_QUIET_MS, by_ns);
	pthread_mutex_unlock(&lock);
}
