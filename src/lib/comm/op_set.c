/* SPDX-License-Identifier: Apache-2.0 */
#include "op_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"

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

/* All members have ended. */
static void free_set(void *arg)
{
	struct fan_op_set *set = arg;
	for (unsigned i = 0; i < set->count; i++)
		fanin_op_free(set->member[i]);
	free(set);
}

/* The arguments of member `i`. */
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

int fan_op_set_start(struct fanin_comm *c, const struct fan_op_args *args, bool wait,
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
		e = fan_rank_submit_all(&c->rank, each, ranks, wait, set->member);
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
