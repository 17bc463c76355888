/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "turn.h"
#include "types.h"
#include "world.h"

/* MPI_name, and MPI_name_c with counts beyond int, differ in the counts' type alone.
 *
 * LOOK: not inlined, so that a call that passes needs no stack and saves no registers. */
#define LOOK __attribute__((noinline))

/* Those with large counts are called through the table alone. */
static int fan_mpi_allreduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
			       MPI_Op op, MPI_Comm comm);
static int fan_mpi_reduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
			    MPI_Op op, int root, MPI_Comm comm);
static int fan_mpi_bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root,
			   MPI_Comm comm);
static int fan_mpi_reduce_scatter_block_c(const void *in, void *out, MPI_Count count,
					  MPI_Datatype type, MPI_Op op, MPI_Comm comm);
static int fan_mpi_allgather_c(const void *in, MPI_Count in_count, MPI_Datatype in_type, void *out,
			       MPI_Count count, MPI_Datatype type, MPI_Comm comm);

/* True: the call goes to the MPI, as the last one of its kind on `comm` did.  For broadcasts `op`
 * is MPI_OP_NULL.  False: call fan_mpi_turn_passes. */
static inline bool passes_again(enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type,
				MPI_Op op, MPI_Comm comm)
{
	struct fan_mpi_group *g = atomic_load_explicit(&fan_mpi_group_last, memory_order_acquire);
	return g && atomic_load_explicit(&g->comm, memory_order_acquire) == comm &&
	       fan_mpi_pass_next(&g->passes[kind], count, type, op);
}

/* ---- all-reduce ---- */

static bool begin_allreduce(struct fan_mpi_turn *t, struct fan_mpi_sum *sum, const void *in,
			    const void *out, MPI_Count count, MPI_Datatype type, MPI_Op op,
			    MPI_Comm comm)
{
	struct fan_mpi_what what;
	fan_mpi_what_sum(&what, sum, FAN_LEARNER_ALLREDUCE, count, type, op);
	what.known &= fan_mpi_buffers_fit(in, what.bytes, out, what.bytes);
	return fan_mpi_turn_begin(t, comm, &what);
}

static int take_allreduce(const struct fan_mpi_turn *t, const struct fan_mpi_sum *sum,
			  const void *in, void *out, MPI_Count count)
{
	struct fan_mpi_group *g = t->group;
	return fan_mpi_group_result(g, fanin_allreduce(g->job, in == MPI_IN_PLACE ? out : in, out,
						       (size_t)count * sum->each, sum->dtype,
						       sum->op));
}

#define DEFINE_ALLREDUCE(name, mpi_name, count_type)                                               \
	LOOK static int look_##name(const void *in, void *out, count_type count,                   \
				    MPI_Datatype type, MPI_Op op, MPI_Comm comm)                   \
	{                                                                                          \
		struct fan_mpi_turn t;                                                             \
		struct fan_mpi_sum sum;                                                            \
		if (fan_mpi_turn_passes(FAN_LEARNER_ALLREDUCE, count, type, op, 0, comm))          \
			return FAN_NEXT(mpi_name, name)(in, out, count, type, op, comm);           \
		if (begin_allreduce(&t, &sum, in, out, count, type, op, comm))                     \
			return fan_mpi_turn_end(&t, take_allreduce(&t, &sum, in, out, count));     \
		return fan_mpi_turn_end(&t,                                                        \
					FAN_NEXT(mpi_name, name)(in, out, count, type, op, comm)); \
	}                                                                                          \
	int fan_mpi_##name(const void *in, void *out, count_type count, MPI_Datatype type,         \
			   MPI_Op op, MPI_Comm comm)                                               \
	{                                                                                          \
		if (passes_again(FAN_LEARNER_ALLREDUCE, count, type, op, comm))                    \
			return FAN_NEXT(mpi_name, name)(in, out, count, type, op, comm);           \
		return look_##name(in, out, count, type, op, comm);                                \
	}
DEFINE_ALLREDUCE(allreduce, Allreduce, int)
DEFINE_ALLREDUCE(allreduce_c, Allreduce_c, MPI_Count)

/* ---- reduce ---- */

/* At ranks other than the root there is no `out`, but for MPI_IN_PLACE, with which MPICH ends the
 * process there. */
