/* SPDX-License-Identifier: Apache-2.0 */
/* persistent.h - persistent all-reduces: MPI_Allreduce_init, or MPIX_Allreduce_init where the MPI
 * has that, and their starts.
 *
 * Making such a request is collective and may be slow.  So all ranks join a job there at once, and
 * try with memory of their own whether fanin is faster.  A request that goes to the MPI is the
 * MPI's own.  One that goes to fanin is a persistent receive from this process itself: every
 * function of MPI that waits accepts it, and its message arrives when the operation has ended. */
#ifndef FAN_MPI_PERSISTENT_H
#define FAN_MPI_PERSISTENT_H

#include <mpi.h>

#define FAN_PERSISTENT_MAX 4096 /* requests of this process at a time; each has a tag */

/* Forget all requests. */
void fan_mpi_persistent_end(void);

int fan_mpi_allreduce_init(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
			   MPI_Comm comm, MPI_Info info, MPI_Request *request);
#if MPI_VERSION >= 4
int fan_mpi_allreduce_init_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
			     MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request);
#endif

int fan_mpi_start(MPI_Request *request);
int fan_mpi_startall(int count, MPI_Request *requests);
int fan_mpi_request_free(MPI_Request *request);

#endif
