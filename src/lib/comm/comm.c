/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - the callers' side of a communicator. */
#include "comm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/files.h"
#include "lib/base/fork_guard.h"
#include "lib/base/rank_file.h"
#include "lib/base/resolve.h"
#include "lib/host/rules.h"
#include "meeting.h"
#include "net/clock.h"

#define MEETING_WINDOW 8 /* fragments: a meeting leaves the slots to jobs that need them */

bool fan_comm_is_forked(const struct fanin_comm *c)
{
	return c->fork_guard != fan_fork_guard();
}

static void init(struct fanin_comm *c)
{
	c->fork_guard = fan_fork_guard();
	c->epoll_fd = c->wake_fd = -1;
	c->awake = true;
	c->counts_trips = fan_rank_file_pattern("FANIN_METRICS") != NULL;
	for (unsigned k = 0; k < FAN_PARTS_MAX; k++)
		c->inside[k] = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &clock);
	pthread_condattr_destroy(&clock);
}

const char *fan_comm_error(const struct fanin_comm *c)
{
	return atomic_load_explicit(&c->error, memory_order_acquire) ? c->sentence : "";
}

void fan_comm_read_stats(const struct fanin_comm *c, struct fanin_stats *stats)
{
	const size_t size = stats->size < sizeof *stats ? stats->size : sizeof *stats;
	pthread_mutex_t *lock = (pthread_mutex_t *)&c->lock;
	pthread_mutex_lock(lock);
	memcpy(stats, &c->stats, size);
	pthread_mutex_unlock(lock);
	stats->size = size;
}

int fan_comm_refuse(struct fanin_comm *c, int error, const char *why)
{
	if (why != c->sentence)
		snprintf(c->sentence, sizeof c->sentence, "%s", why);
	atomic_store_explicit(&c->error, error, memory_order_release);
	return error;
}

static int open_events(struct fanin_comm *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = FAN_COMM_WAKE};
	char why[FAN_CONNECTION_WHY_BYTES], cause[160];
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll_fd >= 0 && c->wake_fd >= 0 &&
	    !epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &ev))
		return FAN_OK;
	snprintf(why, sizeof why, "cannot wait for events: %s",
		 fan_files_strerror(errno, cause, sizeof cause));
	return fan_comm_refuse(c, FAN_E_SYSTEM, why);
}

/* The thread takes no signals: they are the host program's. */
static int start_thread(struct fanin_comm *c)
{
	sigset_t all, before;
	char why[FAN_CONNECTION_WHY_BYTES];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int e = pthread_create(&c->thread, NULL, c->intra ? fan_intra_comm_run : fan_progress, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) {
		snprintf(why, sizeof why, "cannot start a thread: %s", strerror(e));
		return fan_comm_refuse(c, FAN_E_SYSTEM, why);
	}
	c->threaded = true;
	return FAN_OK;
}

static int resolve(struct fanin_comm *c, const char *what, const char *text, fan_peer *to)
{
	char why[FAN_CONFIG_WHY_BYTES], sentence[FAN_FAULT_TEXT_BYTES];
	if (!fan_resolve(to, text, &c->cfg, why, sizeof why))
		return FAN_OK;
	snprintf(sentence, sizeof sentence, "%s: %.400s", what, why);
	return fan_comm_refuse(c, FAN_E_CONFIG, sentence);
}

void fan_comm_set_part(struct fanin_comm *c, unsigned k, const fan_peer *at, const char *column)
{
	char suffix[32];
	snprintf(suffix, sizeof suffix, "%s", column);
	if (k)
		snprintf(suffix, sizeof suffix, "%s/%u", column, k);
	c->part[k] = (struct fan_job_part){.at = *at};
	fan_rendezvous_derive(c->part[k].name, c->cfg.job, suffix);
}

