/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "collective.h"
#include "group.h"
#include "request.h"
#include "world.h"

/* Open MPI's own function, of the type of the one that takes its calls. */
#define NEXT(name)     ((__typeof__(&f_##name))fan_mpi_next[FAN_MPI_##name])
#define NEXT_F08(name) ((__typeof__(&f08_##name))fan_mpi_next[FAN_MPI_F08_##name])

static const struct fan_mpi_constants *known;

/* A buffer as C knows it. */
static void *buffer_of(void *given)
{
	for (unsigned i = 0; i < FAN_MPI_CONSTANTS && known->in_place[i] && given; i++)
		if (given == known->in_place[i] || given == known->bottom[i])
			return given == known->bottom[i] ? MPI_BOTTOM : MPI_IN_PLACE;
	return given;
}

/* `e` may be left out in mpi_f08. */
static void end(MPI_Fint *e, int code)
{
	if (e)
		*e = (MPI_Fint)code;
}

static void f_init(MPI_Fint *e)
{
	int count = 0;
	char **words = NULL;
	end(e, fan_mpi_init(&count, &words));
}

static void f_init_thread(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *e)
{
	int count = 0, got = 0;
	char **words = NULL;
	end(e, fan_mpi_init_thread(&count, &words, (int)*required, &got));
	*provided = (MPI_Fint)got;
}

static void f_finalize(MPI_Fint *e)
{
	end(e, fan_mpi_finalize());
}

static void f_comm_free(MPI_Fint *comm, MPI_Fint *e)
{
	MPI_Comm c = PMPI_Comm_f2c(*comm);
	end(e, fan_mpi_comm_free(&c));
	*comm = PMPI_Comm_c2f(c);
}

static void f_allreduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
			const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_allreduce(buffer_of(in), buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
				 PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

static void f_reduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
		     const MPI_Fint *op, const MPI_Fint *root, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_reduce(buffer_of(in), buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
			      PMPI_Op_f2c(*op), (int)*root, PMPI_Comm_f2c(*comm)));
}

static void f_bcast(void *buffer, const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *root,
		    const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_bcast(buffer_of(buffer), (int)*count, PMPI_Type_f2c(*type), (int)*root,
			     PMPI_Comm_f2c(*comm)));
}

static void f_barrier(const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_barrier(PMPI_Comm_f2c(*comm)));
}

static void f_reduce_scatter_block(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
				   const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *e)
{
	end(e, fan_mpi_reduce_scatter_block(buffer_of(in), buffer_of(out), (int)*count,
					    PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
					    PMPI_Comm_f2c(*comm)));
}

static void f_allgather(void *in, const MPI_Fint *in_count, const MPI_Fint *in_type, void *out,
			const MPI_Fint *count, const MPI_Fint *type, const MPI_Fint *comm,
			MPI_Fint *e)
{
	end(e, fan_mpi_allgather(buffer_of(in), (int)*in_count, PMPI_Type_f2c(*in_type),
				 buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
				 PMPI_Comm_f2c(*comm)));
}

/* Requests: report to MPI what has ended; its own function does the rest. */

static void f_iallreduce(void *in, void *out, const MPI_Fint *count, const MPI_Fint *type,
			 const MPI_Fint *op, const MPI_Fint *comm, MPI_Fint *request, MPI_Fint *e)
{
	MPI_Request r;
	int code =
		fan_mpi_iallreduce(buffer_of(in), buffer_of(out), (int)*count, PMPI_Type_f2c(*type),
				   PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm), &r);
	if (!code)
		*request = PMPI_Request_c2f(r);
	end(e, code);
}

static bool pending(MPI_Fint count, const MPI_Fint *requests)
{
	bool any = false;
	for (MPI_Fint i = 0; i < count && !any; i++) {
		MPI_Request r = PMPI_Request_f2c(requests[i]);
		any = fan_mpi_requests_pending(1, &r);
	}
	return any;
}

/* A test reports to MPI first; all arguments are addresses. */
#define DEFINE_AS(symbol, next, parameters, arguments)                                             \
	static void symbol parameters                                                              \
	{                                                                                          \
		fan_mpi_requests_pending(0, NULL);                                                 \
		next arguments;                                                                    \
	}
#define DEFINE_TEST(name, parameters, arguments)                                                   \
	DEFINE_AS(f_##name, NEXT(name), parameters, arguments)                                     \
	DEFINE_AS(f08_##name, NEXT_F08(name), parameters, arguments)

DEFINE_TEST(test, (void *request, void *flag, void *status, void *e), (request, flag, status, e))
DEFINE_TEST(testall, (void *count, void *requests, void *flag, void *statuses, void *e),
	    (count, requests, flag, statuses, e))
DEFINE_TEST(testany, (void *count, void *list, void *index, void *flag, void *status, void *e),
	    (count, list, index, flag, status, e))
DEFINE_TEST(testsome, (void *count, void *list, void *done, void *at, void *statuses, void *e),
	    (count, list, done, at, statuses, e))
DEFINE_TEST(request_get_status, (void *request, void *flag, void *status, void *e),
	    (request, flag, status, e))

static void f_wait(MPI_Fint *request, MPI_Fint *status, MPI_Fint *e)
{
	for (int looks = 0; pending(1, request);)
		fan_mpi_requests_pause(&looks);
	NEXT(wait)(request, status, e);
}

static void f_waitall(const MPI_Fint *count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *e)
{
	for (int looks = 0; pending(*count, requests);)
		fan_mpi_requests_pause(&looks);
	NEXT(waitall)(count, requests, statuses, e);
}

static void f_waitany(MPI_Fint *count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status,
		      MPI_Fint *e)
{
	MPI_Fint flag = 0, code = 0;
	for (int looks = 0; pending(*count, requests); fan_mpi_requests_pause(&looks)) {
		NEXT(testany)(count, requests, index, &flag, status, &code);
		if (!code && !flag)
			continue;
		end(e, code);
		return;
	}
	NEXT(waitany)(count, requests, index, status, e);
}

static void f_waitsome(MPI_Fint *count, MPI_Fint *requests, MPI_Fint *done, MPI_Fint *indices,
		       MPI_Fint *statuses, MPI_Fint *e)
{
	MPI_Fint code = 0;
	for (int looks = 0; pending(*count, requests); fan_mpi_requests_pause(&looks)) {
		NEXT(testsome)(count, requests, done, indices, statuses, &code);
		if (!code && !*done)
			continue;
		end(e, code);
		return;
	}
	NEXT(waitsome)(count, requests, done, indices, statuses, e);
}

#define TAKE_F(name, arguments)	  mine[FAN_MPI_##name] = (fan_mpi_function)f_##name;
#define TAKE_F08(name, arguments) mine[FAN_MPI_F08_##name] = (fan_mpi_function)f08_##name;

void fan_mpi_fortran_take(const struct fan_mpi_constants *constants, fan_mpi_function *mine)
{
	known = constants;
	FAN_MPI_EACH_FORTRAN(TAKE_F)
	FAN_MPI_EACH_F08(TAKE_F08)
}
