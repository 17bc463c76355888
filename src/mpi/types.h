/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - MPI's types and operations as fanin knows them, and messages of types with gaps. */
#ifndef FAN_MPI_TYPES_H
#define FAN_MPI_TYPES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- types.c ---- */

/* MPI's types and operations as fanin knows them. */

/* A reduction that fanin can do. */
struct fan_mpi_sum {
	int dtype, op; /* enum fanin_dtype, enum fanin_redop */
	size_t each;   /* elements of fanin in one of MPI's: 2 of complex types */
	size_t bytes;  /* of one of MPI's elements */
};

/* Call it after MPI_Init, before the functions below. */
void fan_mpi_types_init(void);

/* True: MPI names `type`, and fanin has it.  Stores the bytes of an element, and whether fanin can
 * reduce it by `op`; MPI_OP_NULL, for no reduction, counts as known. */
bool fan_mpi_type_is_named(MPI_Datatype type, MPI_Op op, size_t *bytes, bool *known);

/* False: fanin has no such reduction.  The answer depends on the arguments alone. */
bool fan_mpi_sum_find(struct fan_mpi_sum *sum, MPI_Datatype type, MPI_Op op);

/* Bytes of an element as they are sent, without gaps; 0: `type` is no type, or has none. */
size_t fan_mpi_type_bytes(MPI_Datatype type);

/* Do the elements lie one behind the other in the order in which they are sent?  Ranks may differ
 * in this for one message, so no rank may decide by it whether a message goes to fanin. */
bool fan_mpi_type_is_plain(MPI_Datatype type);

/* ---- packed.c ---- */

/* A message of a type with gaps, in a buffer without them. */

#define FAN_PACKED_AT_ONCE (1 << 30) /* bytes packed in one call of MPI, which counts in int */

/* A buffer of `bytes` bytes for `count` elements at `from`, packed if `fill`; NULL: no memory, or a
 * type that MPI does not pack.  To be freed. */
void *fan_mpi_pack(const void *from, MPI_Count count, MPI_Datatype type, size_t bytes, int fill,
		   MPI_Comm comm);

/* Unpack what fan_mpi_pack has packed: one of MPI's codes. */
int fan_mpi_unpack(const void *packed, void *to, MPI_Count count, MPI_Datatype type, MPI_Comm comm);

#endif
