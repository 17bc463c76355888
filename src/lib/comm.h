/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h - a communicator: one rank of one job, with a thread that makes progress.
 *
 * Who touches what:
 *  - the connections, and so the core, belong to the progress thread alone (progress.c);
 *  - callers hand it operations through `queued`, under the lock, and wait on the
 *    operation's own condition.  Nobody holds a lock while the core runs or the kernel
 *    sends, so a caller never waits for a transfer in order to start one.
 *  - how it stands (ready, error, statistics) is published under the lock.
 *
 * Memory beyond the caller's tensors: 64 KiB to receive into, at most 256 KiB + 11 KiB
 * of datagrams to send (connection.h), the core's window (fan_worker_bytes: under 600 KiB for
 * the largest), this struct, and about 250 bytes for each operation started.  All of it
 * stays below a window of packets + 1 MiB.  Where ranks run ahead of each other, a connection has
 * 132 bytes for each fragment of run-ahead, and 1.15 payloads for each sum that it may keep. */
#ifndef FAN_LIB_COMM_H
#define FAN_LIB_COMM_H

#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "comm_client.h"
#include "config.h"
#include "connection.h"
#include "fault_text.h"
#include "op.h"
#include "own_switch.h"

#define FAN_COMM_OPS_MAX       4096		/* started and not ended */
#define FAN_COMM_EVENTS_MAX    16		/* sockets looked at per round */
#define FAN_COMM_WAKE	       UINT32_MAX	/* the number of `wake_fd` in epoll... */
#define FAN_COMM_CONTROLLER    (UINT32_MAX - 1) /* ...and of the controller's socket */
#define FAN_COMM_NOTE_FIRST_MS 2000		/* until who waits in create is told what for... */
#define FAN_COMM_NOTE_MS       5000		/* ...and from then on */
#define FAN_COMM_SWITCH_BYTES  (FAN_CONFIG_SWITCH_MAX + 32)
#define FAN_COMM_LINGER_MS     1000 /* beyond alive_ms, for ranks that are still at our switch */
#define FAN_COMM_LEAVE_NS      (2000 * FAN_MS) /* to say goodbye at the end, at most */

struct fanin_comm {
	struct fan_config cfg;			 /* constant once created */
	char switch_text[FAN_COMM_SWITCH_BYTES]; /* the switch as people should see it */
	bool meets;				 /* nobody named a switch: it is inside rank 0... */
	struct fan_own_switch *own;		 /* ...which is this one */
	unsigned forks;				 /* fan_forks() when created */
	bool threaded;				 /* the thread was started */
	pthread_t thread;
	int epoll_fd, wake_fd;

	pthread_mutex_t lock;	    /* for all up to the next blank line */
	pthread_cond_t changed;	    /* ready, error, or room for operations */
	struct fan_op_queue queued; /* handed over, not taken by the thread */
	bool awake;		    /* the thread will look at `queued` before it sleeps */
	bool ready;		    /* all ranks are here */
	bool closing;		    /* fanin_comm_destroy was called */
	unsigned room_waiters;	    /* callers that wait for room for an operation */
	char wait_text[FAN_FAULT_TEXT_BYTES]; /* what is waited for until `ready` */
	struct fanin_stats stats;

	atomic_int error; /* 0, or what ended it: then `sentence` is constant */
	char sentence[FAN_FAULT_TEXT_BYTES];
	atomic_uint ops_open; /* operations started and not ended */

	/* The thread's own. */
	struct fan_job_part part[FAN_PARTS_MAX]; /* with one switch: all of it, by route 0 */
	unsigned shards[FAN_PARTS_MAX];		 /* of the part's switches; 0: not told yet */
	struct fan_connection
		connection[FAN_SHARDS_MAX]; /* the first ones are the parts' first shards */
	unsigned connections;
	unsigned parts;	      /* 0: the controller has not told */
	fan_peer server_addr; /* none: there is none */
	fan_peer switch_addr; /* or the controller's */
	struct fan_comm_client client;
	uint64_t note_ns; /* when `wait_text` is written next */
	struct fan_connection_io *io;
	struct fan_op_queue waiting;	       /* taken, not started on every connection */
	struct fanin_op *running[FAN_OPS_MAX]; /* started on every connection, oldest first */
	unsigned running_count;
	bool progressed;		 /* a fragment or a start: operations may be done */
	uint64_t blamed[FAN_RANK_WORDS]; /* ranks that a connection has failed by: told on all
					    connections */
	bool leaving;			 /* the connections have been told to leave */
	bool heard; /* a fragment has finished since `quiet_ns` was looked at */
	uint64_t join_by_ns, leave_by_ns;
	uint64_t ops_done, bytes_done;
	uint64_t quiet_ns;  /* the last result, or when operations began after a time without any */
	uint64_t result_ns; /* the last result; 0: none */
	uint64_t gap_ns;    /* longest time without a result, while operations were under way */
};

/* Callers' side; errors as in fanin.h. */
int fan_comm_create(const struct fanin_options *options, struct fanin_comm **comm);
void fan_comm_destroy(struct fanin_comm *c);

/* Queue an operation.  `wait`: for room, instead of FAN_E_BUSY. */
int fan_comm_submit(struct fanin_comm *c, const struct fan_op_call *call, bool wait,
		    struct fanin_op **op);

/* The thread: runs until `closing` and all connections have left. */
void *fan_progress(void *comm);

/* The thread's: open the connection of shard 0 of each part, once those are known. */
void fan_comm_open_parts(struct fanin_comm *c, uint64_t now_ns);

/* The thread's: open connection `number` anew. */
void fan_comm_open_connection(struct fanin_comm *c, unsigned number, uint64_t now_ns);

/* Connections of part `k` that are open send at the rate that the part has now. */
void fan_comm_set_rate_limit(struct fanin_comm *c, unsigned k);

/* The thread's: end the communicator and all its operations. */
void fan_comm_fail(struct fanin_comm *c, int error, const char *sentence);

#endif
