/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - a call that is the MPI's because the last one like it was: for programs that call so
 * often that looking any further would show.
 *
 * Each kind of call of a communicator remembers one call and where the number stands of those that
 * may follow it unseen.  MPI lets one thread at a time be in the collective calls of a
 * communicator, so this needs no lock. */
#ifndef FAN_MPI_PASS_H
#define FAN_MPI_PASS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

struct fan_mpi_pass {
	uint64_t *rest;	  /* calls that may still pass: `endless`, or a learner's; never NULL */
	uint64_t endless; /* 0: nothing is remembered, or it is a learner's */
	MPI_Count count;  /* of the call, with... */
	MPI_Datatype type;
	MPI_Op op;
	uint64_t from; /* *rest when it was remembered */
	size_t bytes;
	enum fan_mpi_why why;
};

/* Nothing is remembered; `p` holds nothing yet. */
void fan_mpi_pass_init(struct fan_mpi_pass *p);

/* The same; what has passed is in the report.  Comes before anything else that changes *rest. */
void fan_mpi_pass_forget(struct fan_mpi_pass *p);

/* A call of `bytes` bytes is the MPI's because of `why`, and so are *rest like it; `rest` NULL:
 * all. `rest` is constant until `p` forgets it, but for the calls that pass. */
void fan_mpi_pass_remember(struct fan_mpi_pass *p, MPI_Count count, MPI_Datatype type, MPI_Op op,
			   uint64_t *rest, size_t bytes, enum fan_mpi_why why);

/* True: this call passes and has been counted. */
static inline bool fan_mpi_pass_next(struct fan_mpi_pass *p, MPI_Count count, MPI_Datatype type,
				     MPI_Op op)
{
	if (!*p->rest || p->count != count || p->type != type || p->op != op)
		return false;
	--*p->rest;
	return true;
}

#endif
