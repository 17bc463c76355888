/* SPDX-License-Identifier: Apache-2.0 */
/* packed.h - a message of a type with gaps, in a buffer without them. */
#ifndef FAN_MPI_PACKED_H
#define FAN_MPI_PACKED_H

#include <mpi.h>
#include <stddef.h>

#define FAN_PACKED_AT_ONCE (1 << 30) /* bytes packed in one call of MPI, which counts in int */

/* A buffer of `bytes` bytes for `count` elements at `from`, packed if `fill`; NULL: no memory, or a
 * type that MPI does not pack.  To be freed. */
void *fan_mpi_pack(const void *from, MPI_Count count, MPI_Datatype type, size_t bytes, int fill,
		   MPI_Comm comm);

/* Unpack what fan_mpi_pack has packed: one of MPI's codes. */
int fan_mpi_unpack(const void *packed, void *to, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

#endif
