/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "net/clock.h"

_Static_assert((int)FANIN_FLOAT32 == (int)FAN_FLOAT32 && (int)FANIN_FLOAT16 == (int)FAN_FLOAT16 &&
		       (int)FANIN_BFLOAT16 == (int)FAN_BFLOAT16 &&
		       (int)FANIN_INT32 == (int)FAN_INT32 && (int)FANIN_INT64 == (int)FAN_INT64 &&
		       (int)FANIN_UINT8 == (int)FAN_UINT8 && (int)FANIN_FLOAT64 == (int)FAN_FLOAT64,
	       "public and wire types are the same numbers");
_Static_assert((int)FANIN_SUM == (int)FAN_SUM && (int)FANIN_AVG == (int)FAN_AVG &&
		       (int)FANIN_MIN == (int)FAN_MIN && (int)FANIN_MAX == (int)FAN_MAX,
	       "public and wire operations are the same numbers");
_Static_assert((int)FANIN_WIRE_FLOAT16 == (int)FAN_FLOAT16 &&
		       (int)FANIN_WIRE_BFLOAT16 == (int)FAN_BFLOAT16,
	       "of half types on the wire the numbers are those of the types");

static bool dtype_allowed(int dtype, enum fan_redop op)
{
	switch (dtype) {
	case FANIN_FLOAT32:
	case FANIN_FLOAT16:
	case FANIN_BFLOAT16:
	case FANIN_INT32:
	case FANIN_INT64:
	case FANIN_FLOAT64: return true;
	case FANIN_UINT8: return op == FAN_BCAST || op == FAN_BARRIER;
	default: return false;
	}
}

static bool is_reduction(enum fan_redop op)
{
	return op >= FAN_SUM && op <= FAN_MAX;
}

/* The buffers that this rank needs are there. */
static bool buffers_given(const struct fan_op_args *args, bool root)
{
	if (!args->count)
		return true;
	if (args->op == FAN_BCAST)
		return args->in != NULL;
	return args->in && (args->out || (args->reduce && !root));
}

/* The type of elements on the wire.  Small tensors fit a packet anyway and gain nothing from eight
 * bits: counts, losses and the like stay as they are. */
static enum fan_dtype wire_of(const struct fan_op_args *args, const struct fan_config *cfg)
{
	const bool sums = args->op == FAN_SUM || args->op == FAN_AVG;
	const bool fits = sums && args->dtype <= FANIN_BFLOAT16;
	bool blocks = cfg->wire == FANIN_WIRE_INT8 && args->count > FAN_OP_EXACT_MAX;
	if (args->blocks)
		blocks = args->blocks > 0;
	if (fits && blocks)
		return FAN_BLOCK8;
	const bool floats = is_reduction(args->op) && args->dtype == FANIN_FLOAT32;
	return (enum fan_dtype)(floats && cfg->wire != FANIN_WIRE_INT8 ? cfg->wire : args->dtype);
}

int fan_op_check(struct fan_op *op, const struct fan_op_args *args, const struct fan_config *cfg)
{
	bool rooted = args->op == FAN_BCAST || args->reduce;
	bool root = rooted && args->root == cfg->rank;
	if (!is_reduction(args->op) && args->op != FAN_BCAST && args->op != FAN_BARRIER)
		return FAN_E_INVALID;
	if (!dtype_allowed(args->dtype, args->op))
		return FAN_E_INVALID;
	if (rooted && (args->root < 0 || args->root >= cfg->ranks))
		return FAN_E_INVALID;
	if (args->count > PTRDIFF_MAX / fan_dtype_bytes((unsigned)args->dtype))
		return FAN_E_INVALID;
	if (!buffers_given(args, root))
		return FAN_E_INVALID;
	bool floats = is_reduction(args->op) && args->dtype == FANIN_FLOAT32;
	bool fixed = floats && cfg->mode == FANIN_MODE_FIXED &&
		     (args->op == FAN_SUM || args->op == FAN_AVG);
	*op = (struct fan_op){
		.op = args->op,
		.dtype = (enum fan_dtype)args->dtype,
		.wire = wire_of(args, cfg),
		.mode = fixed ? FAN_FIXED : FAN_NATIVE,
		.root = (uint16_t)(rooted ? args->root : 0),
		.reduce = args->reduce,
		.mark = args->mark,
		.priority = (uint8_t)cfg->priority,
		.count = args->count,
		.in = args->in,
		.error = args->error,
		.out = args->reduce && !root ? NULL : args->out,
	};
	if (args->op == FAN_BCAST)
		root ? (op->out = NULL) : (op->in = NULL);
	return FAN_OK;
}

/* floor(count * shard / shards), without a product that overflows. */
static uint64_t shard_begin(uint64_t count, unsigned shard, unsigned shards)
{
	return count / shards * shard + count % shards * shard / shards;
}

struct fan_op fan_op_part(const struct fan_op *op, const struct fan_cut *cut)
{
	assert(cut->shards > 0 && cut->shard < cut->shards);
	assert(cut->first <= cut->end && cut->end <= op->count);
	struct fan_op part = *op;
	uint64_t between = cut->end - cut->first;
	uint64_t begin = shard_begin(between, cut->shard, cut->shards);
	size_t at = (cut->first + begin) * fan_dtype_bytes(op->dtype);
	part.count = shard_begin(between, cut->shard + 1, cut->shards) - begin;
	if (op->in)
		part.in = (const char *)op->in + at;
	if (op->out)
		part.out = (char *)op->out + at;
	if (op->error)
		part.error = op->error + cut->first + begin;
	return part;
}

