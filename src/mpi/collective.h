/* SPDX-License-Identifier: Apache-2.0 */
/* collective.h - the blocking collective calls. */
#ifndef FAN_MPI_COLLECTIVE_H
#define FAN_MPI_COLLECTIVE_H

#include <mpi.h>

#include "calls.h"

int fan_mpi_allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
		      MPI_Comm comm);
int fan_mpi_reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
		   MPI_Comm comm);
int fan_mpi_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int fan_mpi_barrier(MPI_Comm comm);

/* Calls whose buffers have a block for each rank. */
int fan_mpi_reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
				 MPI_Comm comm);
int fan_mpi_allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int count,
		      MPI_Datatype type, MPI_Comm comm);

/* Store the functions that take these calls, and those with large counts, in `mine`. */
void fan_mpi_collectives_take(fan_mpi_function *mine);

/* ---- fortran.c: Open MPI's Fortran functions, which do not call those of C ----
 *
 * Handles are numbers, constants such as MPI_IN_PLACE are addresses of variables, and the last
 * argument receives the error code. */

/* Store the functions that take the calls in `mine`.  `constants` must stay. */
void fan_mpi_fortran_take(const struct fan_mpi_constants *constants, fan_mpi_function *mine);

#endif
