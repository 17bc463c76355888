/* SPDX-License-Identifier: Apache-2.0 */
/* fanin.c - the public functions: arguments in, the communicator's work, errors out. */
#include <assert.h>
#include <fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/rank_file.h"
#include "lib/comm/comm.h"
#include "lib/rank/registry.h"
#include "net/udp.h"

#define MILLION 1000000u

#define TEXT_OF(x)	      #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

/* ---- sets: an operation that consists of several, one for each rank ---- */

/* Member i of a reduce-scatter is a reduction to rank i, of an all-gather a broadcast from rank i.
 * The caller holds the whole; it ends when its last member does, and frees them. */
struct fan_op_set {
	struct fanin_op *whole;
	atomic_uint left; /* members that have not ended, and the call that starts them */
	unsigned count;
	struct fanin_op *member[FAN_RANKS_MAX];
};

/* A member has ended, or all have been started.  The last one ends the whole. */
static void ended(void *arg)
{
	struct fan_op_set *set = arg;
	int result = FAN_OK;
	const unsigned left = atomic_fetch_sub(&set->left, 1);
	assert(left >= 1);
	if (left > 1)
		return;
	for (unsigned i = 0; i < set->count && !result; i++)
		result = fanin_op_test(set->member[i]);
	fan_op_end(set->whole, result);
}

static void free_set(void *arg)
{
	struct fan_op_set *set = arg;
	for (unsigned i = 0; i < set->count; i++)
		fanin_op_free(set->member[i]);
	free(set);
}

static struct fan_op_args member_args(const struct fan_op_args *whole, unsigned i, unsigned rank)
{
	struct fan_op_args args = *whole;
	size_t at = i * whole->count * fan_dtype_bytes((unsigned)whole->dtype);
	bool gather = whole->op == FAN_BCAST;
	args.root = (int)i;
	args.reduce = !gather;
	args.in = gather ? (char *)whole->out + at : (const char *)whole->in + at;
	args.out = gather ? (char *)whole->out + at : i == rank ? whole->out : NULL;
	args.notify = ended;
	args.kind = FAN_OP_MEMBER;
	args.mark = FAN_MARK_MEMBER | FAN_MARK_ROOT(i);
	return args;
}

static bool is_sane(const struct fan_op_args *args, unsigned ranks)
{
	unsigned bytes = fan_dtype_bytes((unsigned)args->dtype);
	return bytes && args->count <= PTRDIFF_MAX / bytes / ranks &&
	       (!args->count || (args->in && args->out));
}

/* This rank's own elements to their place. */
static void place_own(const struct fan_op_args *args, unsigned rank)
{
	size_t bytes = args->count * fan_dtype_bytes((unsigned)args->dtype);
	if (args->op == FAN_BCAST && bytes && (char *)args->out + rank * bytes != args->in)
		memmove((char *)args->out + rank * bytes, args->in, bytes);
}

/* Start a reduce-scatter: `args` has the elements of all ranks in `in`, those of one rank in `out`
 * and `count`.  Or an all-gather, FAN_BCAST: those of one rank in `in`, of all in `out`.  `wait`,
 * the errors and `*op` are as in fan_rank_submit. */
static int start_members(struct fanin_comm *c, const struct fan_op_args *args, bool wait,
			 struct fanin_op **op)
{
	const unsigned ranks = (unsigned)c->rank.cfg.ranks, rank = (unsigned)c->rank.cfg.rank;
	*op = NULL;
	if (!is_sane(args, ranks))
		return FAN_E_INVALID;
	struct fan_op_args *each = calloc(ranks, sizeof *each);
	struct fan_op_set *set = calloc(1, sizeof *set);
	struct fanin_op *whole = fan_op_new(&(struct fan_op){.op = args->op}, FAN_OP_CALLERS);
	int e = each && set && whole ? FAN_OK : FAN_E_NOMEM;
	if (!e) {
		set->whole = whole;
		atomic_init(&set->left, ranks + 1);
		for (unsigned i = 0; i < ranks; i++) {
			each[i] = member_args(args, i, rank);
			each[i].notify_arg = set;
		}
		place_own(args, rank);
		e = fan_rank_submit(&c->rank, each, ranks, wait, set->member);
	}
	free(each);
	if (e) {
		free(set);
		if (whole)
			fan_op_end(whole, e);
		fanin_op_free(whole);
		return e;
	}
	set->count = ranks;
	whole->set = set;
	whole->free_set = free_set;
	*op = whole;
	ended(set);
	return FAN_OK;
}

/* ---- the public functions ---- */

const char *fanin_version(void)
{
	return VERSION_TEXT(FANIN_VERSION_MAJOR, FANIN_VERSION_MINOR, FANIN_VERSION_PATCH);
}

const char *fanin_strerror(int error)
{
	return fan_err_text(error);
}

/* A communicator that was made has its counters written, if FANIN_METRICS asks for it. */
static int watched(int error, fanin_comm **comm)
{
	if (!error)
		fan_comm_metrics_start(*comm);
	return error;
}

