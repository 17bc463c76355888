/* SPDX-License-Identifier: Apache-2.0 */
#include "embedded_switch.h"

#include <assert.h>
#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/aggregator/aggregator.h"
#include "core/base/err.h"
#include "lib/base/config.h"
#include "lib/base/rank_file.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/udp.h"

#define RETRY_NS      (100 * FAN_MS)
#define LOOK_NS	      (1 * FAN_MS)
#define ADDRESS_BYTES 80
#define LISTEN	      "127.0.0.1:0" /* the default */

/* ---- a switch: src/net/daemon with the options of the library ---- */

struct fanin_switch {
	struct fan_daemon *d;
	unsigned fork_guard; /* fan_fork_guard() when started */
	char address[ADDRESS_BYTES];
};

_Static_assert(offsetof(struct fanin_switch_options, key_file) + sizeof(char *) ==
		       sizeof(struct fanin_switch_options),
	       "fan_sized_take: no padding at the end");

/* A number that is left open or lies in its range. */
static bool fits(const char *name, int value, int min, int max, char *why)
{
	if (value == -1 || (value >= min && value <= max))
		return true;
	snprintf(why, FAN_CONFIG_WHY_BYTES, "options.%s: \"%d\": expected a number from %d to %d",
		 name, value, min, max);
	return false;
}

/* Fill in `d` from `o`, and from where the options of a communicator come from. */
static int configure(struct fan_daemon_options *d, const struct fanin_switch_options *o, char *why)
{
	struct fanin_options shared = FANIN_OPTIONS_INIT;
	struct fan_config cfg;
	char text[FAN_CONFIG_WHY_BYTES];
	if (!fits("slots", o->slots, 2, FAN_SLOTS_MAX, why) ||
	    !fits("threads", o->threads, 1, FAN_SHARDS_MAX, why))
		return FAN_E_INVALID;
	fan_daemon_defaults(d);
	if (fan_peer_parse(&d->listen, o->listen ? o->listen : LISTEN, text, sizeof text)) {
		snprintf(why, FAN_CONFIG_WHY_BYTES, "options.listen: %.400s", text);
		return FAN_E_INVALID;
	}
	/* A switch is no rank: variables of one are not for it, and the smallest job has
	 * the largest fragments. */
	shared.rank = 0;
	shared.ranks = 2;
	shared.mtu = o->mtu;
	shared.multicast = o->multicast;
	shared.key_file = o->key_file;
	int e = fan_config_load_part(&cfg, &shared, why, FAN_CONFIG_WHY_BYTES);
	if (e)
		return e;
	d->core.payload_bytes = cfg.payload_bytes;
	d->core.jobs_max = FAN_GROUPS_MAX;
	d->keys = cfg.keys;
	d->of_tenant = true;
	d->no_multicast = !cfg.multicast;
	if (o->slots != -1)
		d->core.slots = (uint32_t)o->slots;
	if (o->threads != -1)
		d->threads = (unsigned)o->threads;
	return FAN_OK;
}

static int start_daemon(const struct fanin_switch_options *given, struct fanin_switch **started,
			char *why)
{
	static const struct fan_sized kind = {.known = sizeof(struct fanin_switch_options),
					      .least = offsetof(struct fanin_switch_options, slots),
					      .init = "FANIN_SWITCH_OPTIONS_INIT"};
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	struct fan_daemon_options d;
	int e = fan_sized_take(&o, &kind, given, why, FAN_CONFIG_WHY_BYTES);
	if (!e)
		e = configure(&d, &o, why);
	if (e)
		return e;
	struct fanin_switch *s = calloc(1, sizeof *s);
	if (!s) {
		snprintf(why, FAN_CONFIG_WHY_BYTES, "%s", fan_err_text(FAN_E_NOMEM));
		return FAN_E_NOMEM;
	}
	s->fork_guard = fan_fork_guard();
	e = fan_daemon_start(&s->d, &d, why, FAN_CONFIG_WHY_BYTES);
	if (e) {
		free(s);
		return e;
	}
	fan_peer at = fan_daemon_address(s->d);
	fan_peer_text(&at, s->address, sizeof s->address);
	*started = s;
	return FAN_OK;
}

int fanin_switch_start(const struct fanin_switch_options *options, fanin_switch **started,
		       char *why, size_t why_bytes)
{
	char text[FAN_CONFIG_WHY_BYTES] = "";
	int e = FAN_E_INVALID;
	if (started)
		*started = NULL;
	if (options && started)
		e = start_daemon(options, started, text);
	else
		snprintf(text, sizeof text, "%s", fan_err_text(e));
	if (why && why_bytes)
		snprintf(why, why_bytes, "%s", text);
	return e;
}

const char *fanin_switch_address(const fanin_switch *running)
{
	return running ? running->address : "";
}

/* Stop, as fanin_switch_stop, but wait for the jobs `of` alone; NULL: for all. */
static void stop_daemon(fanin_switch *running, const struct fan_drain *of, int linger_ms)
{
	const struct fan_drain all = {.count = 0};
	if (!running)
		return;
	if (running->fork_guard != fan_fork_guard()) { /* the threads are the parent's */
		fan_daemon_abandon(running->d);
	} else {
		if (linger_ms > 0)
			fan_daemon_drain(running->d, of ? of : &all, linger_ms);
		fan_daemon_stop(running->d);
	}
	free(running);
}

void fanin_switch_stop(fanin_switch *running, int linger_ms)
{
	stop_daemon(running, NULL, linger_ms);
}

/* ---- those of ranks ---- */

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
			stop_daemon(table[i].running, NULL, 0);
	memset(table, 0, sizeof table);
	pthread_cond_init(&changed, NULL);
	pthread_mutex_unlock(&lock);
}

/* The count of forks first: by it stop_daemon sees that it is in a child. */
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
	while ((e = fanin_switch_start(&o, &sw->running, wrong, sizeof wrong)) == FAN_E_SYSTEM &&
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

struct fan_daemon *fan_embedded_switch_daemon(const struct fan_embedded_switch *sw)
{
	return sw ? sw->running->d : NULL;
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
	stop_daemon(sw->running, &sw->jobs, linger_ms);
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
			fan_daemon_linger(table[i].running->d, FAN_EMBEDDED_QUIET_MS, by_ns);
	pthread_mutex_unlock(&lock);
}
