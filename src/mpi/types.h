/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - MPI's types and operations as fanin knows them. */
#ifndef FAN_MPI_TYPES_H
#define FAN_MPI_TYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* A reduction that fanin can do. */
struct fan_mpi_sum {
	int dtype, op; /* enum fanin_dtype, enum fanin_redop */
	size_t each;   /* elements of fanin in one of MPI's: 2 of complex types */
	size_t bytes;  /* of one of MPI's elements */
};

/* After MPI_Init, before the others. */
void fan_mpi_types_init(void);

/* Bytes of `count` elements, if fanin has the reduction `op` of `type`, or with MPI_OP_NULL of any
 * type that MPI names, and it was the last type that was looked for: costs next to nothing.  False:
 * look further. */
bool fan_mpi_sum_glance(size_t *bytes, MPI_Count count, MPI_Datatype type, MPI_Op op);

/* False: fanin has no such reduction.  Depends on the arguments alone. */
bool fan_mpi_sum_find(struct fan_mpi_sum *sum, MPI_Datatype type, MPI_Op op);

/* Bytes of an element as they are sent, without gaps; 0: `type` is no type, or has none. */
size_t fan_mpi_type_bytes(MPI_Datatype type);

/* The elements lie one behind the other in the order in which they are sent.  Ranks may differ in
 * this for one message, so no rank may decide by it which way a message goes. */
bool fan_mpi_type_is_plain(MPI_Datatype type);

#endif
