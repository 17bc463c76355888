/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - the callers' side of a rank: how it begins, is waited for, and ends. */
#include "rank.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "file/option.h"
#include "lib/base/files.h"
#include "lib/base/rank_file.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"
#include "registry.h"

bool fan_rank_is_forked(const struct fan_rank *r)
{
	return r->fork_guard != fan_fork_guard();
}

const char *fan_rank_error(const struct fan_rank *r)
{
	return atomic_load_explicit(&r->error, memory_order_acquire) ? r->sentence : "";
}

const char *fan_rank_ask(const struct fan_rank *r)
{
	if (r->kind->ask && !atomic_load(&r->error) && !fan_rank_is_forked(r))
		r->kind->ask((struct fan_rank *)r);
	return fan_rank_error(r);
}

/* Lock a rank that is only read: its lock is no part of what stays as it is. */
static void lock(const struct fan_rank *r)
{
	pthread_mutex_lock((pthread_mutex_t *)&r->lock);
}

static void unlock(const struct fan_rank *r)
{
	pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
}

void fan_rank_read_stats(const struct fan_rank *r, struct fanin_stats *stats)
{
	const size_t size = stats->size < sizeof *stats ? stats->size : sizeof *stats;
	lock(r);
	memcpy(stats, &r->shown.stats, size);
	unlock(r);
	stats->size = size;
}

void fan_rank_read_trips(const struct fan_rank *r, struct fan_rtt_histogram *trips)
{
	lock(r);
	*trips = r->shown.trips;
	unlock(r);
}

struct fan_part_shown fan_rank_part_shown(const struct fan_rank *r, unsigned k, bool *settled)
{
	assert(k < FAN_PARTS_MAX);
	lock(r);
	const struct fan_part_shown shown = r->shown.part[k];
	*settled = r->shown.settled;
	unlock(r);
	return shown;
}

unsigned fan_rank_connections(const struct fan_rank *r)
{
	lock(r);
	const unsigned connections = r->ready ? r->connections : 0;
	unlock(r);
	return connections;
}

uint64_t fan_rank_gone(const struct fan_rank *r)
{
	return r->kind->gone ? r->kind->gone(r) : 0;
}

int fan_rank_refuse(struct fan_rank *r, int error, const char *why)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (why != r->sentence)
		snprintf(r->sentence, sizeof r->sentence, "%s", why);
	atomic_store_explicit(&r->error, error, memory_order_release);
	return error;
}

void fan_rank_set_part(struct fan_rank *r, unsigned k, const struct fan_rank_part *part,
		       const char *column)
{
	char suffix[32];
	assert(k < FAN_PARTS_MAX);
	snprintf(suffix, sizeof suffix, "%s", column);
	if (k)
		snprintf(suffix, sizeof suffix, "%s/%u", column, k);
	r->parts.job[k] = (struct fan_job_part){.at = part->at};
	r->parts.inside[k] = part->inside;
	r->parts.mbps[k] = part->mbps;
	r->parts.rail[k] = part->rail;
	fan_rendezvous_derive(r->parts.job[k].name, r->cfg.job, suffix);
}

void fan_rank_add_part(struct fan_rank *r, const struct fan_rank_part *part, const char *column)
{
	fan_rank_set_part(r, r->parts.count, part, column);
	r->parts.count++;
}

struct fan_files fan_rank_files(const struct fan_rank *r)
{
	struct fan_files f = FAN_FILES_NONE;
	fan_files_add(&f, r->thread.epoll_fd);
	fan_files_add(&f, r->thread.wake_fd);
	for (unsigned i = 0; i < r->connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		if (!cn->w)
			continue;
		fan_files_add(&f, cn->udp.fd);
		fan_files_add(&f, cn->group.fd);
		fan_files_add(&f, cn->failover.aside.fd);
		for (unsigned w = FAN_RING_PAIR_UP; cn->udp.pair[0] && w <= FAN_RING_PAIR_DOWN; w++)
			fan_files_add(&f, fan_ring_pair_fd(cn->udp.pair[0], w));
	}
	return f;
}

void fan_rank_wake(struct fan_rank *r)
{
	r->kind->wake(r);
}

void fan_rank_init(struct fan_rank *r, const struct fan_rank_kind *kind,
		   const struct fan_meeting *hosts)
{
	assert(kind->run && kind->wake && kind->look && kind->release);
	r->kind = kind;
	r->hosts = hosts;
	r->fork_guard = fan_fork_guard();
	r->thread.epoll_fd = r->thread.wake_fd = -1;
	r->asked.awake = true;
	r->counts_trips = fan_option_variable("FANIN_METRICS") != NULL;
	for (unsigned k = 0; k < FAN_PARTS_MAX; k++)
		r->parts.inside[k] = -1;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&r->changed, &clock);
	pthread_condattr_destroy(&clock);
}

/* Pages of its own, zero until they are used: most of its connections never are. */
struct fan_rank *fan_rank_new(const struct fan_rank_kind *kind)
{
	struct fan_rank *r =
		mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED)
		return NULL;
	fan_rank_init(r, kind, NULL);
	return r;
}

