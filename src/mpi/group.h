/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - an MPI communicator and its job at fanin.
 *
 * MPI keeps a group as an attribute of the communicator.  Once enough has been sent, all ranks join
 * its job in a blocking collective call. */
#ifndef FAN_MPI_GROUP_H
#define FAN_MPI_GROUP_H

#include <fanin.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "learner.h"
#include "pass.h"
#include "report.h"

#define FAN_MPI_JOBS_MAX    8	      /* of one process at a time */
#define FAN_MPI_LEAST_BYTES 8	      /* smaller calls go to the MPI, whatever is asked for */
#define FAN_MPI_JOIN_CALLS  32	      /* calls that may go to fanin before a job is joined */
#define FAN_MPI_JOIN_BYTES  (1 << 20) /* bytes before a job is joined; either is enough */

struct fan_mpi_group {
	_Atomic(MPI_Comm)
		comm; /* MPI_COMM_NULL: it has ended, and this memory is free for another */
	int rank, ranks;
	/* why no call is taken; FAN_WHY_TAKEN: some may be.  Equal on all of its ranks */
	enum fan_mpi_why off;
	unsigned calls;	 /* calls before the join that fanin could take */
	uint64_t bytes;	 /* bytes of these calls */
	fanin_comm *job; /* NULL: not joined */
	int error;	 /* MPI's code for the job's failure; 0: none yet */
	struct fan_learner *learner;
	struct fan_mpi_pass passes[FAN_LEARNER_KINDS];
	struct fan_mpi_group *next;
};

/* False: this MPI refuses the attribute that groups need. */
bool fan_mpi_groups_init(void);

/* Leave all jobs. */
void fan_mpi_groups_end(void);

/* The group of the last look-up; NULL: none.  Its `comm` may have changed since. */
extern _Atomic(struct fan_mpi_group *) fan_mpi_group_last;

/* The group of `comm`; NULL: `comm` has none, or is no communicator. */
struct fan_mpi_group *fan_mpi_group_of(MPI_Comm comm);

/* Collective: join a job if enough has been sent and no rank objects. */
void fan_mpi_group_join(struct fan_mpi_group *g);

/* Have enough calls or bytes been seen to join a job? */
bool fan_mpi_group_has_enough(const struct fan_mpi_group *g);

/* MPI's code for fanin's result `e`; the communicator's error handler sees an error first. */
int fan_mpi_group_result(struct fan_mpi_group *g, int e);

int fan_mpi_comm_free(MPI_Comm *comm);
int fan_mpi_comm_disconnect(MPI_Comm *comm);

#endif
