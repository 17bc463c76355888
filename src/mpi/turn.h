/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - one blocking collective call: whether it goes to fanin, and what its time teaches. */
#ifndef FAN_MPI_TURN_H
#define FAN_MPI_TURN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "group.h"
#include "learner.h"
#include "types.h"

/* A call, by its properties that are equal on all ranks. */
struct fan_mpi_what {
	enum fan_learner_kind kind;
	size_t bytes; /* of its message */
	bool known;   /* fanin supports its type and operation */
	int root;     /* 0 if the call has none */
};

struct fan_mpi_turn {
	struct fan_mpi_group *group;
	struct fan_mpi_what what;
	struct fan_learner_step step;
	double trial_s; /* when a call of a trial began */
	double call_s;	/* when its own part began */
};

/* Bytes of a message; 0 where the arguments make no sense, which the MPI then reports. */
size_t fan_mpi_message_bytes(MPI_Count count, size_t each);

/* May fanin read `in` and write `out`?  False for what MPI refuses or leaves undefined: buffers
 * that overlap, none, and MPI_IN_PLACE as `out`.  Then this rank calls its MPI. */
bool fan_mpi_buffers_fit(const void *in, size_t in_bytes, const void *out, size_t out_bytes);

/* Describe a reduction; true: fanin supports it, as `*sum`. */
bool fan_mpi_what_sum(struct fan_mpi_what *what, struct fan_mpi_sum *sum,
		      enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op);

/* True: the call goes to the MPI untimed; the group then lets the calls that follow pass, if it
 * can (pass.h).  False: call fan_mpi_turn_begin. */
bool fan_mpi_turn_passes(enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op,
			 int root, MPI_Comm comm);

/* Begin a call on `comm`.  True: it goes to fanin, to job t->group->job.  All ranks of `comm` get
 * the same answer. */
bool fan_mpi_turn_begin(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what);

/* End the call, which returned `e`, one of MPI's codes.  Returns `e`. */
int fan_mpi_turn_end(struct fan_mpi_turn *t, int e);

/* As fan_mpi_turn_begin, for a call that does not wait: it joins no job, and ends without
 * fan_mpi_turn_end. */
bool fan_mpi_turn_at_once(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what);

#endif
