/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - operations of fanin as requests of MPI.
 *
 * An operation that a program starts and waits for later is a generalized request: MPI then has a
 * request of its own for it, which the program can use wherever MPI takes one.  MPI learns of its
 * end when the program asks, in its own thread, so no thread level is needed beyond the program's.
 */
#ifndef FAN_MPI_REQUEST_H
#define FAN_MPI_REQUEST_H

#include <mpi.h>
#include <stdbool.h>

#include "types.h"

struct fan_mpi_group;

/* An all-reduce that fanin can do; `count` of MPI's elements. */
struct fan_mpi_reduction {
	struct fan_mpi_sum sum;
	const void *in; /* or MPI_IN_PLACE */
	void *out;
	MPI_Count count;
};

/* Start it at the job of `g`.  `twin` MPI_COMM_NULL: *request gets a generalized request.
 * Otherwise *request is a receive from itself on `twin` with `tag`, which MPI has started: it gets
 * its message when the operation ends, one byte more than it expects if it failed. */
int fan_mpi_request_start(struct fan_mpi_group *g, const struct fan_mpi_reduction *r, MPI_Comm twin,
			  int tag, MPI_Request *request);

/* Tell MPI of all operations that have ended.  True: one of these requests is fanin's and under
 * way. */
bool fan_mpi_requests_pending(int count, const MPI_Request *requests);

/* Between two looks, of which this is number ++*looks: MPI makes progress, and others get the
 * core. */
void fan_mpi_requests_pause(int *looks);

/* Wait until all operations of `g` have ended, and leave none that uses its job. */
void fan_mpi_requests_wait(struct fan_mpi_group *g);

/* The communicator of `g` has gone. */
void fan_mpi_requests_forget(const struct fan_mpi_group *g);

int fan_mpi_iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
		       MPI_Comm comm, MPI_Request *request);
#if MPI_VERSION >= 4
int fan_mpi_iallreduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type, MPI_Op op,
			 MPI_Comm comm, MPI_Request *request);
#endif

int fan_mpi_wait(MPI_Request *request, MPI_Status *status);
int fan_mpi_waitall(int count, MPI_Request *requests, MPI_Status *statuses);
int fan_mpi_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status);
int fan_mpi_waitsome(int count, MPI_Request *requests, int *done, int *indices,
		     MPI_Status *statuses);
int fan_mpi_test(MPI_Request *request, int *flag, MPI_Status *status);
int fan_mpi_testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses);
int fan_mpi_testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status);
int fan_mpi_testsome(int count, MPI_Request *requests, int *done, int *indices,
		     MPI_Status *statuses);
int fan_mpi_request_get_status(MPI_Request request, int *flag, MPI_Status *status);

#endif