int fanin_comm_create(const struct fanin_options *options, fanin_comm **comm)
{
	if (comm)
		*comm = NULL;
	return options && comm ? watched(fan_comm_create_on(options, NULL, comm), comm)
			       : FAN_E_INVALID;
}

int fanin_comm_group(fanin_comm *comm, const char *name, const int *ranks, int count,
		     fanin_comm **group)
{
	return fanin_comm_group_within(comm, name, ranks, count, -1, -1, group);
}

int fanin_comm_group_within(fanin_comm *comm, const char *name, const int *ranks, int count,
			    int timeout_ms, int join_ms, fanin_comm **group)
{
	if (group)
		*group = NULL;
	if (!comm || !name || !ranks || !group)
		return FAN_E_INVALID;
	return watched(fan_comm_create_group(comm, name, ranks, count, timeout_ms, join_ms, group),
		       group);
}

int fanin_comm_shrink(fanin_comm *comm, int wait_ms, fanin_comm **left)
{
	if (left)
		*left = NULL;
	if (!comm || !left || *comm->rank.cfg.controller_addr)
		return FAN_E_INVALID;
	return fan_rank_is_forked(&comm->rank)
		       ? FAN_E_CLOSED
		       : watched(fan_comm_shrink(comm, wait_ms, left), left);
}

void fanin_comm_destroy(fanin_comm *comm)
{
	fan_comm_destroy(comm);
}

const char *fanin_file_error(void)
{
	return fan_rank_file_error();
}

void fanin_on_wait(void (*tell)(void *arg, const char *text), void *arg)
{
	fan_registry_tell_to(tell, arg);
}

int fanin_comm_rank(const fanin_comm *comm)
{
	return comm ? comm->rank.cfg.rank : FAN_E_INVALID;
}

int fanin_comm_size(const fanin_comm *comm)
{
	return comm ? comm->rank.cfg.ranks : FAN_E_INVALID;
}

const char *fanin_comm_switch(const fanin_comm *comm)
{
	return comm ? comm->switch_text : "";
}

const char *fanin_comm_error(const fanin_comm *comm)
{
	if (!comm)
		return "no communicator";
	const struct fan_rank *r = &comm->rank;
	if (r->kind->ask && !atomic_load(&r->error) && !fan_rank_is_forked(r))
		r->kind->ask((struct fan_rank *)r);
	return fan_rank_error(r);
}

int fanin_comm_mark(fanin_comm *comm, int mark)
{
	if (!comm || mark < 0 || mark > FANIN_MARK_MAX)
		return FAN_E_INVALID;
	atomic_store_explicit(&comm->rank.mark, mark, memory_order_relaxed);
	return FAN_OK;
}

int fanin_comm_stats(const fanin_comm *comm, struct fanin_stats *stats)
{
	if (!comm || !stats || stats->size < sizeof stats->size)
		return FAN_E_INVALID;
	fan_rank_read_stats(&comm->rank, stats);
	return FAN_OK;
}

static void show_part(const struct fan_rank *net, uint32_t k, struct fanin_part *p)
{
	char text[80];
	bool settled;
	const struct fan_part_shown shown = fan_rank_part_shown(net, k, &settled);
	p->settled = settled;
	snprintf(p->aggregator, sizeof p->aggregator, "%s",
		 fan_peer_text(&shown.at, text, sizeof text));
	p->rank = shown.inside;
	p->lost = shown.lost;
	p->share_ppm = (uint32_t)(shown.share * MILLION >> 32);
	p->rtt_ns = (uint64_t)shown.rtt_us * 1000;
}

int fanin_comm_part(const fanin_comm *comm, uint32_t number, struct fanin_part *part)
{
	struct fanin_stats stats = {.size = sizeof stats};
	struct fanin_part whole = {.size = sizeof whole};
	const struct fan_rank *net = comm ? fan_comm_net(comm) : NULL;
	if (!part || part->size < sizeof part->size || !net)
		return FAN_E_INVALID;
	fan_rank_read_stats(net, &stats);
	if (number >= stats.parts)
		return FAN_E_INVALID;
	show_part(net, number, &whole);
	whole.size = part->size < sizeof whole ? part->size : sizeof whole;
	memcpy(part, &whole, whole.size);
	return FAN_OK;
}

static int start(fanin_comm *comm, struct fan_op_args args, fanin_op **handle)
{
	if (handle)
		*handle = NULL;
	return comm && handle ? fan_rank_submit(&comm->rank, &args, 1, false, handle)
			      : FAN_E_INVALID;
}

static int run_within(fanin_comm *comm, struct fan_op_args args, int timeout_ms, fanin_op **handle)
{
	if (handle)
		*handle = NULL;
	return comm && handle ? fan_rank_run_within(&comm->rank, &args, timeout_ms, handle)
			      : FAN_E_INVALID;
}

