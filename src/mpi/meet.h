/* SPDX-License-Identifier: Apache-2.0 */
/* meet.h - the ranks of a communicator meet, and join a job. */
#ifndef FAN_MPI_MEET_H
#define FAN_MPI_MEET_H

#include <fanin.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- meet.c ---- */

/* Where the ranks of a communicator meet; they exchange it through MPI. */

#define FAN_MEET_ADDR_BYTES 32
#define FAN_MEET_JOB_BYTES  64

struct fan_mpi_meet {
	char job[FAN_MEET_JOB_BYTES];	/* a name of its own */
	char addr[FAN_MEET_ADDR_BYTES]; /* "10.0.0.1:40000" at rank 0; "": a switch is named */
	bool local;			/* all ranks are on its host */
};

/* Choose the meeting place.  Collective over `comm`, in which this process is `rank`.  False: some
 * rank is not `willing`, or no address of rank 0 is within reach of all; `why`, `bytes` bytes, says
 * which. */
bool fan_mpi_meet(struct fan_mpi_meet *meet, MPI_Comm comm, int rank, bool willing, char *why,
		  size_t bytes);

/* ---- join.c ---- */

/* Joins a job in a thread that never calls MPI.
 *
 * Another rank may still wait for messages of the last collective call, so the program's thread
 * keeps MPI in progress meanwhile. */

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

#endif
