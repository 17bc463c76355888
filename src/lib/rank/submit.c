/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c - how callers start operations. */
#include <assert.h>

#include "net/clock.h"
#include "rank.h"

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

/* Queue operations, one behind the other. */
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
			fan_rank_wake(r);
	}
	pthread_mutex_unlock(&r->lock);
	return e;
}

int fan_rank_submit_all(struct fan_rank *r, const struct fan_op_args *args, unsigned count,
			bool wait, struct fanin_op **ops)
{
	unsigned made = 0;
	assert(count >= 1 && count <= FAN_RANKS_MAX);
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
	}
	return e;
}

int fan_rank_submit(struct fan_rank *r, const struct fan_op_args *args, bool wait,
		    struct fanin_op **op)
{
	int e = fan_rank_submit_all(r, args, 1, wait, op);
	if (e)
		*op = NULL;
	return e;
}

void fan_rank_set_idle(struct fan_rank *r, void (*idle)(void *arg), void *arg)
{
	r->idle.call = idle;
	r->idle.arg = arg;
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
	int e = fan_rank_submit(r, &mine, true, &op);
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
	int e = fan_rank_submit(r, &mine, false, op);
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
