/* SPDX-License-Identifier: Apache-2.0 */
/* next.h - the functions that receive passed-on calls: the ones that the program would call
 * without fanin. */
#ifndef FAN_MPI_NEXT_H
#define FAN_MPI_NEXT_H

#include "calls.h"

extern const fan_mpi_function *fan_mpi_next; /* FAN_MPI_CALLS of them */

/* MPI_`name`, as a function to be called.  It has the type of the function that takes its calls,
 * since headers of older MPIs lack some. */
#define FAN_NEXT(name, mine) ((__typeof__(&fan_mpi_##mine))fan_mpi_next[FAN_MPI_##name])

/* Store fan_mpi_`function` in the table `mine`; for the lists of calls.h. */
#define FAN_TAKE(name, function, arguments)                                                        \
	mine[FAN_MPI_##name] = (fan_mpi_function)fan_mpi_##function;

#endif