/* Parts from `first` on: one at each host whose first rank runs an aggregator.  How many. */
static unsigned set_hosts(struct fanin_comm *c, unsigned first, const struct fan_meeting *m)
{
	unsigned k = first;
	for (unsigned h = 0; h < m->hosts; h++)
		if (m->host[h].aggregator.port) {
			fan_comm_set_part(c, k, &m->host[h].aggregator, "");
			c->mbps[k] = m->host[h].mbps;
			c->inside[k++] = m->host[h].first;
		}
	return k - first;
}

static int find_meeting(struct fanin_comm *c, struct fan_rendezvous *at)
{
	if (!*c->cfg.meeting_addr)
		return fan_rendezvous_find(at, c->sentence, sizeof c->sentence);
	memcpy(at->addr, c->cfg.meeting_addr, sizeof at->addr);
	at->one_host = c->cfg.meeting_local;
	return FAN_OK;
}

/* Nobody named a switch: the ranks meet at rank 0, which starts one.  Where they are on several
 * hosts, the first rank of each host runs an aggregator for its part. */
static int meet(struct fanin_comm *c)
{
	struct fan_rendezvous at;
	struct fan_meeting *m = &c->places.ranks;
	fan_peer here;
	int e = find_meeting(c, &at);
	if (e)
		return fan_comm_refuse(c, e, c->sentence);
	e = resolve(c, *c->cfg.meeting_addr ? "switch" : "rank 0's host", at.addr, &here);
	if (e)
		return e;
	if (!c->cfg.rank)
		e = fan_embedded_switch_get(&c->embedded, &at, &c->cfg, c->sentence,
					    sizeof c->sentence);
	m->hosts = 1;
	m->host[0].aggregator = here;
	if (!e)
		e = fan_meeting_hold(m, &c->cfg, &here, false, &c->embedded, c->sentence,
				     sizeof c->sentence);
	if (e)
		return fan_comm_refuse(c, e, c->sentence);
	c->parts = set_hosts(c, 0, m);
	if (fan_intra_is_agreed(m, (unsigned)c->cfg.ranks, false))
		return fan_intra_comm_open(c, m);
	if (c->parts == 1)
		snprintf(c->switch_text, sizeof c->switch_text, "%s (inside rank 0)", at.addr);
	else
		snprintf(c->switch_text, sizeof c->switch_text,
			 "%s (inside rank 0) and %u more hosts", at.addr, c->parts - 1);
	return FAN_OK;
}

/* The switches of a list, a part each. */
static int take_list(struct fanin_comm *c)
{
	char text[sizeof c->cfg.switch_addr], sentence[FAN_FAULT_TEXT_BYTES], *rest;
	memcpy(text, c->cfg.switch_addr, sizeof text);
	snprintf(c->switch_text, sizeof c->switch_text, "%s", text);
	for (char *one = text; one; one = rest) {
		rest = strchr(one, ',');
		if (rest)
			*rest++ = '\0';
		fan_peer at;
		int e = resolve(c, "switch", one, &at);
		if (e)
			return e;
		snprintf(sentence, sizeof sentence,
			 "switch %.100s: named twice: expected different ones", one);
		for (unsigned k = 0; k < c->parts; k++)
			if (fan_peer_equal(&c->part[k].at, &at))
				return fan_comm_refuse(c, FAN_E_CONFIG, sentence);
		fan_comm_set_part(c, c->parts++, &at, "");
	}
	return FAN_OK;
}

bool fan_comm_hosts_may_sum(const struct fan_config *cfg)
{
	return *cfg->switch_addr && !*cfg->server_addr && !cfg->ahead &&
	       fan_config_flag("FANIN_HOSTS", true);
}

static unsigned mix(struct fanin_comm *c, const struct fan_meeting *m)
{
	bool fits = c->parts + m->hosts <= FAN_COMM_MIXED_MAX;
	return m->hosts > 1 && fits ? set_hosts(c, c->parts, m) : 0;
}

/* Find out whom to ask: switches, which are then a part each; or a controller, which tells the
 * parts. */
