/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - an MPI communicator and its job at fanin.
 *
 * MPI keeps a group as an attribute of the communicator.  Its job is joined in a blocking
 * collective call, in which all ranks of the communicator take part, once enough has been sent. */
#ifndef FAN_MPI_GROUP_H
#define FAN_MPI_GROUP_H

#include <fanin.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "background.h"
#include "join.h"
#include "learner.h"
#include "pass.h"
#include "report.h"

#define FAN_MPI_JOBS_MAX    8	      /* of one process at a time */
#define FAN_MPI_LEAST_BYTES 8	      /* smaller calls are the MPI's */
#define FAN_MPI_JOIN_CALLS  32	      /* of FAN_MPI_LEAST_BYTES or more, or... */
#define FAN_MPI_JOIN_BYTES  (1 << 20) /* ...so many bytes, before a job is joined */

struct fan_mpi_group {
	_Atomic(MPI_Comm) comm; /* MPI_COMM_NULL: it has gone, and this memory waits for another */
	int rank, ranks;
	enum fan_mpi_why off; /* why no call is taken; FAN_WHY_TAKEN: some may be.  The same on all
			       * ranks of the communicator */
	bool kept;	 /* until MPI_Finalize, for persistent requests outlive communicators */
	unsigned calls;	 /* that could be taken, and... */
	uint64_t bytes;	 /* ...their bytes, before the join */
	fanin_comm *job; /* NULL: not joined */
	int error;	 /* MPI's code for the job's failure; 0: none yet */
	struct fan_learner *learner;
	struct fan_mpi_background *background;
	struct fan_mpi_pass passes[FAN_LEARNER_KINDS];
	struct fan_mpi_group *next;
};

/* False: this MPI refuses what is needed. */
bool fan_mpi_groups_init(void);

/* Leave all jobs. */
void fan_mpi_groups_end(void);

/* The last group that was looked for; NULL: none.  Its `comm` may have changed since. */
extern _Atomic(struct fan_mpi_group *) fan_mpi_group_last;

/* The group of `comm`; NULL: there is none, or it is no communicator. */
struct fan_mpi_group *fan_mpi_group_of(MPI_Comm comm);

/* Collective: join a job if enough has been sent and nothing speaks against it. */
void fan_mpi_group_join(struct fan_mpi_group *g);

/* Calls or bytes enough to join a job. */
bool fan_mpi_group_has_enough(const struct fan_mpi_group *g);

/* True: this process can have one more job, for `g`, and has memory for what is learnt.  In either
 * case fan_mpi_group_take, _release or _refuse comes next. */
bool fan_mpi_group_reserve(struct fan_mpi_group *g);
void fan_mpi_group_take(struct fan_mpi_group *g, fanin_comm *job);
void fan_mpi_group_release(struct fan_mpi_group *g);
void fan_mpi_group_refuse(struct fan_mpi_group *g, struct fan_mpi_join *failed);

/* MPI's code of fanin's result `e`; an error goes to the communicator's handler first. */
int fan_mpi_group_result(struct fan_mpi_group *g, int e);

int fan_mpi_comm_free(MPI_Comm *comm);
int fan_mpi_comm_disconnect(MPI_Comm *comm);

#endif