/* The thread takes no signals: they are the host program's. */
static int start_thread(struct fan_rank *r)
{
	sigset_t all, before;
	char why[FAN_CONNECTION_WHY_BYTES];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int e = pthread_create(&r->thread.id, NULL, r->kind->run, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e) {
		snprintf(why, sizeof why, "cannot start a thread: %s", strerror(e));
		return fan_rank_refuse(r, FAN_E_SYSTEM, why);
	}
	r->thread.started = true;
	return FAN_OK;
}

int fan_rank_start(struct fan_rank *r)
{
	assert(!r->thread.started);
	int e = r->kind->open ? r->kind->open(r) : FAN_OK;
	if (!e)
		e = start_thread(r);
	if (!e)
		fan_registry_add(r);
	return e;
}

/* Call `waiting`, without the lock that the caller holds. */
static void report_wait(struct fan_rank *r)
{
	char text[FAN_FAULT_TEXT_BYTES];
	memcpy(text, r->shown.wait_text, sizeof text);
	pthread_mutex_unlock(&r->lock);
	if (*text)
		r->cfg.waiting(r->cfg.waiting_arg, text);
	pthread_mutex_lock(&r->lock);
}

static bool is_ready(const struct fan_rank *r)
{
	return r->ready && !r->asked.parts_to_add;
}

/* Call `idle`, without the lock that the caller holds. */
static void idle(struct fan_rank *r)
{
	pthread_mutex_unlock(&r->lock);
	r->idle.call(r->idle.arg);
	pthread_mutex_lock(&r->lock);
}

void fan_rank_wait_ready(struct fan_rank *r)
{
	uint64_t note_ns = fan_clock_ns() + (uint64_t)fan_config_note_first_ms(&r->cfg) * FAN_MS;
	pthread_mutex_lock(&r->lock);
	while (!is_ready(r) && !atomic_load(&r->error)) {
		uint64_t idle_ns = fan_clock_ns() + FAN_RANK_IDLE_MS * FAN_MS;
		uint64_t at_ns = r->idle.call && idle_ns < note_ns ? idle_ns : note_ns;
		struct timespec t = {.tv_sec = (time_t)(at_ns / (1000 * FAN_MS)),
				     .tv_nsec = (long)(at_ns % (1000 * FAN_MS))};
		pthread_cond_timedwait(&r->changed, &r->lock, &t);
		if (r->idle.call)
			idle(r);
		if (fan_clock_ns() < note_ns || is_ready(r))
			continue;
		note_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		if (r->cfg.waiting)
			report_wait(r);
	}
	pthread_mutex_unlock(&r->lock);
}

int fan_rank_begin(struct fan_rank *r)
{
	int e = fan_rank_start(r);
	if (e)
		return e;
	fan_rank_wait_ready(r);
	return atomic_load(&r->error);
}

void fan_rank_leave_parts(struct fan_rank *r, unsigned count)
{
	r->asked.parts_to_add = count;
	fan_rank_wake(r);
}

void fan_rank_leave_complete(struct fan_rank *r)
{
	r->asked.complete = true;
	if (r->kind->has_sockets)
		fan_rank_wake(r);
}

void fan_rank_end_with(struct fan_rank *r, int error, const char *why)
{
	const uint64_t nobody[FAN_RANK_WORDS] = {0};
	pthread_mutex_lock(&r->lock);
	snprintf(r->ending.why, sizeof r->ending.why, "%s", why);
	fan_rank_leave_end(r, error, nobody);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_leave_end(struct fan_rank *r, int error, const uint64_t *blamed)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	r->ending.error = error;
	memcpy(r->ending.blamed, blamed, sizeof r->ending.blamed);
	fan_rank_wake(r);
}

void fan_rank_end(struct fan_rank *r, int error, const uint64_t *blamed)
{
	pthread_mutex_lock(&r->lock);
	fan_rank_leave_end(r, error, blamed);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_publish_ready(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	r->ready = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_run_first(struct fan_rank *r, uint64_t now_ns)
{
	assert(r->ops.running_count < FAN_OPS_MAX);
	r->ops.waiting.head->started_ns = now_ns;
	r->ops.running[r->ops.running_count++] = fan_op_queue_take(&r->ops.waiting);
	r->ops.progressed = true;
}

void fan_rank_close_in(struct fan_rank *r, unsigned ms)
{
	fan_registry_remove(r);
	pthread_mutex_lock(&r->lock);
	r->asked.close_ns = fan_clock_ns() + ms * FAN_MS;
	fan_rank_wake(r);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_stop(struct fan_rank *r)
{
	fan_registry_remove(r);
	pthread_mutex_lock(&r->lock);
	r->asked.closing = true;
	pthread_cond_broadcast(&r->changed);
	if (r->thread.started)
		fan_rank_wake(r);
	while (r->asked.room_waiters || r->asked.attending)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
	if (r->thread.started)
		pthread_join(r->thread.id, NULL);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
}

void fan_rank_release(struct fan_rank *r)
{
	r->kind->release(r);
}

void fan_rank_destroy(struct fan_rank *r)
{
	if (!r)
		return;
	if (!fan_rank_is_forked(r))
		fan_rank_stop(r);
	fan_rank_release(r);
	munmap(r, sizeof *r);
}
