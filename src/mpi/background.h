/* SPDX-License-Identifier: Apache-2.0 */
/* background.h - joining a job in the background of a program that only starts all-reduces and
 * waits for them later: it has no call in which its ranks may wait for each other.
 *
 * The calls of a communicator are numbered, alike on all ranks.  Two of them also start a
 * non-blocking operation of the MPI: the first carries rank 0's offer, the second the answers of
 * all ranks.  A thread, which never calls MPI, then joins the job, times fanin with memory of its
 * own in the sizes that the program has sent, and agrees with the other ranks' threads, through
 * fanin, on the number from which calls go to fanin and on the sizes that are faster there.  A call
 * that may be beyond that number waits for the threads only: no rank ever waits for another rank's
 * program. */
#ifndef FAN_MPI_BACKGROUND_H
#define FAN_MPI_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>

/* The rules, which test/mpi/started.c runs; no figure sets them. */

/* Calls from the offer to the answers, and from the agreement to the change. */
#define FAN_BACKGROUND_ANSWER 16
#define FAN_BACKGROUND_LEAD   16
/* Calls of a class that are timed with the MPI, and with fanin, where the first does not count. */
#define FAN_BACKGROUND_SAMPLES 6
#define FAN_BACKGROUND_TIMES   4
/* Of memory for the timed calls. */
#define FAN_BACKGROUND_BYTES (16 << 20)

struct fan_mpi_group;
struct fan_mpi_background;

/* NULL: no memory. */
struct fan_mpi_background *fan_mpi_background_new(void);
void fan_mpi_background_free(struct fan_mpi_background *b);

/* A call on `g`, which has no job yet, starts an operation of `bytes` bytes that fanin knows.
 * g->job is set if this call may go to fanin.  True: it goes to the MPI, and the caller times it
 * and calls fan_mpi_background_time. */
bool fan_mpi_background_call(struct fan_mpi_group *g, size_t bytes);

/* True: `b` has no operation of the MPI, no thread and no agreement in progress. */
bool fan_mpi_background_is_idle(const struct fan_mpi_background *b);

/* Such a call took `time_s` on this rank, the program's own work in between included. */
void fan_mpi_background_time(struct fan_mpi_group *g, size_t bytes, double time_s);

#define FAN_BACKGROUND_STAGES 3

/* Collective, in a call that may wait: finish what has begun.  False: nothing had begun.  Ranks may
 * hold several groups in different orders; then all groups finish one stage before the next. */
bool fan_mpi_background_finish(struct fan_mpi_group *g);
void fan_mpi_background_finish_stage(struct fan_mpi_group *g, unsigned stage);

#endif
