/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - the library for one MPI: what libfanin-mpi.so hands the program's calls to. */
#include "collective.h"
#include "group.h"
#include "next.h"
#include "request.h"
#include "world.h"

const fan_mpi_function *fan_mpi_next;

__attribute__((visibility("default"))) fan_mpi_attach_function fan_mpi_attach;

#define TAKE(name, function, arguments) mine[FAN_MPI_##name] = (fan_mpi_function)fan_mpi_##function;

#ifdef OPEN_MPI
#include "fortran.h"

#define TAKE_F(name, arguments)	  TAKE(name, f_##name, arguments)
#define TAKE_F08(name, arguments) TAKE(F08_##name, f08_##name, arguments)

/* Open MPI's Fortran functions do not call C's. */
static void take_fortran(const struct fan_mpi_constants *constants, fan_mpi_function *mine)
{
	fan_mpi_fortran_init(constants);
	FAN_MPI_EACH_FORTRAN(TAKE_F)
	FAN_MPI_EACH_F08(TAKE_F08)
}
#else
static void take_fortran(const struct fan_mpi_constants *constants, fan_mpi_function *mine)
{
	(void)constants, (void)mine;
}
#endif

void fan_mpi_attach(const fan_mpi_function *next, const struct fan_mpi_constants *constants,
		    fan_mpi_function *mine)
{
	fan_mpi_next = next;
	FAN_MPI_EACH_CALL(TAKE)
	take_fortran(constants, mine);
}
