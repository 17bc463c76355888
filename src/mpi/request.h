/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - operations of fanin as requests of MPI.
 *
 * An operation that a program starts and waits for later is a generalized request, which MPI
 * accepts wherever it takes a request.  MPI learns that it has ended when the program asks, in the
 * program's thread, so it needs no higher thread level. */
#ifndef FAN_MPI_REQUEST_H
#define FAN_MPI_REQUEST_H

#include <mpi.h>
#include <stdbool.h>

#include "calls.h"

struct fan_mpi_group;

/* Report all operations that have ended to MPI.  True: one of `requests` is fanin's and in
 * progress. */
bool fan_mpi_requests_pending(int count, const MPI_Request *requests);

/* Between two polls, of which this is number ++*looks: MPI makes progress, and others get the
 * core. */
void fan_mpi_requests_pause(int *looks);

/* Wait until all operations of `g` have ended; none uses its job afterwards. */
void fan_mpi_requests_wait(struct fan_mpi_group *g);

int fan_mpi_iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
		       MPI_Comm comm, MPI_Request *request);

/* Store the functions that take the calls of requests in `mine`. */
void fan_mpi_requests_take(fan_mpi_function *mine);

#endif
