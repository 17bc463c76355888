/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - the MPI functions that the preload takes, with the names of fanin's and the number of
 * their arguments.
 *
 * A function that an MPI lacks is never looked up in it. */
#ifndef FAN_MPI_CALLS_H
#define FAN_MPI_CALLS_H

/* Of MPI itself and of communicators; world.c and group.c take them. */
#define FAN_MPI_EACH_BEGINNING(X)                                                                  \
	X(Init, init, 2)                                                                           \
	X(Init_thread, init_thread, 4)                                                             \
	X(Finalize, finalize, 0)                                                                   \
	X(Comm_free, comm_free, 1)                                                                 \
	X(Comm_disconnect, comm_disconnect, 1)

#define FAN_MPI_EACH_COLLECTIVE(X)                                                                 \
	X(Allreduce, allreduce, 6)                                                                 \
	X(Reduce, reduce, 7)                                                                       \
	X(Bcast, bcast, 5)                                                                         \
	X(Barrier, barrier, 1)                                                                     \
	X(Reduce_scatter_block, reduce_scatter_block, 6)                                           \
	X(Allgather, allgather, 7)                                                                 \
	X(Allreduce_c, allreduce_c, 6)                                                             \
	X(Reduce_c, reduce_c, 7)                                                                   \
	X(Bcast_c, bcast_c, 5)                                                                     \
	X(Reduce_scatter_block_c, reduce_scatter_block_c, 6)                                       \
	X(Allgather_c, allgather_c, 7)

#define FAN_MPI_EACH_REQUEST(X)                                                                    \
	X(Iallreduce, iallreduce, 7)                                                               \
	X(Iallreduce_c, iallreduce_c, 7)                                                           \
	X(Wait, wait, 2)                                                                           \
	X(Waitall, waitall, 3)                                                                     \
	X(Waitany, waitany, 4)                                                                     \
	X(Waitsome, waitsome, 5)                                                                   \
	X(Test, test, 3)                                                                           \
	X(Testall, testall, 4)                                                                     \
	X(Testany, testany, 5)                                                                     \
	X(Testsome, testsome, 5)                                                                   \
	X(Request_get_status, request_get_status, 3)

#define FAN_MPI_EACH_CALL(X)                                                                       \
	FAN_MPI_EACH_BEGINNING(X)                                                                  \
	FAN_MPI_EACH_COLLECTIVE(X)                                                                 \
	FAN_MPI_EACH_REQUEST(X)

/* Functions of Fortran, all of whose arguments are addresses.  MPICH's call those of C, which are
 * taken already; Open MPI's do not. */
#define FAN_MPI_EACH_FORTRAN(X)                                                                    \
	X(init, 1)                                                                                 \
	X(init_thread, 3)                                                                          \
	X(finalize, 1)                                                                             \
	X(comm_free, 2)                                                                            \
	X(allreduce, 7)                                                                            \
	X(reduce, 8)                                                                               \
	X(bcast, 6)                                                                                \
	X(barrier, 2)                                                                              \
	X(reduce_scatter_block, 7)                                                                 \
	X(allgather, 8)                                                                            \
	X(iallreduce, 8)                                                                           \
	X(wait, 3)                                                                                 \
	X(waitall, 4)                                                                              \
	X(waitany, 5)                                                                              \
	X(waitsome, 6)                                                                             \
	X(test, 4)                                                                                 \
	X(testall, 5)                                                                              \
	X(testany, 6)                                                                              \
	X(testsome, 6)                                                                             \
	X(request_get_status, 4)

/* Functions of Open MPI's module mpi_f08 that call none of those above. */
#define FAN_MPI_EACH_F08(X)                                                                        \
	X(test, 4)                                                                                 \
	X(testall, 5)                                                                              \
	X(testany, 6)                                                                              \
	X(testsome, 6)                                                                             \
	X(request_get_status, 4)

#define FAN_MPI_CALL_NUMBER(name, ...)	    FAN_MPI_##name,
#define FAN_MPI_F08_NUMBER(name, arguments) FAN_MPI_F08_##name,
enum fan_mpi_call {
	FAN_MPI_EACH_CALL(FAN_MPI_CALL_NUMBER) FAN_MPI_EACH_FORTRAN(FAN_MPI_CALL_NUMBER)
		FAN_MPI_EACH_F08(FAN_MPI_F08_NUMBER) FAN_MPI_CALLS
};

typedef void (*fan_mpi_function)(void);

/* The addresses of Open MPI's MPI_IN_PLACE and MPI_BOTTOM of Fortran, up to a NULL: each object of
 * the process may have variables of its own for them. */
#define FAN_MPI_CONSTANTS 256
struct fan_mpi_constants {
	void *bottom[FAN_MPI_CONSTANTS];
	void *_Atomic in_place[FAN_MPI_CONSTANTS]; /* each is stored after its `bottom` */
};

/* The one symbol that the library for an MPI exports.  Keeps `next`, the
 * functions that calls are passed on to, and `constants`, and fills in `mine`, the functions that
 * take the calls.  The functions have FAN_MPI_CALLS entries, NULL where this MPI lacks the
 * function; those of Fortran and the constants are filled in before the first call of one in
 * `mine`. */
#define FAN_MPI_ATTACH_NAME "fan_mpi_attach"
typedef void fan_mpi_attach_function(const fan_mpi_function *next,
				     const struct fan_mpi_constants *constants,
				     fan_mpi_function *mine);

/* ---- in the library for an MPI ---- */

/* The functions that receive passed-on calls: the ones that the program would call without fanin;
 * FAN_MPI_CALLS of them. */
extern const fan_mpi_function *fan_mpi_next;

/* MPI_`name`, as a function to be called.  It has the type of the function that takes its calls,
 * since headers of older MPIs lack some. */
#define FAN_NEXT(name, mine) ((__typeof__(&fan_mpi_##mine))fan_mpi_next[FAN_MPI_##name])

/* Store fan_mpi_`function` in the table `mine`; for the lists above. */
#define FAN_TAKE(name, function, arguments)                                                        \
	mine[FAN_MPI_##name] = (fan_mpi_function)fan_mpi_##function;

#endif
