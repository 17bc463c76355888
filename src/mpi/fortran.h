/* SPDX-License-Identifier: Apache-2.0 */
/* fortran.h - Open MPI's Fortran functions, which do not call those of C.
 *
 * Handles are numbers, constants such as MPI_IN_PLACE are addresses of variables, and the last
 * argument receives the error code. */
#ifndef FAN_MPI_FORTRAN_H
#define FAN_MPI_FORTRAN_H

#include "calls.h"

/* Store the functions that take the calls in `mine`.  `constants` must stay. */
void fan_mpi_fortran_take(const struct fan_mpi_constants *constants, fan_mpi_function *mine);

#endif
