/* SPDX-License-Identifier: Apache-2.0 */
/* background.h - a job that is joined beside a program that only starts all-reduces and waits for
 * them later, so that there is no call in which its ranks may wait for each other.
 *
 * Such calls of a communicator have numbers, the same on all ranks.  With two of them non-blocking
 * operations of the MPI go along: first rank 0's offer, then what all say to it.  A thread, which
 * never calls MPI, joins the job, times fanin with memory of its own in the sizes that the program
 * has sent, and agrees with the other ranks' threads, by fanin, from which number on calls go there
 * and which sizes are faster so.  A call that comes so early that it may be beyond that number
 * waits for the threads alone: no rank ever waits for another rank's program. */
#ifndef FAN_MPI_BACKGROUND_H
#define FAN_MPI_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>

#define FAN_BACKGROUND_ANSWER  16	  /* calls from the offer to the answers */
#define FAN_BACKGROUND_LEAD    16	  /* calls from the agreement to the change */
#define FAN_BACKGROUND_SAMPLES 6	  /* calls of a class that are timed by the MPI... */
#define FAN_BACKGROUND_TIMES   4	  /* ...and by fanin, the first of which does not count */
#define FAN_BACKGROUND_BYTES   (16 << 20) /* of memory for that */

struct fan_mpi_group;
struct fan_mpi_background;

/* NULL: no memory. */
struct fan_mpi_background *fan_mpi_background_new(void);
void fan_mpi_background_free(struct fan_mpi_background *b);

/* A call on `g`, which has no job yet, starts an operation of `bytes` bytes that fanin knows.
 * g->job is set if this call may go there.  True: it goes to the MPI and is to be timed with
 * fan_mpi_background_time. */
bool fan_mpi_background_call(struct fan_mpi_group *g, size_t bytes);

/* No operation of the MPI, no thread and no agreement of it is under way. */
bool fan_mpi_background_is_idle(const struct fan_mpi_background *b);

/* Such a call took so long on this rank, with what the program did meanwhile. */
void fan_mpi_background_time(struct fan_mpi_group *g, size_t bytes, double time_s);

#define FAN_BACKGROUND_STAGES 3

/* Collective, in a call that may wait: what has begun comes to its end.  False: there was nothing.
 * For several groups at a time, which ranks may have in different orders, all do one stage after
 * the other. */
bool fan_mpi_background_finish(struct fan_mpi_group *g);
void fan_mpi_background_finish_stage(struct fan_mpi_group *g, unsigned stage);

#endif
