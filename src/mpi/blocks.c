/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "next.h"
#include "turn.h"
#include "types.h"
#include "world.h"

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
	*made = fan_mpi_pack(from, in_place ? a->count : a->in_count, type, bytes, true, g->comm);
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
		e = fan_mpi_unpack(all, a->out, a->count * g->ranks, a->type, g->comm);
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
