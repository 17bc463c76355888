/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - what the ranks of MPI_COMM_WORLD have agreed on in MPI_Init: whether and how fanin is
 * used.  Also the means by which MPI makes progress while fanin waits. */
#ifndef FAN_MPI_WORLD_H
#define FAN_MPI_WORLD_H

#include <mpi.h>
#include <stdbool.h>

enum fan_mpi_use {
	FAN_USE_LEARN,	/* the faster one for each call */
	FAN_USE_ALWAYS, /* fanin for every call that it supports */
	FAN_USE_NEVER	/* the MPI for every call; calls are counted */
};

struct fan_mpi_world {
	bool on;	      /* between MPI_Init and MPI_Finalize, if all ranks agree */
	enum fan_mpi_use use; /* equal on all ranks */
	int rank, ranks;
	MPI_Group group; /* of MPI_COMM_WORLD */
};

extern struct fan_mpi_world fan_mpi_world;

/* One line on standard error, once in this process. */
void fan_mpi_log(const char *what, const char *why);

/* Let MPI make progress; as the `idle` of a rank. */
void fan_mpi_progress(void *unused);

int fan_mpi_init(int *argc, char ***argv);
int fan_mpi_init_thread(int *argc, char ***argv, int required, int *provided);
int fan_mpi_finalize(void);

#endif
