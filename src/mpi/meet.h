/* SPDX-License-Identifier: Apache-2.0 */
/* meet.h - where the ranks of a communicator meet; they exchange it through MPI. */
#ifndef FAN_MPI_MEET_H
#define FAN_MPI_MEET_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
