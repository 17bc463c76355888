/* SPDX-License-Identifier: Apache-2.0 */
/* collective.h - the collective calls: blocking, and persistent all-reduces. */
#ifndef FAN_MPI_COLLECTIVE_H
#define FAN_MPI_COLLECTIVE_H

#include <mpi.h>

/* ---- blocking.c ---- */

/* The blocking collective calls. */

int fan_mpi_allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
		      MPI_Comm comm);
int fan_mpi_reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
		   MPI_Comm comm);
int fan_mpi_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int fan_mpi_barrier(MPI_Comm comm);

#if MPI_VERSION >= 4
int fan_mpi_allreduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type, MPI_Op op,
			MPI_Comm comm);
int fan_mpi_reduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type, MPI_Op op,
		     int root, MPI_Comm comm);
int fan_mpi_bcast_c(void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
#endif

/* Of calls whose buffers have a block for each rank (blocks.c). */
int fan_mpi_reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
				 MPI_Comm comm);
int fan_mpi_allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int count,
		      MPI_Datatype type, MPI_Comm comm);

#if MPI_VERSION >= 4
int fan_mpi_reduce_scatter_block_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
				   MPI_Op op, MPI_Comm comm);
int fan_mpi_allgather_c(const void *in, MPI_Count in_count, MPI_Datatype in_type, void *out,
			MPI_Count count, MPI_Datatype type, MPI_Comm comm);
#endif

/* ---- persistent.c ---- */

/* Persistent all-reduces: MPI_Allreduce_init, or MPIX_Allreduce_init where the MPI
 * has that, and their starts.
 *
 * Making such a request is collective and may be slow.  So all ranks join a job there at once, and
 * try with memory of their own whether fanin is faster.  A request that goes to the MPI is the
 * MPI's own.  One that goes to fanin is a persistent receive from this process itself: every
 * function of MPI that waits accepts it, and its message arrives when the operation has ended. */

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
