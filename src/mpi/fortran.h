/* SPDX-License-Identifier: Apache-2.0 */
/* fortran.h - Open MPI's Fortran functions, which do not call those of C.
 *
 * Handles are numbers there, and constants such as MPI_IN_PLACE are addresses of variables.  What
 * comes of a call is in its last argument. */
#ifndef FAN_MPI_FORTRAN_H
#define FAN_MPI_FORTRAN_H

#include <mpi.h>

/* Before the program's first call of one of the others. */
void fan_mpi_fortran_init(void);

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

#endif
