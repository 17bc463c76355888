/* SPDX-License-Identifier: Apache-2.0 */
#include "fortran.h"

#include <dlfcn.h>
#include <stddef.h>

#include "blocking.h"
#include "group.h"
#include "world.h"

static const void *in_place, *bottom; /* the variables' addresses; NULL: no Fortran is here */

void fan_mpi_fortran_init(void)
{
	in_place = dlsym(RTLD_DEFAULT, "mpi_fortran_in_place_");
	bottom = dlsym(RTLD_DEFAULT, "mpi_fortran_bottom_");
}

/* A buffer as C knows it. */
static void *buffer_of(void *given)
{
	if (given && given == in_place)
		return MPI_IN_PLACE;
	return given && given == bottom ? MPI_BOTTOM : given;
}

/* `e` may be left out in mpi_f08. */
static void end(MPI_Fint *e, int code)
{
	if (e)
		*e = (MPI_Fint)code;
}

void fan_mpi_f_init(MPI_Fint *e)
{
	int count = 0;
	char **words = NULL;
	end(e, fan_mpi_init(&count, &words));
}

void fan_mpi_f_init_thread(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *e)
{
	int count = 0, got = 0;
	char **words = NULL;
	end(e, fan_mpi_init_thread(&count, &words, (int)*required, &got));
	*provided = (MPI_Fint)got;
}

void fan_mpi_f_finalize(MPI_Fint *e)
{
	end(e, fan_mpi_finalize());
}

void fan_mpi_f_comm_free(MPI_Fint *comm, MPI_Fint *e)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);
	end(e, fan_mpi_comm_free(&c));
	*comm = PMPI_Comm_c2f(c);
}

void fan_mpi_f_allreduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
			 const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_allreduce(buffer_of(in), buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
				 PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

void fan_mpi_f_reduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
		      const MPI_Fint *op, const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_reduce(buffer_of(in), buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
			      PMPI_Op_f2c(*op), (int)*root, PMPI_Comm_f2c(*comm)));
}

void fan_mpi_f_bcast(void *buffer, const MPI_Fint *count, const MPI_Fint *type,
		     const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_bcast(buffer_of(buffer), (int)*count, PMPI_Type_f2c(*type), (int)*root,
			     PMPI_Comm_f2c(*comm)));
}

void fan_mpi_f_barrier(const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_barrier(PMPI_Comm_f2c(*comm)));
}