static bool reduce_fits(const void *in, const void *out, size_t bytes, int root, MPI_Comm comm)
{
	const struct fan_mpi_group *g = fan_mpi_world.on ? fan_mpi_group_of(comm) : NULL;
	if (g && g->rank == root)
		return fan_mpi_buffers_fit(in, bytes, out, bytes);
	return in == MPI_IN_PLACE ? out && out != MPI_IN_PLACE : in != NULL;
}

static bool begin_reduce(struct fan_mpi_turn *t, struct fan_mpi_sum *sum, const void *in,
			 const void *out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
			 MPI_Comm comm)
{
	struct fan_mpi_what what;
	fan_mpi_what_sum(&what, sum, FAN_LEARNER_REDUCE, count, type, op);
	what.known &= reduce_fits(in, out, what.bytes, root, comm);
	what.root = root;
	return fan_mpi_turn_begin(t, comm, &what);
}

static int take_reduce(const struct fan_mpi_turn *t, const struct fan_mpi_sum *sum, const void *in,
		       void *out, MPI_Count count)
{
	struct fan_mpi_group *g = t->group;
	return fan_mpi_group_result(g, fanin_reduce(g->job, in == MPI_IN_PLACE ? out : in, out,
						    (size_t)count * sum->each, sum->dtype, sum->op,
						    t->what.root));
}

#define DEFINE_REDUCE(name, mpi_name, count_type)                                                  \
	LOOK static int look_##name(const void *in, void *out, count_type count,                   \
				    MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)         \
	{                                                                                          \
		struct fan_mpi_turn t;                                                             \
		struct fan_mpi_sum sum;                                                            \
		if (fan_mpi_turn_passes(FAN_LEARNER_REDUCE, count, type, op, root, comm))          \
			return FAN_NEXT(mpi_name, name)(in, out, count, type, op, root, comm);     \
		if (begin_reduce(&t, &sum, in, out, count, type, op, root, comm))                  \
			return fan_mpi_turn_end(&t, take_reduce(&t, &sum, in, out, count));        \
		return fan_mpi_turn_end(                                                           \
			&t, FAN_NEXT(mpi_name, name)(in, out, count, type, op, root, comm));       \
	}                                                                                          \
	int fan_mpi_##name(const void *in, void *out, count_type count, MPI_Datatype type,         \
			   MPI_Op op, int root, MPI_Comm comm)                                     \
	{                                                                                          \
		if (passes_again(FAN_LEARNER_REDUCE, count, type, op, comm))                       \
			return FAN_NEXT(mpi_name, name)(in, out, count, type, op, root, comm);     \
		return look_##name(in, out, count, type, op, root, comm);                          \
	}
DEFINE_REDUCE(reduce, Reduce, int)
DEFINE_REDUCE(reduce_c, Reduce_c, MPI_Count)

/* ---- messages of types with gaps, in a buffer without them ---- */

#define PACKED_AT_ONCE (1 << 30) /* bytes packed in one call of MPI, which counts in int */

/* Elements in one call of MPI, and the distance between two elements. */
struct pace {
	MPI_Count at_once, extent;
	size_t each;
};

static int find_pace(struct pace *p, MPI_Datatype type)
{
	MPI_Count low;
	p->each = fan_mpi_type_bytes(type);
	if (!p->each || p->each > INT_MAX)
		return MPI_ERR_COUNT;
	p->at_once = p->each < PACKED_AT_ONCE ? PACKED_AT_ONCE / (MPI_Count)p->each : 1;
	return PMPI_Type_get_extent_x(type, &low, &p->extent);
}

/* Elements from number `n` on, at most at_once. */
static int some(const struct pace *p, MPI_Count n, MPI_Count count)
{
	assert(p->at_once > 0 && n < count);
	return (int)(count - n < p->at_once ? count - n : p->at_once);
}

/* A buffer of `bytes` bytes for `count` elements at `from`, packed if `fill`; NULL: no memory, or a
 * type that MPI does not pack.  To be freed. */
