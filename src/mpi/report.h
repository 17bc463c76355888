/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - how many calls and bytes of this process went to fanin and to the MPI, and why. */
#ifndef FAN_MPI_REPORT_H
#define FAN_MPI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a call went to the MPI; FAN_WHY_TAKEN: it went to fanin. */
enum fan_mpi_why {
	FAN_WHY_TAKEN,
	FAN_WHY_FASTER, /* the MPI is faster at this size */
	FAN_WHY_TRIAL,	/* to compare */
	FAN_WHY_SMALL,
	FAN_WHY_KIND,  /* fanin has no such type or operation, or buffers overlap */
	FAN_WHY_COMM,  /* of the communicator: one rank, two groups, too many ranks, other jobs' */
	FAN_WHY_EARLY, /* the communicator has not sent enough yet */
	FAN_WHY_OFF,   /* fanin is switched off, or could not start */
	FAN_WHYS
};

/* True: calls are counted. */
extern bool fan_mpi_report_on;

/* `calls` more, of `bytes` bytes together. */
void fan_mpi_report_add(enum fan_mpi_why why, uint64_t calls, uint64_t bytes);

/* One line on standard error. */
void fan_mpi_report_print(int rank);

#endif
