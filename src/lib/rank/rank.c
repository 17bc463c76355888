/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - the callers' side of a rank: how it begins, is waited for, and ends. */
#include "rank.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/fork_guard.h"
#include "lib/base/rank_file.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"
#include "roster.h"

bool fan_rank_is_forked(const struct fan_rank *c)
{
	return c->fork_guard != fan_fork_guard();
}

const char *fan_rank_error(const struct fan_rank *c)
{
	return atomic_load_explicit(&c->error, memory_order_acquire) ? c->sentence : "";
}

const char *fan_rank_ask(const struct fan_rank *c)
{
	if (c->kind->ask && !atomic_load(&c->error) && !fan_rank_is_forked(c))
		c->kind->ask((struct fan_rank *)c);
	return fan_rank_error(c);
}

/* Of a rank that is only read: its lock is no part of what stays as it is. */
static void lock(const struct fan_rank *c)
{
	pthread_mutex_lock((pthread_mutex_t *)&c->lock);
}

static void unlock(const struct fan_rank *c)
{
	pthread_mutex_unlock((pthread_mutex_t *)&c->lock);
}

void fan_rank_read_stats(const struct fan_rank *c, struct fanin_stats *stats)
{
	const size_t size = stats->size < sizeof *stats ? stats->size : sizeof *stats;
	lock(c);
	memcpy(stats, &c->shown.stats, size);
	unlock(c);
	stats->size = size;
}

void fan_rank_read_trips(const struct fan_rank *c, struct fan_rtt_histogram *trips)
{
	lock(c);
	*trips = c->shown.trips;
	unlock(c);
}

struct fan_part_shown fan_rank_part_shown(const struct fan_rank *c, unsigned k, bool *settled)
{
	assert(k < FAN_PARTS_MAX);
	lock(c);
	const struct fan_part_shown shown = c->shown.part[k];
	*settled = c->shown.settled;
	unlock(c);
	return shown;
}

unsigned fan_rank_connections(const struct fan_rank *c)
{
	lock(c);
	const unsigned connections = c->ready ? c->connections : 0;
	unlock(c);
	return connections;
}

uint64_t fan_rank_gone(const struct fan_rank *c)
{
	return c->kind->gone ? c->kind->gone(c) : 0;
}

int fan_rank_refuse(struct fan_rank *c, int error, const char *why)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (why != c->sentence)
		snprintf(c->sentence, sizeof c->sentence, "%s", why);
	atomic_store_explicit(&c->error, error, memory_order_release);
	return error;
}

void fan_rank_set_part(struct fan_rank *c, unsigned k, const struct fan_rank_part *part,
		       const char *column)
{
	char suffix[32];
	assert(k < FAN_PARTS_MAX);
	snprintf(suffix, sizeof suffix, "%s", column);
	if (k)
		snprintf(suffix, sizeof suffix, "%s/%u", column, k);
	c->parts.job[k] = (struct fan_job_part){.at = part->at};
	c->parts.inside[k] = part->inside;
	c->parts.mbps[k] = part->mbps;
	c->parts.rail[k] = part->rail;
	fan_rendezvous_derive(c->parts.job[k].name, c->cfg.job, suffix);
}

void fan_rank_add_part(struct fan_rank *c, const struct fan_rank_part *part, const char *column)
{
	fan_rank_set_part(c, c->parts.count, part, column);
	c->parts.count++;
}

struct fan_files fan_rank_files(const struct fan_rank *c)
{
	struct fan_files f = FAN_FILES_NONE;
	fan_files_add(&f, c->thread.epoll_fd);
	fan_files_add(&f, c->thread.wake_fd);
	for (unsigned i = 0; i < c->connections; i++) {
		const struct fan_connection *cn = &c->connection[i];
		if (!cn->w)
			continue;
		fan_files_add(&f, cn->udp.fd);
		fan_files_add(&f, cn->group.fd);
		fan_files_add(&f, cn->failover.aside.fd);
		for (unsigned w = FAN_HATCH_UP; cn->udp.hatch[0] && w <= FAN_HATCH_DOWN; w++)
			fan_files_add(&f, fan_hatch_fd(cn->udp.hatch[0], w));
	}
	return f;
}

void fan_rank_wake(struct fan_rank *c)
{
	c->kind->wake(c);
}

void fan_rank_init(struct fan_rank *c, const struct fan_rank_kind *kind,
		   const struct fan_meeting *hosts)
{
	assert(kind->run && kind->wake && kind->look && kind->release);
	c->kind = kind;
	c->hosts = hosts;
	c->fork_guard = fan_fork_guard();
	c->thread.epoll_fd = c->thread.wake_fd = -1;
	c->asked.awake = true;
	c->counts_trips = fan_rank_file_pattern("FANIN_METRICS") != NULL;
	for (unsigned k = 0; k < FAN_PARTS_MAX; k++)
		c->parts.inside[k] = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &clock);
	pthread_condattr_destroy(&clock);
}

/* Pages of its own, zero until they are used: most of its connections never are. */
struct fan_rank *fan_rank_new(const struct fan_rank_kind *kind)
{
	struct fan_rank *c =
		mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return NULL;
	fan_rank_init(c, kind, NULL);
	return c;
}