static void *pack_message(const void *from, MPI_Count count, MPI_Datatype type, size_t bytes,
			  int fill, MPI_Comm comm)
{
	struct pace p;
	char *packed = malloc(bytes);
	int e = packed ? find_pace(&p, type) : MPI_ERR_NO_MEM;
	for (MPI_Count n = 0; !e && fill && n < count; n += p.at_once) {
		int position = 0, now = some(&p, n, count);
		e = PMPI_Pack((const char *)from + n * p.extent, now, type,
			      packed + (size_t)n * p.each, (int)((size_t)now * p.each), &position,
			      comm);
	}
	if (!e)
		return packed;
	free(packed);
	return NULL;
}

/* Unpack what pack_message has packed: one of MPI's codes. */
static int unpack_message(const void *packed, void *to, MPI_Count count, MPI_Datatype type,
			  MPI_Comm comm)
{
	struct pace p;
	int e = find_pace(&p, type);
	for (MPI_Count n = 0; !e && n < count; n += p.at_once) {
		int position = 0, now = some(&p, n, count);
		e = PMPI_Unpack((const char *)packed + (size_t)n * p.each,
				(int)((size_t)now * p.each), &position, (char *)to + n * p.extent,
				now, type, comm);
	}
	return e;
}

/* Broadcast.  Ranks may describe one message by different types, so its bytes alone decide who
 * carries it, and a rank whose type has gaps packs. */

static bool begin_bcast(struct fan_mpi_turn *t, const void *buffer, MPI_Count count,
			MPI_Datatype type, int root, MPI_Comm comm)
{
	const struct fan_mpi_what what = {
		.kind = FAN_LEARNER_BCAST,
		.bytes = fan_mpi_message_bytes(count, fan_mpi_type_bytes(type)),
		.known = buffer != MPI_IN_PLACE && (buffer || !fan_mpi_type_is_plain(type)),
		.root = root,
	};
	return fan_mpi_turn_begin(t, comm, &what);
}

static int bcast_packed(const struct fan_mpi_turn *t, void *buffer, MPI_Count count,
			MPI_Datatype type)
{
	struct fan_mpi_group *g = t->group;
	bool root = t->what.root == g->rank;
	void *packed = pack_message(buffer, count, type, t->what.bytes, root, g->comm);
	if (!packed)
		return fan_mpi_group_result(g, FANIN_E_NOMEM);
	int e = fan_mpi_group_result(
		g, fanin_broadcast(g->job, packed, t->what.bytes, FANIN_UINT8, t->what.root));
	if (!e && !root)
		e = unpack_message(packed, buffer, count, type, g->comm);
	free(packed);
	return e;
}

static int take_bcast(const struct fan_mpi_turn *t, void *buffer, MPI_Count count,
		      MPI_Datatype type)
{
	struct fan_mpi_group *g = t->group;
	if (!fan_mpi_type_is_plain(type))
		return bcast_packed(t, buffer, count, type);
	return fan_mpi_group_result(
		g, fanin_broadcast(g->job, buffer, t->what.bytes, FANIN_UINT8, t->what.root));
}

#define DEFINE_BCAST(name, mpi_name, count_type)                                                   \
	LOOK static int look_##name(void *buffer, count_type count, MPI_Datatype type, int root,   \
				    MPI_Comm comm)                                                 \
	{                                                                                          \
		struct fan_mpi_turn t;                                                             \
		if (fan_mpi_turn_passes(FAN_LEARNER_BCAST, count, type, MPI_OP_NULL, root, comm))  \
			return FAN_NEXT(mpi_name, name)(buffer, count, type, root, comm);          \
		if (begin_bcast(&t, buffer, count, type, root, comm))                              \
			return fan_mpi_turn_end(&t, take_bcast(&t, buffer, count, type));          \
		return fan_mpi_turn_end(                                                           \
			&t, FAN_NEXT(mpi_name, name)(buffer, count, type, root, comm));            \
	}                                                                                          \
	int fan_mpi_##name(void *buffer, count_type count, MPI_Datatype type, int root,            \
			   MPI_Comm comm)                                                          \
	{                                                                                          \
		if (passes_again(FAN_LEARNER_BCAST, count, type, MPI_OP_NULL, comm))               \
			return FAN_NEXT(mpi_name, name)(buffer, count, type, root, comm);          \
		return look_##name(buffer, count, type, root, comm);                               \
	}
