/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h - a shortcut for calls that go to the MPI because the last equal call did, for programs
 * that call so often that a look-up would cost time.
 *
 * Each kind of call of a communicator remembers one call, and a pointer to the number of equal
 * calls that may pass.  MPI permits one thread at a time in the collective calls of a communicator,
 * so this needs no lock. */
#ifndef FAN_MPI_PASS_H
#define FAN_MPI_PASS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"

struct fan_mpi_pass {
	uint64_t *rest;	  /* calls that may still pass: `endless`, or a learner's; never NULL */
	uint64_t endless; /* 0: no call is remembered, or `rest` is a learner's */
	MPI_Count count;  /* of the remembered call, as the two below */
	MPI_Datatype type;
	MPI_Op op;
	uint64_t from; /* *rest when it was remembered */
	size_t bytes;
	enum fan_mpi_why why;
};

/* Initialise `p`: no call is remembered. */
void fan_mpi_pass_init(struct fan_mpi_pass *p);

/* Forget the call, and report the calls that have passed.  Call it before anything else changes
 * *rest. */
void fan_mpi_pass_forget(struct fan_mpi_pass *p);

/* A call of `bytes` bytes goes to the MPI because of `why`, and so do *rest equal calls; `rest`
 * NULL: all.  Until `p` forgets the call, only calls that pass change *rest. */
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