/* The thread takes no signals: they are the host program's. */
static int start_thread(struct fan_rank *c)
{
	sigset_t all, before;
	char why[FAN_CONNECTION_WHY_BYTES];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int e = pthread_create(&c->thread.id, NULL, c->kind->run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) {
		snprintf(why, sizeof why, "cannot start a thread: %s", strerror(e));
		return fan_rank_refuse(c, FAN_E_SYSTEM, why);
	}
	c->thread.started = true;
	return FAN_OK;
}

int fan_rank_start(struct fan_rank *c)
{
	assert(!c->thread.started);
	int e = c->kind->open ? c->kind->open(c) : FAN_OK;
	if (!e)
		e = start_thread(c);
	if (!e)
		fan_roster_add(c);
	return e;
}

/* Call `waiting`, without the lock that the caller holds. */
static void tell_wait(struct fan_rank *c)
{
	char text[FAN_FAULT_TEXT_BYTES];
	memcpy(text, c->shown.wait_text, sizeof text);
	pthread_mutex_unlock(&c->lock);
	if (*text)
		c->cfg.waiting(c->cfg.waiting_arg, text);
	pthread_mutex_lock(&c->lock);
}

static bool is_ready(const struct fan_rank *c)
{
	return c->ready && !c->asked.parts_to_add;
}

/* Call `idle`, without the lock that the caller holds. */
static void idle(struct fan_rank *c)
{
	pthread_mutex_unlock(&c->lock);
	c->idle.call(c->idle.arg);
	pthread_mutex_lock(&c->lock);
}

void fan_rank_wait_ready(struct fan_rank *c)
{
	uint64_t note_ns = fan_clock_ns() + FAN_CONFIG_NOTE_FIRST_MS * FAN_MS;
	pthread_mutex_lock(&c->lock);
	while (!is_ready(c) && !atomic_load(&c->error)) {
		uint64_t idle_ns = fan_clock_ns() + FAN_RANK_IDLE_MS * FAN_MS;
		uint64_t at_ns = c->idle.call && idle_ns < note_ns ? idle_ns : note_ns;
		struct timespec t = {.tv_sec = (time_t)(at_ns / (1000 * FAN_MS)),
				     .tv_nsec = (long)(at_ns % (1000 * FAN_MS))};
		pthread_cond_timedwait(&c->changed, &c->lock, &t);
		if (c->idle.call)
			idle(c);
		if (fan_clock_ns() < note_ns || is_ready(c))
			continue;
		note_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		if (c->cfg.waiting)
			tell_wait(c);
	}
	pthread_mutex_unlock(&c->lock);
}

int fan_rank_begin(struct fan_rank *c)
{
	int e = fan_rank_start(c);
	if (e)
		return e;
	fan_rank_wait_ready(c);
	return atomic_load(&c->error);
}

void fan_rank_leave_parts(struct fan_rank *c, unsigned count)
{
	c->asked.parts_to_add = count;
	fan_rank_wake(c);
}

void fan_rank_leave_complete(struct fan_rank *c)
{
	c->asked.complete = true;
	if (c->kind->has_sockets)
		fan_rank_wake(c);
}

void fan_rank_end_with(struct fan_rank *c, int error, const char *why)
{
	const uint64_t nobody[FAN_RANK_WORDS] = {0};
	pthread_mutex_lock(&c->lock);
	snprintf(c->ending.why, sizeof c->ending.why, "%s", why);
	fan_rank_leave_end(c, error, nobody);
	pthread_mutex_unlock(&c->lock);
}

void fan_rank_leave_end(struct fan_rank *c, int error, const uint64_t *blamed)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	c->ending.error = error;
	memcpy(c->ending.blamed, blamed, sizeof c->ending.blamed);
	fan_rank_wake(c);
}

void fan_rank_end(struct fan_rank *c, int error, const uint64_t *blamed)
{
	pthread_mutex_lock(&c->lock);
	fan_rank_leave_end(c, error, blamed);
	pthread_mutex_unlock(&c->lock);
}

void fan_rank_publish_ready(struct fan_rank *c)
{
	pthread_mutex_lock(&c->lock);
	c->ready = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void fan_rank_run_first(struct fan_rank *c, uint64_t now_ns)
{
	assert(c->ops.running_count < FAN_OPS_MAX);
	c->ops.waiting.head->started_ns = now_ns;
	c->ops.running[c->ops.running_count++] = fan_op_queue_take(&c->ops.waiting);
	c->ops.progressed = true;
}

void fan_rank_close_in(struct fan_rank *c, unsigned ms)
{
	fan_roster_remove(c);
	pthread_mutex_lock(&c->lock);
	c->asked.close_ns = fan_clock_ns() + ms * FAN_MS;
	fan_rank_wake(c);
	pthread_mutex_unlock(&c->lock);
}

void fan_rank_stop(struct fan_rank *c)
{
	fan_roster_remove(c);
	pthread_mutex_lock(&c->lock);
	c->asked.closing = true;
	pthread_cond_broadcast(&c->changed);
	if (c->thread.started)
		fan_rank_wake(c);
	while (c->asked.room_waiters || c->asked.attending)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (c->thread.started)
		pthread_join(c->thread.id, NULL);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
}

void fan_rank_release(struct fan_rank *c)
{
	c->kind->release(c);
}

void fan_rank_destroy(struct fan_rank *c)
{
	if (!c)
		return;
	if (!fan_rank_is_forked(c))
		fan_rank_stop(c);
	fan_rank_release(c);
	munmap(c, sizeof *c);
}