DEFINE_BCAST(bcast, Bcast, int)
DEFINE_BCAST(bcast_c, Bcast_c, MPI_Count)

/* ---- barrier ---- */

LOOK static int look_barrier(MPI_Comm comm)
{
	static const struct fan_mpi_what what = {.kind = FAN_LEARNER_BARRIER, .known = true};
	struct fan_mpi_turn t;
	if (fan_mpi_turn_passes(FAN_LEARNER_BARRIER, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, 0, comm))
		return FAN_NEXT(Barrier, barrier)(comm);
	if (fan_mpi_turn_begin(&t, comm, &what))
		return fan_mpi_turn_end(&t,
					fan_mpi_group_result(t.group, fanin_barrier(t.group->job)));
	return fan_mpi_turn_end(&t, FAN_NEXT(Barrier, barrier)(comm));
}

int fan_mpi_barrier(MPI_Comm comm)
{
	if (passes_again(FAN_LEARNER_BARRIER, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, comm))
		return FAN_NEXT(Barrier, barrier)(comm);
	return look_barrier(comm);
}

/* `what` counts one rank's block; the message has a block for each rank. */
static void count_blocks(struct fan_mpi_what *what, MPI_Comm comm)
{
	int ranks = 0;
	if (comm != MPI_COMM_NULL && !PMPI_Comm_size(comm, &ranks) &&
	    what->bytes <= PTRDIFF_MAX / FANIN_RANKS_MAX && ranks <= FANIN_RANKS_MAX)
		what->bytes *= (size_t)ranks;
	else
		what->known = false;
}

/* ---- reduce-scatter ---- */

static bool begin_sum(struct fan_mpi_turn *t, struct fan_mpi_sum *sum, const void *in,
		      const void *out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct fan_mpi_what what;
	fan_mpi_what_sum(&what, sum, FAN_LEARNER_REDUCE_SCATTER, count, type, op);
	const size_t block = what.bytes;
	count_blocks(&what, comm);
	what.known &= fan_mpi_buffers_fit(in, what.bytes, out, block);
	return fan_mpi_turn_begin(t, comm, &what);
}

/* In place, this rank's block moves to the front.  The other blocks stay unchanged: programs rely
 * on it, although MPI does not promise it. */
static int take_sum(const struct fan_mpi_turn *t, const struct fan_mpi_sum *sum, const void *in,
		    void *out, MPI_Count count)
{
	assert(t->group->job);
	struct fan_mpi_group *g = t->group;
	size_t bytes = (size_t)count * sum->bytes;
	bool in_place = in == MPI_IN_PLACE;
	void *own = in_place ? malloc(bytes) : out;
	int e = own ? fanin_reduce_scatter(g->job, in_place ? out : in, own,
					   (size_t)count * sum->each, sum->dtype, sum->op)
		    : FANIN_E_NOMEM;
	e = fan_mpi_group_result(g, e);
	if (in_place && own && !e)
		memcpy(out, own, bytes);
	if (in_place)
		free(own);
	return e;
}

#define DEFINE_REDUCE_SCATTER_BLOCK(name, mpi_name, count_type)                                    \
	int fan_mpi_##name(const void *in, void *out, count_type count, MPI_Datatype type,         \
			   MPI_Op op, MPI_Comm comm)                                               \
	{                                                                                          \
		struct fan_mpi_turn t;                                                             \
		struct fan_mpi_sum sum;                                                            \
		if (begin_sum(&t, &sum, in, out, count, type, op, comm))                           \
			return fan_mpi_turn_end(&t, take_sum(&t, &sum, in, out, count));           \
		return fan_mpi_turn_end(&t,                                                        \
					FAN_NEXT(mpi_name, name)(in, out, count, type, op, comm)); \
	}
DEFINE_REDUCE_SCATTER_BLOCK(reduce_scatter_block, Reduce_scatter_block, int)
DEFINE_REDUCE_SCATTER_BLOCK(reduce_scatter_block_c, Reduce_scatter_block_c, MPI_Count)

/* All-gather.  As with broadcasts, ranks may describe their blocks by different types. */

struct gather {
	const void *in;
	MPI_Count in_count;
	MPI_Datatype in_type;
	void *out;
	MPI_Count count;
	MPI_Datatype type;
};