struct fanin_op *fan_op_new(const struct fan_op *what, enum fan_op_kind kind)
{
	struct fanin_op *op = calloc(1, sizeof *op);
	pthread_condattr_t clock;
	if (!op)
		return NULL;
	op->op = *what;
	op->kind = kind;
	atomic_init(&op->result, FAN_E_PENDING);
	pthread_mutex_init(&op->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&op->ended, &clock);
	pthread_condattr_destroy(&clock);
	return op;
}

struct fanin_op *fan_op_new_own(enum fan_op_kind kind, enum fan_redop redop, enum fan_dtype dtype,
				size_t count, void *words)
{
	const struct fan_op what = {
		.op = redop,
		.dtype = dtype,
		.wire = dtype,
		.mode = FAN_NATIVE,
		.mark = FAN_MARK_OWN,
		.count = count,
		.in = words,
		.out = words,
	};
	return fan_op_new(&what, kind);
}

static const char *name_of(const struct fan_op *op)
{
	if (op->op == FAN_BARRIER)
		return "barrier";
	if (op->op == FAN_BCAST)
		return "broadcast";
	return op->reduce ? "reduce" : "allreduce";
}

const char *fan_op_name(const struct fanin_op *op)
{
	switch (op->kind) {
	case FAN_OP_MEMBER: return op->op.op == FAN_BCAST ? "allgather" : "reduce_scatter";
	case FAN_OP_MEASUREMENT: return "measurement of shares";
	case FAN_OP_AGREEMENT: return "agreement to go on";
	case FAN_OP_OFFER: return "offer to take in a switch";
	default: return name_of(&op->op);
	}
}

void fan_op_trace(struct fanin_op *op, struct fan_trace *t, bool is_column)
{
	assert(t && !op->trace);
	op->trace_name = is_column ? "between hosts" : name_of(&op->op);
	op->trace = t;
	op->trace_id = fan_trace_id(t);
	op->begun_ns = fan_clock_ns();
}

static void trace_end(const struct fanin_op *op, int result)
{
	struct fan_trace_event e = {
		.kind = FAN_TRACE_OP,
		.name = op->trace_name,
		.begin_ns = op->begun_ns,
		.end_ns = fan_clock_ns(),
		.id = op->trace_id,
		.bytes = op->op.count * fan_dtype_bytes(op->op.dtype),
		.result = result,
	};
	fan_trace_add(op->trace, &e);
}

void fan_op_end(struct fanin_op *op, int result)
{
	assert(result != FAN_E_PENDING);
	assert(atomic_load(&op->result) == FAN_E_PENDING);
	if (op->trace)
		trace_end(op, result);
	void (*notify)(void *) = op->notify;
	void *arg = op->notify_arg;
	pthread_mutex_lock(&op->lock);
	atomic_store_explicit(&op->result, result, memory_order_release);
	pthread_cond_broadcast(&op->ended);
	pthread_mutex_unlock(&op->lock);
	if (notify)
		notify(arg);
}

static void check_queue(const struct fan_op_queue *q)
{
	assert(!q->head == !q->tail && !q->head == !q->count);
}

void fan_op_queue_add(struct fan_op_queue *q, struct fanin_op *op)
{
	check_queue(q);
	op->next = NULL;
	if (q->tail)
		q->tail->next = op;
	else
		q->head = op;
	q->tail = op;
	q->count++;
}

void fan_op_queue_put_first(struct fan_op_queue *q, struct fanin_op *op)
{
	check_queue(q);
	op->next = q->head;
	q->head = op;
	if (!q->tail)
		q->tail = op;
	q->count++;
}

struct fanin_op *fan_op_queue_take(struct fan_op_queue *q)
{
	struct fanin_op *op = q->head;
	check_queue(q);
	if (!op)
		return NULL;
	q->head = op->next;
	if (!q->head)
		q->tail = NULL;
	q->count--;
	return op;
}

void fan_op_queue_move(struct fan_op_queue *to, struct fan_op_queue *from)
{
	assert(to != from);
	check_queue(to);
	check_queue(from);
	if (!from->head)
		return;
	if (to->tail)
		to->tail->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	to->count += from->count;
	*from = (struct fan_op_queue){0};
}

/* ---- public ---- */

int fanin_op_test(fanin_op *op)
{
	return op ? atomic_load_explicit(&op->result, memory_order_acquire) : FAN_E_INVALID;
}

/* `timeout_ms` from now, as pthread_cond_timedwait wants it. */
static struct timespec deadline_after(int timeout_ms)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += timeout_ms / 1000;
	t.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	return t;
}

int fanin_op_wait(fanin_op *op, int timeout_ms)
{
	if (!op)
		return FAN_E_INVALID;
	struct timespec until = deadline_after(timeout_ms < 0 ? 0 : timeout_ms);
	int late = 0;
	pthread_mutex_lock(&op->lock);
	while (atomic_load(&op->result) == FAN_E_PENDING && !late) {
		if (timeout_ms < 0)
			pthread_cond_wait(&op->ended, &op->lock);
		else
			late = pthread_cond_timedwait(&op->ended, &op->lock, &until);
	}
	pthread_mutex_unlock(&op->lock);
	return fanin_op_test(op);
}

/* The wait takes the lock, so fan_op_end has let go of it before it is destroyed. */
void fanin_op_free(fanin_op *op)
{
	if (!op)
		return;
	fanin_op_wait(op, -1);
	pthread_cond_destroy(&op->ended);
	pthread_mutex_destroy(&op->lock);
	if (op->set)
		op->free_set(op->set);
	free(op);
}
