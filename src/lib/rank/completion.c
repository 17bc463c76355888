/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "net/clock.h"
#include "thread.h"

/* ---- leaving ---- */

/* Return the error that the aggregators of other parts are told when `error` ends the
 * communicator. */
static int leave_error(const struct fan_rank *r, int error)
{
	bool own = fan_ranks_has(r->fate.blamed, (unsigned)r->cfg.rank);
	if (r->column.global) /* a column, whose own rank of a blamed host may live */
		return r->fate.cause ? r->fate.cause : error;
	if (error == FAN_E_STOPPED) /* these are not */
		error = FAN_E_UNREACHABLE;
	return error == FAN_E_UNREACHABLE && !own ? FAN_E_RANK_LOST : error;
}

void fan_rank_leave(struct fan_rank *r, int error)
{
	uint64_t now_ns = fan_clock_ns();
	if (r->fate.leaving)
		return;
	r->fate.leaving = true;
	r->when.leave_by_ns = now_ns + FAN_RANK_LEAVE_NS;
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, leave_error(r, error), r->fate.blamed);
		cn->news = true;
	}
}

/* ---- operations ---- */

static void publish_stats(struct fan_rank *r)
{
	struct fanin_stats stats = fan_rank_collect_stats(r);
	pthread_mutex_lock(&r->lock);
	r->shown.stats = stats;
	pthread_mutex_unlock(&r->lock);
}

static void note_done(struct fan_share_meter *s, const struct fanin_op *op)
{
	const uint64_t bytes = op->op.count * fan_dtype_bytes(op->op.dtype);
	if (op->is_whole)
		return;
	s->done_bytes += bytes;
	s->open_bytes -= bytes < s->open_bytes ? bytes : s->open_bytes;
}

/* `words` say how many ranks have heard each part of those that are lost. */
static void take_offers(struct fan_rank *r, const int32_t *words)
{
	struct fan_regroup *g = r->regroup;
	assert(g);
	for (unsigned n = 0; n < g->all; n++)
		if (g->gone >> n & 1 && words[n] == r->cfg.ranks)
			g->hello.back |= UINT64_C(1) << n;
}

/* `op` has its result: what follows from that, by its kind. */
static void ended(struct fan_rank *r, const struct fanin_op *op)
{
	switch (op->kind) {
	case FAN_OP_CALLERS:
	case FAN_OP_MEMBER:
		r->ops.done++;
		r->ops.bytes_done += op->op.count * fan_dtype_bytes(op->op.dtype);
		note_done(&r->meter, op);
		break;
	case FAN_OP_MEASUREMENT: r->meter.arrived = true; break;
	case FAN_OP_AGREEMENT:
		assert(r->regroup);
		r->regroup->arrived = true;
		break;
	case FAN_OP_OFFER: take_offers(r, op->op.out); break;
	case FAN_OP_OWN:
	case FAN_OP_REST: break;
	}
}

void fan_rank_end_op(struct fan_rank *r, struct fanin_op *op, int result)
{
	struct fanin_op *whole = op->whole;
	const bool is_threads = op->kind >= FAN_OP_MEASUREMENT;
	assert((op->kind == FAN_OP_REST) == (whole != NULL));
	assert(!op->rests);
	if (!is_threads)
		atomic_fetch_sub(&r->ops_open, 1);
	fan_op_end(op, result);
	if (is_threads)
		fanin_op_free(op);
	assert(!whole || whole->rests);
	if (whole && !--whole->rests)
		fan_rank_end_whole(r, whole, result);
}

void fan_rank_run_first(struct fan_rank *r, uint64_t now_ns)
{
	assert(r->ops.running_count < FAN_OPS_MAX);
	r->ops.waiting.head->started_ns = now_ns;
	r->ops.running[r->ops.running_count++] = fan_op_queue_take(&r->ops.waiting);
	r->ops.progressed = true;
}

unsigned fan_rank_take_done(struct fan_rank *r,
			    bool (*is_done)(struct fan_rank *r, struct fanin_op *op),
			    struct fanin_op **ops)
{
	unsigned kept = 0, taken = 0;
	bool measured = true;
	assert(r->ops.running_count <= FAN_OPS_MAX);
	for (unsigned i = 0; i < r->ops.running_count; i++) {
		struct fanin_op *op = r->ops.running[i];
		if (measured && is_done(r, op))
			ops[taken++] = op;
		else
			r->ops.running[kept++] = op;
		measured &= op->kind != FAN_OP_MEASUREMENT || is_done(r, op);
	}
	r->ops.running_count = kept;
	return taken;
}

void fan_rank_end_done(struct fan_rank *r, struct fanin_op *const *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ended(r, ops[i]);
	if (count)
		publish_stats(r);
	for (unsigned i = 0; i < count; i++)
		fan_rank_end_op(r, ops[i], FAN_OK);
}

void fan_rank_end_whole(struct fan_rank *r, struct fanin_op *whole, int result)
{
	if (result)
		fan_rank_end_op(r, whole, result);
	else
		fan_rank_end_done(r, &whole, 1);
}

void fan_rank_end_all(struct fan_rank *r, int result)
{
	struct fanin_op *op;
	for (unsigned i = 0; i < r->ops.running_count; i++)
		fan_rank_end_op(r, r->ops.running[i], result);
	r->ops.running_count = 0;
	for (unsigned i = 0; r->regroup && i < r->regroup->op_count; i++)
		fan_rank_end_op(r, r->regroup->op[i], result);
	if (r->regroup)
		r->regroup->op_count = 0;
	while ((op = fan_op_queue_take(&r->ops.waiting)))
		fan_rank_end_op(r, op, result);
}

/* ---- failure ---- */

void fan_rank_fail(struct fan_rank *r, int error, const char *sentence)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (atomic_load(&r->error))
		return;
	pthread_mutex_lock(&r->lock);
	snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
	atomic_store_explicit(&r->error, error, memory_order_release);
	fan_op_queue_move(&r->ops.waiting, &r->asked.queued);
	pthread_cond_broadcast(&r->changed);
	if (error == FAN_E_LAUNCHES && r->owner)
		r->owner->kind->end(r->owner, error, sentence);
	pthread_mutex_unlock(&r->lock);
	fan_rank_leave(r, error);
	fan_rank_end_all(r, error);
}
