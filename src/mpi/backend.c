/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - the library for one MPI: what libfanin-mpi.so hands the program's calls to. */
#include "collective.h"
#include "fortran.h"
#include "group.h"
#include "next.h"
#include "request.h"
#include "world.h"

const fan_mpi_function *fan_mpi_next;

__attribute__((visibility("default"))) fan_mpi_attach_function fan_mpi_attach;

#define TAKE(name, function)	  mine[FAN_MPI_##name] = (fan_mpi_function)(function)
#define TAKE_F(name, arguments)	  TAKE(name, fan_mpi_f_##name);
#define TAKE_F08(name, arguments) TAKE(F08_##name, fan_mpi_f08_##name);

/* Open MPI's Fortran functions, which do not call C's. */
static void take_fortran(const struct fan_mpi_constants *constants, fan_mpi_function *mine)
{
#ifdef OPEN_MPI
	fan_mpi_fortran_init(constants);
	FAN_MPI_EACH_FORTRAN(TAKE_F)
	FAN_MPI_EACH_F08(TAKE_F08)
#else
	(void)constants, (void)mine;
#endif
}

void fan_mpi_attach(const fan_mpi_function *next, const struct fan_mpi_constants *constants,
		    fan_mpi_function *mine)
{
	fan_mpi_next = next;
	TAKE(Init, fan_mpi_init);
	TAKE(Init_thread, fan_mpi_init_thread);
	TAKE(Finalize, fan_mpi_finalize);
	TAKE(Comm_free, fan_mpi_comm_free);
	TAKE(Comm_disconnect, fan_mpi_comm_disconnect);
	TAKE(Allreduce, fan_mpi_allreduce);
	TAKE(Reduce, fan_mpi_reduce);
	TAKE(Bcast, fan_mpi_bcast);
	TAKE(Barrier, fan_mpi_barrier);
	TAKE(Reduce_scatter_block, fan_mpi_reduce_scatter_block);
	TAKE(Allgather, fan_mpi_allgather);
	TAKE(Iallreduce, fan_mpi_iallreduce);
#if MPI_VERSION >= 4
	TAKE(Allreduce_c, fan_mpi_allreduce_c);
	TAKE(Reduce_c, fan_mpi_reduce_c);
	TAKE(Bcast_c, fan_mpi_bcast_c);
	TAKE(Reduce_scatter_block_c, fan_mpi_reduce_scatter_block_c);
	TAKE(Allgather_c, fan_mpi_allgather_c);
	TAKE(Iallreduce_c, fan_mpi_iallreduce_c);
#endif
	TAKE(Wait, fan_mpi_wait);
	TAKE(Waitall, fan_mpi_waitall);
	TAKE(Waitany, fan_mpi_waitany);
	TAKE(Waitsome, fan_mpi_waitsome);
	TAKE(Test, fan_mpi_test);
	TAKE(Testall, fan_mpi_testall);
	TAKE(Testany, fan_mpi_testany);
	TAKE(Testsome, fan_mpi_testsome);
	TAKE(Request_get_status, fan_mpi_request_get_status);
	take_fortran(constants, mine);
}
