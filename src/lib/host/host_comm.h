/* SPDX-License-Identifier: Apache-2.0 */
/* host_comm.h - a communicator whose ranks share memory with the others of their host (segment.h).
 *
 * With several hosts, number i of each host sums share i of each chunk, and adds the other hosts'
 * over a communicator of its own: column i, a job with a rank for each host.  So what leaves a
 * host is one tensor, not one for each rank.
 *
 * The caller of a blocking operation does a rank's work, since it is on a core already, otherwise a
 * thread of the communicator does.  One at a time: `drive`. */
#ifndef FAN_LIB_HOST_HOST_COMM_H
#define FAN_LIB_HOST_HOST_COMM_H

#include "attach.h"
#include "lib/base/rendezvous.h"
#include "lib/rank/rank.h"

#define FAN_HOST_LOOK_MS  50 /* between looks at ranks that are waited for */
#define FAN_HOST_SENT_MAX (2 * FAN_HOST_DEPTH)

/* The last sign of life of a rank, as another one has seen it; all zero at first. */
struct fan_host_last_word {
	uint64_t beats; /* as in the segment */
	/* When that was seen first, by the other one's clock, less the time that it slept since; 0:
	 * not all have been given the memory. */
	uint64_t at_ns;
};

struct fan_host_comm {
	pthread_mutex_t drive; /* for all but the segment */
	struct fan_host_board board;
	struct fan_host_memory memory;
	struct fan_host_segment *s;		  /* there */
	struct fan_rank *net;			  /* to the other hosts; NULL: none */
	struct fanin_op *sent[FAN_HOST_SENT_MAX]; /* started there, oldest first; a ring */
	uint64_t sent_first, sent_next;
	uint16_t host_of[FAN_RANKS_MAX], number_of[FAN_RANKS_MAX]; /* by rank of the job */
	uint16_t first[FAN_MEETING_HOSTS_MAX];			   /* rank of each host */
	uint16_t owner[FAN_MEETING_HOSTS_MAX]; /* of this column, by host: rank of the job */
	uint16_t rank_at[FAN_MEETING_HOSTS_MAX][FAN_HOST_RANKS_MAX]; /* by host and number */
	struct fanin_op *running[FAN_HOST_OPS_MAX];
	uint64_t ended;		  /* operations */
	uint64_t moved, moved_ns; /* sum of the cursors, and when it was so first */
	uint64_t looked_ns;	  /* time of the last look */
	uint64_t searched_ns; /* time of the last search for ranks that have ended, by who asks */
	uint64_t found_ns;    /* time of the first one that has found some; 0: none has */
	struct fan_host_last_word heard[FAN_HOST_RANKS_MAX];
	struct fan_host_wait wait;
	bool asked; /* a snapshot is to be taken, as take_queue has seen */
};

/* Share memory with the ranks of this host, and join this rank's column.  `r` becomes a rank of
 * that kind.  `together`: all ranks of the host get the segment, or none.  Blocks.  FAN_OK; or an
 * error, with which the rank has failed. */
int fan_host_comm_open(struct fan_rank *r, const struct fan_meeting *m, bool together);

/* Fail this host, and pass the cause to its other columns.  Returns the error for callers,
 * and in `blamed`, where it is given, the ranks that have gone. */
int fan_host_net_failed(struct fan_host_comm *l, int error, uint64_t *blamed);

/* ---- watch.c: a rank watches those of its host that it waits for ---- */

/* With operations in progress: ask the ranks that this one waits for whether they live. */
void fan_host_watch(struct fan_rank *r, uint64_t now_ns);

/* Somebody asks while no operation waits: has a rank of this host ended without leaving, for as
 * long as one may be silent? */
void fan_host_search(struct fan_rank *r, uint64_t now_ns);

/* This rank leaves.  With operations in progress, end the segment with RANK_LEFT, as LEAVE with
 * that error ends a job: the others may wait elsewhere, and not for this rank's memory. */
void fan_host_abandon(const struct fan_rank *r);

/* With r->host->drive held: what the rank does, as `shown.snapshot`. */
void fan_host_take_snapshot(struct fan_rank *r, uint64_t now_ns);

#endif
