/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - a rank that shares memory watches those of its host that it waits for, and tells who
 * asks for whom it waits. */
#ifndef FAN_LIB_HOST_WATCH_H
#define FAN_LIB_HOST_WATCH_H

#include "attach.h"
#include "lib/base/hosts.h"
#include "lib/rank/rank.h"
#include "liveness.h"
#include "segment.h"
#include "wait.h"

#define FAN_HOST_SENT_MAX (2 * FAN_HOST_DEPTH)

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

/* This rank waits for number `i`, which makes no progress: has it left, ended or fallen silent? */
void fan_host_suspect(struct fan_rank *r, unsigned i, uint64_t now_ns);

/* Somebody asks while no operation waits: has a rank of this host ended without leaving, for as
 * long as one may be silent? */
void fan_host_search(struct fan_rank *r, uint64_t now_ns);

/* Nothing has moved for timeout_ms: the missing are to blame. */
void fan_host_stall(struct fan_rank *r, const bool *missing);

/* With r->host->drive held: what the rank does, as `shown.snapshot`. */
void fan_host_take_snapshot(struct fan_rank *r, uint64_t now_ns);

#endif
