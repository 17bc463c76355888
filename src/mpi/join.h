/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - the joining of a job, in a thread that never calls MPI.
 *
 * Another rank may still wait for messages of the last collective call, so MPI must make progress
 * meanwhile, in the program's thread. */
#ifndef FAN_MPI_JOIN_H
#define FAN_MPI_JOIN_H

#include <fanin.h>

#include "meet.h"

#define FAN_MPI_JOIN_MS	 10000	  /* a join without progress fails after it */
#define FAN_MPI_WAIT_MS	 86400000 /* an operation does: MPI knows no such limit */
#define FAN_MPI_ALIVE_MS 60000	  /* of silence until a rank is lost */

struct fan_mpi_join {
	struct fan_mpi_meet meet;
	int rank, ranks;
	fanin_comm *job; /* also of a join that failed, for its error; to be destroyed */
	int result;	 /* FANIN_OK: `job` is joined */
};

/* After fan_mpi_meet: blocks until it has joined or failed. */
void fan_mpi_join(struct fan_mpi_join *j);

/* Why it has failed. */
const char *fan_mpi_join_error(const struct fan_mpi_join *j);

#endif
