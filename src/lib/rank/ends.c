/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <assert.h>
#include <stdio.h>

#include "hello.h"
#include "net/clock.h"
#include "rank.h"
#include "share_meter.h"

/* ---- leaving ---- */

/* What the aggregators of other parts are told when `error` ends the communicator. */
static int leave_error(const struct fan_rank *c, int error)
{
	bool own = fan_ranks_has(c->fate.blamed, (unsigned)c->cfg.rank);
	if (c->column.global) /* a column, whose own rank of a blamed host may live */
		return c->fate.cause ? c->fate.cause : error;
	if (error == FAN_E_STOPPED) /* these are not */
		error = FAN_E_UNREACHABLE;
	return error == FAN_E_UNREACHABLE && !own ? FAN_E_RANK_LOST : error;
}

void fan_rank_leave(struct fan_rank *c, int error)
{
	uint64_t now_ns = fan_clock_ns();
	if (c->fate.leaving)
		return;
	c->fate.leaving = true;
	c->when.leave_by_ns = now_ns + FAN_RANK_LEAVE_NS;
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &c->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, leave_error(c, error), c->fate.blamed);
		cn->news = true;
	}
}

/* ---- operations ---- */

static void publish_stats(struct fan_rank *c)
{
	struct fanin_stats stats = fan_rank_collect_stats(c);
	pthread_mutex_lock(&c->lock);
	c->shown.stats = stats;
	pthread_mutex_unlock(&c->lock);
}

/* `op` has its result: what follows from that, by its kind. */
static void ended(struct fan_rank *c, const struct fanin_op *op)
{
	switch (op->kind) {
	case FAN_OP_CALLERS:
	case FAN_OP_MEMBER:
		c->ops.done++;
		c->ops.bytes_done += op->op.count * fan_dtype_bytes(op->op.dtype);
		fan_share_meter_done(c, op);
		break;
	case FAN_OP_MEASUREMENT: fan_share_meter_arrived(c); break;
	case FAN_OP_AGREEMENT:
		assert(c->regroup);
		c->regroup->arrived = true;
		break;
	case FAN_OP_OFFER: fan_hello_offered(c, op); break;
	case FAN_OP_OWN:
	case FAN_OP_REST: break;
	}
}

void fan_rank_end_op(struct fan_rank *c, struct fanin_op *op, int result)
{
	struct fanin_op *whole = op->whole;
	const bool is_threads = fan_op_is_threads(op->kind);
	assert((op->kind == FAN_OP_REST) == (whole != NULL));
	assert(!op->rests);
	if (!is_threads)
		atomic_fetch_sub(&c->ops_open, 1);
	fan_op_end(op, result);
	if (is_threads)
		fanin_op_free(op);
	assert(!whole || whole->rests);
	if (whole && !--whole->rests)
		fan_rank_end_whole(c, whole, result);
}

unsigned fan_rank_take_done(struct fan_rank *c,
			    bool (*is_done)(struct fan_rank *c, struct fanin_op *op),
			    struct fanin_op **ops)
{
	unsigned kept = 0, taken = 0;
	bool measured = true;
	assert(c->ops.running_count <= FAN_OPS_MAX);
	for (unsigned i = 0; i < c->ops.running_count; i++) {
		struct fanin_op *op = c->ops.running[i];
		if (measured && is_done(c, op))
			ops[taken++] = op;
		else
			c->ops.running[kept++] = op;
		measured &= op->kind != FAN_OP_MEASUREMENT || is_done(c, op);
	}
	c->ops.running_count = kept;
	return taken;
}

void fan_rank_end_done(struct fan_rank *c, struct fanin_op *const *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ended(c, ops[i]);
	if (count)
		publish_stats(c);
	for (unsigned i = 0; i < count; i++)
		fan_rank_end_op(c, ops[i], FAN_OK);
}

void fan_rank_end_whole(struct fan_rank *c, struct fanin_op *whole, int result)
{
	if (result)
		fan_rank_end_op(c, whole, result);
	else
		fan_rank_end_done(c, &whole, 1);
}

void fan_rank_end_all(struct fan_rank *c, int result)
{
	struct fanin_op *op;
	for (unsigned i = 0; i < c->ops.running_count; i++)
		fan_rank_end_op(c, c->ops.running[i], result);
	c->ops.running_count = 0;
	for (unsigned i = 0; c->regroup && i < c->regroup->op_count; i++)
		fan_rank_end_op(c, c->regroup->op[i], result);
	if (c->regroup)
		c->regroup->op_count = 0;
	while ((op = fan_op_queue_take(&c->ops.waiting)))
		fan_rank_end_op(c, op, result);
}

/* ---- failure ---- */

void fan_rank_fail(struct fan_rank *c, int error, const char *sentence)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (atomic_load(&c->error))
		return;
	pthread_mutex_lock(&c->lock);
	snprintf(c->sentence, sizeof c->sentence, "%s", sentence);
	atomic_store_explicit(&c->error, error, memory_order_release);
	fan_op_queue_move(&c->ops.waiting, &c->asked.queued);
	pthread_cond_broadcast(&c->changed);
	if (error == FAN_E_LAUNCHES && c->owner)
		c->owner->kind->end(c->owner, error, sentence);
	pthread_mutex_unlock(&c->lock);
	fan_rank_leave(c, error);
	fan_rank_end_all(c, error);
}
