/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "collective.h"
#include "next.h"
#include "turn.h"
#include "types.h"
#include "world.h"

/* MPI_name, and MPI_name_c with counts beyond int, differ in the counts' type alone.
 *
 * LOOK: not inlined, so that a call that passes needs no stack and saves no registers. */
#define LOOK __attribute__((noinline))

size_t fan_mpi_message_bytes(MPI_Count count, size_t each)
{
	size_t bytes;
	return count > 0 && !__builtin_mul_overflow((size_t)count, each, &bytes) &&
			       bytes <= PTRDIFF_MAX
		       ? bytes
		       : 0;
}

bool fan_mpi_buffers_fit(const void *in, size_t in_bytes, const void *out, size_t out_bytes)
{
	const uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
	if (!in || !out || out == MPI_IN_PLACE)
		return false;
	return in == MPI_IN_PLACE || (a < b ? b - a >= in_bytes : a - b >= out_bytes);
}

bool fan_mpi_what_sum(struct fan_mpi_what *what, struct fan_mpi_sum *sum,
		      enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
	bool known = fan_mpi_sum_find(sum, type, op);
	*what = (struct fan_mpi_what){
		.kind = kind,
		.bytes =
			fan_mpi_message_bytes(count, known ? sum->bytes : fan_mpi_type_bytes(type)),
		.known = known,
	};
	return known;
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
		if (fan_mpi_turn_again(FAN_LEARNER_ALLREDUCE, count, type, op, comm))              \
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
		if (fan_mpi_turn_again(FAN_LEARNER_REDUCE, count, type, op, comm))                 \
			return FAN_NEXT(mpi_name, name)(in, out, count, type, op, root, comm);     \
		return look_##name(in, out, count, type, op, root, comm);                          \
	}
DEFINE_REDUCE(reduce, Reduce, int)
DEFINE_REDUCE(reduce_c, Reduce_c, MPI_Count)

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
	void *packed = fan_mpi_pack(buffer, count, type, t->what.bytes, root, g->comm);
	if (!packed)
		return fan_mpi_group_result(g, FANIN_E_NOMEM);
	int e = fan_mpi_group_result(
		g, fanin_broadcast(g->job, packed, t->what.bytes, FANIN_UINT8, t->what.root));
	if (!e && !root)
		e = fan_mpi_unpack(packed, buffer, count, type, g->comm);
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
		if (fan_mpi_turn_again(FAN_LEARNER_BCAST, count, type, MPI_OP_NULL, comm))         \
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
	if (fan_mpi_turn_again(FAN_LEARNER_BARRIER, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, comm))
		return FAN_NEXT(Barrier, barrier)(comm);
	return look_barrier(comm);
}