static int run(fanin_comm *comm, struct fan_op_args args)
{
	return comm ? fan_rank_run(&comm->rank, &args) : FAN_E_INVALID;
}

static struct fan_op_args allreduce_args(const void *in, void *out, size_t count, int dtype, int op)
{
	return (struct fan_op_args){
		.op = op >= FANIN_SUM && op <= FANIN_MAX ? (enum fan_redop)op : FAN_REDOP_COUNT,
		.in = in,
		.out = out,
		.count = count,
		.dtype = dtype,
	};
}

static struct fan_op_args reduce_args(const void *in, void *out, size_t count, int dtype, int op,
				      int root)
{
	struct fan_op_args args = allreduce_args(in, out, count, dtype, op);
	args.reduce = true;
	args.root = root;
	args.mark = FAN_MARK_ROOT(root);
	return args;
}

static struct fan_op_args broadcast_args(void *buf, size_t count, int dtype, int root)
{
	return (struct fan_op_args){
		.op = FAN_BCAST,
		.in = buf,
		.out = buf,
		.count = count,
		.dtype = dtype,
		.root = root,
		.mark = FAN_MARK_ROOT(root),
	};
}

static struct fan_op_args barrier_args(void)
{
	return (struct fan_op_args){.op = FAN_BARRIER, .dtype = FANIN_UINT8};
}

int fanin_allreduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op)
{
	return run(comm, allreduce_args(in, out, count, dtype, op));
}

int fanin_broadcast(fanin_comm *comm, void *buf, size_t count, int dtype, int root)
{
	return run(comm, broadcast_args(buf, count, dtype, root));
}

int fanin_reduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		 int root)
{
	return run(comm, reduce_args(in, out, count, dtype, op, root));
}

int fanin_barrier(fanin_comm *comm)
{
	return run(comm, barrier_args());
}

int fanin_allreduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			  int op, fanin_op **handle)
{
	return start(comm, allreduce_args(in, out, count, dtype, op), handle);
}

int fanin_allreduce_lossy_start(fanin_comm *comm, const void *in, void *out, float *lost,
				size_t count, int dtype, int op, fanin_op **handle)
{
	struct fan_op_args args = allreduce_args(in, out, count, dtype, op);
	args.error = lost;
	return start(comm, args, handle);
}

int fanin_broadcast_start(fanin_comm *comm, void *buf, size_t count, int dtype, int root,
			  fanin_op **handle)
{
	return start(comm, broadcast_args(buf, count, dtype, root), handle);
}

int fanin_reduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		       int root, fanin_op **handle)
{
	return start(comm, reduce_args(in, out, count, dtype, op, root), handle);
}

int fanin_barrier_start(fanin_comm *comm, fanin_op **handle)
{
	return start(comm, barrier_args(), handle);
}

int fanin_allreduce_within(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			   int op, int timeout_ms, fanin_op **handle)
{
	return run_within(comm, allreduce_args(in, out, count, dtype, op), timeout_ms, handle);
}

int fanin_broadcast_within(fanin_comm *comm, void *buf, size_t count, int dtype, int root,
			   int timeout_ms, fanin_op **handle)
{
	return run_within(comm, broadcast_args(buf, count, dtype, root), timeout_ms, handle);
}

int fanin_reduce_within(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			int op, int root, int timeout_ms, fanin_op **handle)
{
	return run_within(comm, reduce_args(in, out, count, dtype, op, root), timeout_ms, handle);
}

int fanin_barrier_within(fanin_comm *comm, int timeout_ms, fanin_op **handle)
{
	return run_within(comm, barrier_args(), timeout_ms, handle);
}

static int start_set(fanin_comm *comm, struct fan_op_args args, fanin_op **handle)
{
	if (handle)
		*handle = NULL;
	return comm && handle ? start_members(comm, &args, false, handle) : FAN_E_INVALID;
}

static int run_set(fanin_comm *comm, struct fan_op_args args)
{
	fanin_op *op;
	int e = comm ? start_members(comm, &args, true, &op) : FAN_E_INVALID;
	if (e)
		return e;
	e = fanin_op_wait(op, -1);
	fanin_op_free(op);
	return e;
}

static struct fan_op_args allgather_args(const void *in, void *out, size_t count, int dtype)
{
	return (struct fan_op_args){
		.op = FAN_BCAST, .in = in, .out = out, .count = count, .dtype = dtype};
}

int fanin_reduce_scatter(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			 int op)
{
	return run_set(comm, allreduce_args(in, out, count, dtype, op));
}

int fanin_allgather(fanin_comm *comm, const void *in, void *out, size_t count, int dtype)
{
	return run_set(comm, allgather_args(in, out, count, dtype));
}

int fanin_reduce_scatter_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			       int op, fanin_op **handle)
{
	return start_set(comm, allreduce_args(in, out, count, dtype, op), handle);
}

int fanin_allgather_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			  fanin_op **handle)
{
	return start_set(comm, allgather_args(in, out, count, dtype), handle);
}
