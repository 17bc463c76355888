/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - joins a job in a thread that never calls MPI.
 *
 * Another rank may still wait for messages of the last collective call, so the program's thread
 * keeps MPI in progress meanwhile. */
#ifndef FAN_MPI_JOIN_H
#define FAN_MPI_JOIN_H

#include <fanin.h>

#include "meet.h"

#define FAN_MPI_JOIN_MS	 10000	  /* until a join without progress fails */
#define FAN_MPI_WAIT_MS	 86400000 /* until an operation does: MPI has no such limit */
#define FAN_MPI_ALIVE_MS 60000	  /* of silence until a rank counts as lost */

struct fan_mpi_join {
	struct fan_mpi_meet meet;
	int rank, ranks;
	fanin_comm *job; /* set by a failed join as well, for its error; the caller destroys it */
	int result;	 /* FANIN_OK: `job` is joined */
};

/* Blocks until the job is joined or the join has failed.  Call it after fan_mpi_meet. */
void fan_mpi_join(struct fan_mpi_join *j);

/* Why the join has failed. */
const char *fan_mpi_join_error(const struct fan_mpi_join *j);

#endif
