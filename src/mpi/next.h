/* SPDX-License-Identifier: Apache-2.0 */
/* next.h - the functions that calls are passed on to: those that the program would call without
 * fanin. */
#ifndef FAN_MPI_NEXT_H
#define FAN_MPI_NEXT_H

#include <mpi.h>

#include "calls.h"

extern const fan_mpi_function *fan_mpi_next; /* FAN_MPI_CALLS of them */

/* MPI_name, as a function to be called. */
#define FAN_NEXT(name) ((__typeof__(&PMPI_##name))fan_mpi_next[FAN_MPI_##name])

#endif
