/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - one blocking collective call: which way it goes, and what is learnt from it. */
#ifndef FAN_MPI_TURN_H
#define FAN_MPI_TURN_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "group.h"
#include "learner.h"
#include "types.h"

/* A call, by what is the same on all ranks. */
struct fan_mpi_what {
	enum fan_learner_kind kind;
	size_t bytes; /* of its message */
	bool known;   /* fanin has its type and operation */
	int root;     /* 0 for a call without one */
};

struct fan_mpi_turn {
	struct fan_mpi_group *group;
	struct fan_mpi_what what;
	struct fan_learner_step step;
	double trial_s; /* when a call of a trial began */
	double call_s;	/* when its own part began */
};

/* Bytes of a message; 0, which is the MPI's to judge, where the arguments make no sense. */
size_t fan_mpi_message_bytes(MPI_Count count, size_t each);

/* A reduction; true: fanin has it, and `*sum` says how. */
bool fan_mpi_what_sum(struct fan_mpi_what *what, struct fan_mpi_sum *sum,
		      enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op);

/* A call that is the MPI's as the last one of its kind on `comm` was.  For broadcasts `op` is
 * MPI_OP_NULL.  False: look at fan_mpi_turn_passes. */
static inline bool fan_mpi_turn_again(enum fan_learner_kind kind, MPI_Count count,
				      MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	struct fan_mpi_group *g = atomic_load_explicit(&fan_mpi_group_last, memory_order_acquire);
	return g && atomic_load_explicit(&g->comm, memory_order_acquire) == comm &&
	       fan_mpi_pass_next(&g->passes[kind], count, type, op);
}

/* A call that is the MPI's, and nothing is to be timed; if it can be, those that follow it are
 * known to fan_mpi_turn_again.  False: begin it. */
bool fan_mpi_turn_passes(enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op,
			 int root, MPI_Comm comm);

/* A call on `comm` begins.  True: it goes to fanin, to job t->group->job.  The answer depends on
 * nothing in which ranks of `comm` may differ. */
bool fan_mpi_turn_begin(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what);

/* It has ended with `e`, one of MPI's codes, which is returned. */
int fan_mpi_turn_end(struct fan_mpi_turn *t, int e);

/* Collective: many such calls will come, so join a job at once.  NULL: they are the MPI's. */
struct fan_mpi_group *fan_mpi_turn_join(MPI_Comm comm, const struct fan_mpi_what *what);

/* As fan_mpi_turn_begin, for a call that does not wait.  `timed`: it is the MPI's, and
 * fan_mpi_background_time wants to know how long it takes. */
bool fan_mpi_turn_at_once(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what,
			  bool *timed);

#endif