static int find_switch(struct fanin_comm *c)
{
	if (*c->cfg.controller_addr) {
		snprintf(c->switch_text, sizeof c->switch_text, "%s (controller)",
			 c->cfg.controller_addr);
		return resolve(c, "controller", c->cfg.controller_addr, &c->controller_addr);
	}
	int e = *c->cfg.switch_addr ? take_list(c) : meet(c);
	if (e || !*c->cfg.server_addr)
		return e;
	return resolve(c, "server", c->cfg.server_addr, &c->server_addr);
}

/* Buffers, events and the thread, once it is known whom to ask. */
static int open_all(struct fanin_comm *c)
{
	c->io = fan_connection_io_new(c->cfg.payload_bytes, c->cfg.keys.count);
	if (!c->io)
		return fan_comm_refuse(c, FAN_E_NOMEM, fan_err_text(FAN_E_NOMEM));
	int e = open_events(c);
	if (!e && *c->cfg.controller_addr)
		fan_comm_client_init(c);
	if (!e)
		e = start_thread(c);
	return e;
}

/* Call `waiting`, without the lock that the caller holds. */
static void tell_wait(struct fanin_comm *c)
{
	char text[FAN_FAULT_TEXT_BYTES];
	memcpy(text, c->wait_text, sizeof text);
	pthread_mutex_unlock(&c->lock);
	if (*text)
		c->cfg.waiting(c->cfg.waiting_arg, text);
	pthread_mutex_lock(&c->lock);
}

void fan_comm_wake(struct fanin_comm *c)
{
	uint64_t one = 1;
	if (c->intra) {
		fan_intra_comm_wake(c->intra);
		return;
	}
	if (c->awake)
		return;
	c->awake = true;
	ssize_t n = write(c->wake_fd, &one, sizeof one);
	(void)n; /* fails only when it is full of wake-ups already */
}

static bool is_ready(const struct fanin_comm *c)
{
	return c->ready && !c->parts_to_add;
}

/* The same of what else its thread has to do meanwhile. */
static void idle(struct fanin_comm *c)
{
	pthread_mutex_unlock(&c->lock);
	c->idle(c->idle_arg);
	pthread_mutex_lock(&c->lock);
}

