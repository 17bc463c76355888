/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - the library for one MPI: what libfanin-mpi.so hands the program's calls to. */
#include "calls.h"
#include "collective.h"
#include "group.h"
#include "request.h"
#include "world.h"

const fan_mpi_function *fan_mpi_next;

__attribute__((visibility("default"))) fan_mpi_attach_function fan_mpi_attach;

void fan_mpi_attach(const fan_mpi_function *next, const struct fan_mpi_constants *constants,
		    fan_mpi_function *mine)
{
	fan_mpi_next = next;
	FAN_MPI_EACH_BEGINNING(FAN_TAKE)
	fan_mpi_collectives_take(mine);
	fan_mpi_requests_take(mine);
#ifdef OPEN_MPI
	fan_mpi_fortran_take(constants, mine);
#else
	(void)constants;
#endif
}