/* Is this rank's block where the result has it?  Open MPI takes that for MPI_IN_PLACE, MPICH
 * refuses it. */
static bool is_at_place(const struct gather *a, size_t block, MPI_Comm comm)
{
#ifdef OPEN_MPI
	const struct fan_mpi_group *g = fan_mpi_world.on ? fan_mpi_group_of(comm) : NULL;
	return g && a->in == (const char *)a->out + (size_t)g->rank * block;
#else
	(void)a, (void)block, (void)comm;
	return false;
#endif
}

/* Of types with gaps, blocks may lie in each other's gaps. */
static bool gather_fits(const struct gather *a, size_t block, size_t all, MPI_Comm comm)
{
	const bool plain = a->in == MPI_IN_PLACE || a->out == MPI_IN_PLACE ||
			   (fan_mpi_type_is_plain(a->in_type) && fan_mpi_type_is_plain(a->type));
	return !plain || fan_mpi_buffers_fit(a->in, block, a->out, all) ||
	       is_at_place(a, block, comm);
}

static bool begin_gather(struct fan_mpi_turn *t, const struct gather *a, MPI_Comm comm)
{
	struct fan_mpi_what what = {
		.kind = FAN_LEARNER_ALLGATHER,
		.bytes = fan_mpi_message_bytes(a->count, fan_mpi_type_bytes(a->type)),
		.known = true,
	};
	const size_t block = what.bytes;
	count_blocks(&what, comm);
	what.known = what.known && gather_fits(a, block, what.bytes, comm);
	return fan_mpi_turn_begin(t, comm, &what);
}

/* This rank's block without gaps.  The caller frees `*made`.  NULL: no memory. */
static const void *own_block(const struct fan_mpi_turn *t, const struct gather *a, size_t bytes,
			     void **made)
{
	struct fan_mpi_group *g = t->group;
	MPI_Count low, extent = 0;
	bool in_place = a->in == MPI_IN_PLACE;
	MPI_Datatype type = in_place ? a->type : a->in_type;
	const char *from = a->in;
	*made = NULL;
	if (in_place) {
		PMPI_Type_get_extent_x(a->type, &low, &extent);
		from = (const char *)a->out + g->rank * a->count * extent;
	}
	if (fan_mpi_type_is_plain(type))
		return from;
	*made = pack_message(from, in_place ? a->count : a->in_count, type, bytes, true, g->comm);
	return *made;
}

static int take_gather(const struct fan_mpi_turn *t, const struct gather *a)
{
	assert(t->group->job && t->group->ranks > 0);
	struct fan_mpi_group *g = t->group;
	size_t bytes = t->what.bytes / (size_t)g->ranks;
	bool plain = fan_mpi_type_is_plain(a->type);
	void *made, *all = plain ? a->out : malloc(t->what.bytes);
	const void *own = own_block(t, a, bytes, &made);
	int e = own && all ? fanin_allgather(g->job, own, all, bytes, FANIN_UINT8) : FANIN_E_NOMEM;
	e = fan_mpi_group_result(g, e);
	if (!e && !plain)
		e = unpack_message(all, a->out, a->count * g->ranks, a->type, g->comm);
	if (!plain)
		free(all);
	free(made);
	return e;
}

#define DEFINE_ALLGATHER(name, mpi_name, count_type)                                               \
	int fan_mpi_##name(const void *in, count_type in_count, MPI_Datatype in_type, void *out,   \
			   count_type count, MPI_Datatype type, MPI_Comm comm)                     \
	{                                                                                          \
		const struct gather a = {in, in_count, in_type, out, count, type};                 \
		struct fan_mpi_turn t;                                                             \
		if (begin_gather(&t, &a, comm))                                                    \
			return fan_mpi_turn_end(&t, take_gather(&t, &a));                          \
		return fan_mpi_turn_end(&t, FAN_NEXT(mpi_name, name)(in, in_count, in_type, out,   \
								     count, type, comm));          \
	}
DEFINE_ALLGATHER(allgather, Allgather, int)
DEFINE_ALLGATHER(allgather_c, Allgather_c, MPI_Count)

void fan_mpi_collectives_take(fan_mpi_function *mine)
{
	FAN_MPI_EACH_COLLECTIVE(FAN_TAKE)
}