static void wait_ready(struct fanin_comm *c)
{
	uint64_t note_ns = fan_clock_ns() + FAN_CONFIG_NOTE_FIRST_MS * FAN_MS;
	pthread_mutex_lock(&c->lock);
	while (!is_ready(c) && !atomic_load(&c->error)) {
		uint64_t idle_ns = fan_clock_ns() + FAN_COMM_IDLE_MS * FAN_MS;
		uint64_t at_ns = c->idle && idle_ns < note_ns ? idle_ns : note_ns;
		struct timespec t = {.tv_sec = (time_t)(at_ns / (1000 * FAN_MS)),
				     .tv_nsec = (long)(at_ns % (1000 * FAN_MS))};
		pthread_cond_timedwait(&c->changed, &c->lock, &t);
		if (c->idle)
			idle(c);
		if (fan_clock_ns() < note_ns || is_ready(c))
			continue;
		note_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		if (c->cfg.waiting)
			tell_wait(c);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Pages of its own, zero until they are used: most of its connections never are. */
struct fanin_comm *fan_comm_new(void)
{
	struct fanin_comm *c =
		mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	init(c);
	return c;
}

int fan_comm_start(struct fanin_comm *c)
{
	return c->intra ? start_thread(c) : open_all(c);
}

int fan_comm_begin(struct fanin_comm *c)
{
	int e = fan_comm_start(c);
	if (e)
		return e;
	wait_ready(c);
	return atomic_load(&c->error);
}

/* The error of a meeting at `c`. */
static int fails_to_meet(struct fanin_comm *c, int e)
{
	return atomic_load(&c->error) ? atomic_load(&c->error)
				      : fan_comm_refuse(c, e, fan_err_text(e));
}

/* Open `d`, whose ranks share memory, for the job of `c`. */
static int open_shared(struct fanin_comm *d, const struct fanin_comm *c)
{
	const struct fan_meeting *m = &d->places.ranks;
	d->cfg = c->cfg;
	d->places.ranks = c->places.ranks;
	d->trace = c->trace;
	d->parts = c->parts;
	memcpy(d->part, c->part, sizeof d->part);
	d->parts += mix(d, m);
	int e = fan_intra_comm_open(d, m);
	return e ? e : fan_comm_begin(d);
}

/* Put a communicator whose ranks share memory into the place of `*comm`, at which they have met;
 * unless one of them cannot open it, for want of room at a switch or of the right to share memory:
 * then all keep `*comm`. */
static int share_memory(struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm, *d = fan_comm_new();
	int32_t fail = !d || open_shared(d, c);
	int e = fan_meeting_add_up(c, &fail, 1);
	if (!e && !fail && d) {
		d->embedded = c->embedded;
		c->embedded = NULL;
		*comm = d;
		d = c;
	}
	if (d)
		d->trace = NULL; /* of the other one */
	fan_comm_destroy(d);
	return e ? fails_to_meet(c, e) : FAN_OK;
}

/* The ranks have joined at the named switches: they tell each other their hosts there.  Those of a
 * host share memory, and hosts join as well. */
static int join_hosts(struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm;
	struct fan_meeting *m = &c->places.ranks;
	bool hosts = fan_comm_hosts_may_sum(&c->cfg);
	if (c->intra || !*c->cfg.switch_addr || (!hosts && !fan_intra_is_asked_for(&c->cfg)))
		return FAN_OK;
	int e = fan_meeting_join(m, c, &c->part[0].at, true, hosts ? &c->embedded : NULL);
	if (e)
		return fails_to_meet(c, e);
	if (fan_intra_is_agreed(m, (unsigned)c->cfg.ranks, true))
		e = share_memory(comm);
	if (e || *comm != c)
		return e;
	pthread_mutex_lock(&c->lock); /* which the thread takes before it looks at further parts */
	c->parts_to_add = mix(c, m);
	fan_comm_wake(c);
	pthread_mutex_unlock(&c->lock);
	wait_ready(c);
	return atomic_load(&c->error);
}

static void trace_join(struct fanin_comm *c, uint64_t begin_ns)
{
	struct fan_trace_event e = {.kind = FAN_TRACE_JOIN,
				    .name = "join",
				    .begin_ns = begin_ns,
				    .end_ns = fan_clock_ns()};
	fan_trace_add(c->trace, &e);
}

/* All parts are there: from now on the job may go on without some of them. */
void fan_comm_complete(struct fanin_comm *c)
{
	atomic_store(&c->met, true);
	c->places.count = *c->cfg.controller_addr ? 0 : c->parts; /* a controller's parts change */
	for (unsigned k = 0; k < c->places.count; k++) {
		c->places.at[k] = c->part[k].at;
		c->places.inside[k] = c->inside[k];
	}
	pthread_mutex_lock(&c->lock);
	c->complete = true;
	if (!c->intra)
		fan_comm_wake(c);
	pthread_mutex_unlock(&c->lock);
}

int fan_comm_create(const struct fanin_options *options, struct fanin_comm **comm)
{
	return fan_comm_create_on(options, NULL, comm);
}

static void take_terms(struct fan_config *cfg, const struct fan_comm_terms *terms)
{
	if (terms->meeting_addr)
		snprintf(cfg->meeting_addr, sizeof cfg->meeting_addr, "%s", terms->meeting_addr);
	cfg->meeting_local = terms->meeting_local;
	cfg->join_ms = terms->join_ms;
}

int fan_comm_create_on(const struct fanin_options *options, const struct fan_comm_terms *terms,
		       struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm = fan_comm_new();
	if (!c)
		return FAN_E_NOMEM;
	int e = fan_config_load(&c->cfg, options, c->sentence, sizeof c->sentence);
	if (terms)
		take_terms(&c->cfg, terms);
	if (!e)
		e = fan_config_check_flags(c->sentence, sizeof c->sentence);
	if (e)
		return fan_comm_refuse(c, e, c->sentence);
	c->trace = fan_trace_open(&c->cfg);
	uint64_t begin_ns = c->trace ? fan_clock_ns() : 0;
	e = find_switch(c);
	if (!e)
		e = fan_comm_begin(c);
	if (!e)
		e = join_hosts(comm);
	c = *comm;
	if (c->trace)
		trace_join(c, begin_ns);
	if (e)
		return e;
	fan_comm_complete(c);
	return FAN_OK;
}

int fan_comm_create_column(const struct fanin_comm *of, const struct fan_config *cfg,
			   unsigned column, unsigned columns, const uint16_t *global,
			   const uint16_t *host_first,
			   const uint16_t (*rank_at)[FAN_HOST_RANKS_MAX], struct fanin_comm **comm)
{
	char suffix[16];
	struct fanin_comm *c = *comm = fan_comm_new();
	if (!c)
		return FAN_E_NOMEM;
	c->cfg = *cfg;
	c->trace = of->trace; /* which outlives it */
	c->columns = columns;
	c->global = global;
	c->host_first = host_first;
	c->rank_at = rank_at;
	c->idle = fan_intra_comm_join_on;
	c->idle_arg = of->intra;
	snprintf(suffix, sizeof suffix, "/c%u", column);
	for (c->parts = 0; c->parts < of->parts; c->parts++) {
		fan_comm_set_part(c, c->parts, &of->part[c->parts].at, suffix);
		c->inside[c->parts] = of->inside[c->parts];
		c->mbps[c->parts] = of->mbps[c->parts];
	}
	c->complete = true;
	return fan_comm_begin(c);
}

int fan_comm_create_at(const struct fan_config *cfg, const fan_peer *at, const char *suffix,
		       struct fanin_comm **comm)
{
	struct fanin_comm *c = *comm = fan_comm_new();
	if (!c)
		return FAN_E_NOMEM;
	c->cfg = *cfg;
	c->cfg.window = MEETING_WINDOW;
	fan_comm_set_part(c, c->parts++, at, suffix);
	c->inside[0] = 0;
	return fan_comm_begin(c);
}

void fan_comm_end(struct fanin_comm *c, int error, const uint64_t *blamed)
{
	pthread_mutex_lock(&c->lock);
	c->ending = error;
	memcpy(c->ending_blamed, blamed, sizeof c->ending_blamed);
	fan_comm_wake(c);
	pthread_mutex_unlock(&c->lock);
}

/* A child of fork() has no part in the switch: embedded_switch.c sees to that by itself. */
static void free_all(struct fanin_comm *c)
{
	fan_intra_comm_free(c->intra); /* leaves the jobs at the embedded switch */
	if (!fan_comm_is_forked(c))
		fan_embedded_switch_put(c->embedded, c->cfg.alive_ms + FAN_COMM_LINGER_MS);
	for (unsigned i = 0; i < FAN_SHARDS_MAX; i++)
		fan_connection_close(&c->connection[i]);
	fan_comm_client_free(c);
	fan_regroup_free(c->regroup);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	fan_connection_io_free(c->io);
	munmap(c, sizeof *c);
}

void fan_comm_destroy(struct fanin_comm *c)
{
	if (!c)
		return;
	if (fan_comm_is_forked(c)) { /* the thread and the job are the parent's */
		if (c->watcher.end)
			c->watcher.end(c->watcher.of, true);
		if (!c->global)
			fan_trace_abandon(c->trace);
		free_all(c);
		return;
	}
	if (c->watcher.end)
		c->watcher.end(c->watcher.of, false);
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_cond_broadcast(&c->changed);
	if (c->threaded)
		fan_comm_wake(c);
	while (c->room_waiters || c->attending)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (c->threaded)
		pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	struct fan_trace *trace = c->global ? NULL : c->trace;
	free_all(c); /* its columns end */
	fan_trace_close(trace);
}
