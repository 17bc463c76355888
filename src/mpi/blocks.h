/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - the blocking collective calls whose buffers have a block for each rank. */
#ifndef FAN_MPI_BLOCKS_H
#define FAN_MPI_BLOCKS_H

#include <mpi.h>

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

#endif
