/* SPDX-License-Identifier: Apache-2.0 */
/* rank.c - the callers' side of a rank: how it begins, starts operations, is waited for, and ends.
 */
#include "rank.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "file/option.h"
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
static void call_idle(struct fan_rank *r)
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
			call_idle(r);
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

void fan_rank_end(struct fan_rank *r, int error, const char *why, const uint64_t *blamed)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	pthread_mutex_lock(&r->lock);
	r->ending.error = error;
	snprintf(r->ending.why, sizeof r->ending.why, "%s", why);
	memset(r->ending.blamed, 0, sizeof r->ending.blamed);
	if (blamed)
		memcpy(r->ending.blamed, blamed, sizeof r->ending.blamed);
	r->kind->wake(r);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_close_in(struct fan_rank *r, unsigned ms)
{
	fan_registry_remove(r);
	pthread_mutex_lock(&r->lock);
	r->asked.close_ns = fan_clock_ns() + ms * FAN_MS;
	r->kind->wake(r);
	pthread_mutex_unlock(&r->lock);
}

void fan_rank_stop(struct fan_rank *r)
{
	fan_registry_remove(r);
	pthread_mutex_lock(&r->lock);
	r->asked.closing = true;
	pthread_cond_broadcast(&r->changed);
	if (r->thread.started)
		r->kind->wake(r);
	while (r->asked.room_waiters || r->asked.attending)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
	if (r->thread.started)
		pthread_join(r->thread.id, NULL);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
}

void fan_rank_destroy(struct fan_rank *r)
{
	if (!r)
		return;
	if (!fan_rank_is_forked(r))
		fan_rank_stop(r);
	r->kind->release(r);
	munmap(r, sizeof *r);
}

/* ---- how callers start operations ---- */

/* With the lock held.  FAN_OK: there is room for `count` more. */
static int wait_for_room(struct fan_rank *r, unsigned count, bool wait)
{
	int e = FAN_OK;
	r->asked.room_waiters++;
	while (!(e = atomic_load(&r->error)) && !r->asked.closing &&
	       atomic_load(&r->ops_open) + count > FAN_RANK_OPS_MAX) {
		if (!wait) {
			e = FAN_E_BUSY;
			break;
		}
		pthread_cond_wait(&r->changed, &r->lock);
	}
	r->asked.room_waiters--;
	if (r->asked.closing) {
		pthread_cond_broadcast(&r->changed);
		e = FAN_E_CLOSED;
	}
	return e;
}

/* Check arguments and make the operation, which has not been queued. */
static int make_op(const struct fan_rank *r, const struct fan_op_args *args, struct fanin_op **op)
{
	struct fan_op what;
	int e = fan_op_check(&what, args, &r->cfg);
	if (e)
		return e;
	if (fan_op_is_callers(args->kind))
		what.mark |= (uint16_t)atomic_load_explicit(&r->mark, memory_order_relaxed);
	*op = fan_op_new(&what, args->kind);
	if (!*op)
		return FAN_E_NOMEM;
	(*op)->notify = args->notify;
	(*op)->notify_arg = args->notify_arg;
	if (r->trace && fan_op_is_callers(args->kind))
		fan_op_trace(*op, r->trace, r->column.global);
	return FAN_OK;
}

static int queue_ops(struct fan_rank *r, struct fanin_op **ops, unsigned count, bool attended,
		     bool wait)
{
	pthread_mutex_lock(&r->lock);
	int e = wait_for_room(r, count, wait);
	if (!e) {
		atomic_fetch_add(&r->ops_open, count);
		for (unsigned i = 0; i < count; i++)
			fan_op_queue_add(&r->asked.queued, ops[i]);
		if (attended)
			r->asked.attending++;
		else
			r->kind->wake(r);
	}
	pthread_mutex_unlock(&r->lock);
	return e;
}

int fan_rank_submit(struct fan_rank *r, const struct fan_op_args *args, unsigned count, bool wait,
		    struct fanin_op **ops)
{
	unsigned made = 0;
	assert(count >= 1 && count <= FAN_RANKS_MAX);
	for (unsigned i = 0; i < count; i++)
		ops[i] = NULL;
	if (fan_rank_is_forked(r))
		return FAN_E_CLOSED;
	int e = atomic_load_explicit(&r->error, memory_order_acquire);
	while (!e && made < count && !(e = make_op(r, &args[made], &ops[made])))
		made++;
	if (!e)
		e = queue_ops(r, ops, count, args->attended, wait);
	for (unsigned i = 0; e && i < made; i++) {
		ops[i]->notify = NULL;
		fan_op_end(ops[i], e);
		fanin_op_free(ops[i]);
		ops[i] = NULL;
	}
	return e;
}

/* The result of `op`, which has not been freed; meanwhile calls `idle`, which may be NULL. */
static int wait_idly(struct fanin_op *op, void (*idle)(void *arg), void *arg)
{
	int e;
	if (!idle)
		return fanin_op_wait(op, -1);
	while ((e = fanin_op_wait(op, FAN_RANK_IDLE_MS)) == FAN_E_PENDING)
		idle(arg);
	return e;
}

/* Attend an operation that was queued as attended.  Until this returns the communicator stays. */
static void attend(struct fan_rank *r, struct fanin_op *op, uint64_t until_ns)
{
	r->kind->attend(r, op, until_ns);
	pthread_mutex_lock(&r->lock);
	assert(r->asked.attending > 0);
	r->asked.attending--;
	if (r->asked.closing)
		pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

int fan_rank_run(struct fan_rank *r, const struct fan_op_args *args)
{
	struct fan_op_args mine = *args;
	struct fanin_op *op;
	/* Once the operation is queued the communicator may be gone any time. */
	void (*idle)(void *arg) = r->idle.call;
	void *idle_arg = r->idle.arg;
	mine.attended = r->kind->attend != NULL;
	int e = fan_rank_submit(r, &mine, 1, true, &op);
	if (e)
		return e;
	if (mine.attended)
		attend(r, op, UINT64_MAX);
	e = wait_idly(op, idle, idle_arg);
	fanin_op_free(op);
	return e;
}

int fan_rank_run_within(struct fan_rank *r, const struct fan_op_args *args, int timeout_ms,
			struct fanin_op **op)
{
	struct fan_op_args mine = *args;
	const uint64_t until_ns =
		timeout_ms < 0 ? UINT64_MAX : fan_clock_ns() + (uint64_t)timeout_ms * FAN_MS;
	mine.attended = r->kind->attend != NULL;
	int e = fan_rank_submit(r, &mine, 1, false, op);
	if (e)
		return e;
	if (mine.attended)
		attend(r, *op, until_ns);
	e = fanin_op_test(*op);
	if (e == FAN_E_PENDING) { /* not by this thread, or not yet */
		const uint64_t now_ns = fan_clock_ns();
		const uint64_t left_ms = now_ns < until_ns ? (until_ns - now_ns) / FAN_MS : 0;
		e = fanin_op_wait(*op, timeout_ms < 0 ? -1 : (int)left_ms);
	}
	if (e != FAN_E_PENDING) {
		fanin_op_free(*op);
		*op = NULL;
	}
	return e;
}
