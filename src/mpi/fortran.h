/* SPDX-License-Identifier: Apache-2.0 */
/* fortran.h - Open MPI's Fortran functions, which do not call those of C.
 *
 * Handles are numbers, constants such as MPI_IN_PLACE are addresses of variables, and the last
 * argument receives the error code. */
#ifndef FAN_MPI_FORTRAN_H
#define FAN_MPI_FORTRAN_H

#include <mpi.h>

#include "calls.h"

/* Before the program's first call of one of the others. */
void fan_mpi_fortran_init(const struct fan_mpi_constants *constants);

void fan_mpi_f_init(MPI_Fint *e);
void fan_mpi_f_init_thread(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *e);
void fan_mpi_f_finalize(MPI_Fint *e);
void fan_mpi_f_comm_free(MPI_Fint *comm, MPI_Fint *e);
void fan_mpi_f_allreduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
			 const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *e);
void fan_mpi_f_reduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
		      const MPI_Fint *op, const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *e);
void fan_mpi_f_bcast(void *buffer, const MPI_Fint *count, const MPI_Fint *type,
		     const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *e);
void fan_mpi_f_barrier(const MPI_Fint *comm, MPI_Fint *e);
void fan_mpi_f_reduce_scatter_block(void *in, void *out, const MPI_Fint *count,
				    const MPI_Fint *type, const MPI_Fint *op, const MPI_Fint *comm,
				    MPI_Fint *e);
void fan_mpi_f_allgather(void *in, const MPI_Fint *in_count, const MPI_Fint *in_type, void *out,
			 const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *comm,
			 MPI_Fint *e);
void fan_mpi_f_iallreduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
			  const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *request, MPI_Fint *e);

/* Open MPI itself writes Fortran LOGICALs and statuses. */
void fan_mpi_f_wait(MPI_Fint *request, MPI_Fint *status, MPI_Fint *e);
void fan_mpi_f_waitall(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *e);
void fan_mpi_f_waitany(MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status,
		       MPI_Fint *e);
void fan_mpi_f_waitsome(MPI_Fint *count, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *indices,
			MPI_Fint *statuses, MPI_Fint *e);

/* Tests, whose arguments are addresses: those of the module mpi_f08 as well. */
void fan_mpi_f_test(void *request, void *flag, void *status, void *e);
void fan_mpi_f08_test(void *request, void *flag, void *status, void *e);
void fan_mpi_f_testall(void *count, void *requests, void *flag, void *statuses, void *e);
void fan_mpi_f08_testall(void *count, void *requests, void *flag, void *statuses, void *e);
void fan_mpi_f_testany(void *count, void *list, void *index, void *flag, void *status, void *e);
void fan_mpi_f08_testany(void *count, void *list, void *index, void *flag, void *status, void *e);
void fan_mpi_f_testsome(void *count, void *list, void *done, void *at, void *statuses, void *e);
void fan_mpi_f08_testsome(void *count, void *list, void *done, void *at, void *statuses, void *e);
void fan_mpi_f_request_get_status(void *request, void *flag, void *status, void *e);
void fan_mpi_f08_request_get_status(void *request, void *flag, void *status, void *e);

#endif
