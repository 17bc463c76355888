/* SPDX-License-Identifier: Apache-2.0 */
/* comm.h - a communicator: one rank of one job, with a progress thread.
 *
 * Threads:
 *  - only the progress thread (loop.c) uses the connections, and so the core;
 *  - callers queue operations in `queued`, under the lock, and wait on the operation's
 *    own condition.  No lock is held while the core runs or the kernel sends, so the
 *    start of an operation never waits for a transfer;
 *  - state (ready, error, statistics) is published under the lock.
 *
 * Memory beyond the caller's tensors: 64 KiB to receive into, at most 256 KiB + 11 KiB
 * of datagrams to send (connection.h), the core's window (fan_worker_bytes: under 600 KiB for
 * the largest), this struct, and about 250 bytes for each operation started: in all less
 * than a window of packets + 1 MiB.  Where a job goes on without switches that die (regroup.h), a
 * connection keeps another window of packets.  With run-ahead, a connection has 132 bytes for each
 * fragment of it, and 1.15 payloads for each sum of its helper cache. */
#ifndef FAN_LIB_COMM_COMM_H
#define FAN_LIB_COMM_COMM_H

#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "embedded_switch.h"
#include "lib/base/config.h"
#include "lib/base/fault_text.h"
#include "lib/base/op.h"
#include "lib/host/host_comm.h"
#include "lib/link/connection.h"
#include "lib/rank/plan_client.h"
#include "lib/rank/regroup.h"
#include "lib/rank/share_meter.h"
#include "meeting.h"

#define FAN_COMM_OPS_MAX      4096	       /* started and not ended */
#define FAN_COMM_MIXED_MAX    32	       /* named switches and hosts that sum beside them */
#define FAN_COMM_EVENTS_MAX   16	       /* sockets handled per round */
#define FAN_COMM_WAKE	      UINT32_MAX       /* number of `wake_fd` in epoll */
#define FAN_COMM_CONTROLLER   (UINT32_MAX - 1) /* number of the controller's socket in epoll */
#define FAN_COMM_COMPANY_MS   2000	       /* a rank that cannot take part waits for more */
#define FAN_COMM_SWITCH_BYTES (FAN_CONFIG_SWITCHES_MAX + 1)
#define FAN_COMM_LINGER_MS    1000 /* beyond alive_ms, for other ranks at an embedded switch */
#define FAN_COMM_IDLE_MS      5	   /* between calls of `idle` while an operation is waited for */
#define FAN_COMM_LEAVE_NS     (2000 * FAN_MS) /* most time to leave */
#define FAN_COMM_GROUP_WINDOW 64 /* fragments in flight of a group, where nobody says how many */

/* Where the ranks and the aggregators were found when the communicator was made: groups go there
 * without a meeting of their own. */
struct fan_comm_places {
	unsigned count; /* of aggregators; 0: a controller tells */
	fan_peer at[FAN_PARTS_MAX];
	int inside[FAN_PARTS_MAX]; /* the rank in which it is embedded; -1: none */
	struct fan_meeting ranks;  /* hosts 0: not known */
};

/* Who looks at a communicator, and is told before it ends: `forked`, in a child of fork(), which
 * has no threads.  end NULL: nobody. */
struct fan_comm_watcher {
	void *of;
	void (*end)(void *of, bool forked);
};

struct fanin_comm {
	struct fan_config cfg;			 /* constant once created */
	char switch_text[FAN_COMM_SWITCH_BYTES]; /* of fanin_comm_switch */
	struct fan_comm_places places;		 /* constant once created */
	struct fan_embedded_switch *embedded;	 /* of this process; NULL: none */
	struct fan_intra_comm *intra;		 /* ranks of this host share memory; NULL: no */
	unsigned columns;			 /* of the job that this is one of; 0: none */
	const uint16_t *global;			 /* of a column: the ranks of the job; NULL: none */
	const uint16_t *host_first;		 /* of a column: the first rank of each host */
	const uint16_t (*rank_at)[FAN_HOST_RANKS_MAX]; /* of a column: by host and number there */
	struct fan_comm_watcher watcher;
	struct fan_trace *trace; /* NULL: nobody traces */
	bool counts_trips;	 /* `trips` is kept up to date */
	bool together;		 /* with ranks of this host: all get the segment, or none */
	bool threaded;		 /* the thread was started */
	atomic_bool met;	 /* `places.ranks` is constant from here on */
	unsigned fork_guard;	 /* fan_fork_guard() when created */
	pthread_t thread;
	int epoll_fd, wake_fd;
	void (*idle)(void *arg); /* called every FAN_COMM_IDLE_MS by fan_comm_run, and of a column
				    while it is joined; NULL: not */
	void *idle_arg;
	atomic_int mark; /* of operations that are started from here on: FAN_MARK_NAME */

	pthread_mutex_t lock;	    /* for all up to the next blank line */
	pthread_cond_t changed;	    /* ready, error, or room for operations */
	struct fan_op_queue queued; /* not taken by the thread yet */
	bool awake;		    /* the thread will look at `queued` before it sleeps */
	bool ready;		    /* all ranks have joined */
	unsigned parts_to_add;	    /* beyond `parts`, which the thread joins */
	bool complete;		    /* there are no further parts to add */
	bool closing;		    /* fanin_comm_destroy was called */
	bool missing_known;	    /* of a job that is forming: `missing` */
	unsigned room_waiters;	    /* callers that wait for room for an operation */
	unsigned attending;	    /* callers that do this rank's work, in fan_comm_run */
	char wait_text[FAN_FAULT_TEXT_BYTES]; /* for `waiting`, until `ready` */
	struct fanin_stats stats;
	struct fan_rtt_histogram trips;		    /* of all connections, if counts_trips */
	struct fan_comm_shown shown[FAN_PARTS_MAX]; /* stats.parts of them */
	bool shown_settled;
	int ending; /* why fan_comm_end was called; 0: it was not */
	uint64_t ending_blamed[FAN_RANK_WORDS];
	uint64_t missing[FAN_RANK_WORDS]; /* ranks that have not joined */

	atomic_int error; /* 0, or its cause of failure: then `sentence` is constant */
	char sentence[FAN_FAULT_TEXT_BYTES];
	atomic_uint ops_open; /* operations started and not ended */

	/* Used by the thread alone. */
	struct fan_job_part part[FAN_PARTS_MAX]; /* without a controller one, of route 0 */
	int inside[FAN_PARTS_MAX]; /* the rank in which the part's switch is embedded; -1: none */
	uint32_t mbps[FAN_PARTS_MAX];	/* rate of that host's link; 0: not known */
	unsigned shards[FAN_PARTS_MAX]; /* of the part's switches; 0: not known yet */
	struct fan_connection
		connection[FAN_SHARDS_MAX]; /* each part has one to shard 0 of its aggregator,
					     * then one to each further shard */
	unsigned connections;
	unsigned parts; /* 0: not known yet */
	struct fan_comm_split split;
	struct fan_regroup *regroup; /* NULL: the job ends with any of its aggregators */
	fan_peer server_addr;	     /* none: not given */
	fan_peer controller_addr;
	struct fan_comm_client client;
	uint64_t note_ns; /* time of the next `wait_text` */
	struct fan_connection_io *io;
	struct fan_op_queue waiting;	       /* taken, not started on every connection */
	struct fanin_op *running[FAN_OPS_MAX]; /* started on every connection, oldest first */
	unsigned running_count;
	bool progressed;		 /* an operation may be done */
	uint64_t blamed[FAN_RANK_WORDS]; /* ranks to blame for a failed connection, for all
					    connections; constant after an error */
	int cause;			 /* of a failure, as other ranks of a column are told it */
	bool leaving;			 /* the connections are leaving */
	bool heard; /* a fragment has finished since the last look at `quiet_ns` */
	uint64_t join_by_ns, leave_by_ns;
	uint64_t ops_done, bytes_done;
	uint64_t quiet_ns;  /* time of the last result, or of the first operation after none */
	uint64_t result_ns; /* time of the last result; 0: none */
	uint64_t gap_ns;    /* longest time without a result during operations */
};

/* For callers; errors as in fanin.h. */
int fan_comm_create(const struct fanin_options *options, struct fanin_comm **comm);
void fan_comm_destroy(struct fanin_comm *c);

/* Do the options allow that hosts sum parts beside named switches, and get what share pays? */
bool fan_comm_hosts_may_sum(const struct fan_config *cfg);

/* What a program around the library may ask for beyond its options. */
struct fan_comm_terms {
	const char *meeting_addr; /* as in struct fan_config */
	bool meeting_local;
	int join_ms;
};

/* As fan_comm_create; `terms` may be NULL. */
int fan_comm_create_on(const struct fanin_options *options, const struct fan_comm_terms *terms,
		       struct fanin_comm **comm);

/* From here on fan_comm_run calls `idle` from its caller's thread every FAN_COMM_IDLE_MS, so that
 * another library can make progress meanwhile.  It must not call this communicator. */
void fan_comm_set_idle(struct fanin_comm *c, void (*idle)(void *arg), void *arg);

/* As fan_comm_create, with the switch embedded in rank 0 at `at`, for the job of `cfg` whose name
 * has `suffix` appended. */
int fan_comm_create_at(const struct fan_config *cfg, const fan_peer *at, const char *suffix,
		       struct fanin_comm **comm);

/* The same for the ranks of column `column` of `columns`, one of each host, at the switches of
 * `of`.  Texts name global[i] for rank i of it, whose host's first rank is host_first[i], and
 * others rank_at[i]. */
int fan_comm_create_column(const struct fanin_comm *of, const struct fan_config *cfg,
			   unsigned column, unsigned columns, const uint16_t *global,
			   const uint16_t *host_first,
			   const uint16_t (*rank_at)[FAN_HOST_RANKS_MAX], struct fanin_comm **comm);

/* As fanin_comm_group (group.c). */
int fan_comm_create_group(struct fanin_comm *of, const char *name, const int *ranks, int count,
			  struct fanin_comm **comm);

/* Of a group: its name, its ranks, where they and the aggregators are, the switch in this process
 * that it shares (NULL: none), and the time-out of its join (0: as that of operations). */
struct fan_comm_among {
	const char *name;
	const int *ranks;
	int count;
	const struct fan_comm_places *places;
	struct fan_embedded_switch *embedded;
	int join_ms;
};

int fan_comm_create_among(struct fanin_comm *of, const struct fan_comm_among *among,
			  struct fanin_comm **comm);

/* As fanin_comm_shrink (shrink.c). */
int fan_comm_shrink(struct fanin_comm *of, int wait_ms, struct fanin_comm **comm);

/* For those who make communicators: an empty one, or NULL; part `k` of it at the aggregator `at`,
 * of which the first one has the job's own name and `column`; the end of one that could not be
 * made, which tells why until it is destroyed; buffers and a thread; these, and all ranks have
 * joined; and the last step. */
struct fanin_comm *fan_comm_new(void);
void fan_comm_set_part(struct fanin_comm *c, unsigned k, const fan_peer *at, const char *column);
int fan_comm_refuse(struct fanin_comm *c, int error, const char *why);
int fan_comm_start(struct fanin_comm *c);
int fan_comm_begin(struct fanin_comm *c);
void fan_comm_complete(struct fanin_comm *c);

/* From any thread: end a column with `error`, and tell its other ranks that those in `blamed`
 * caused it. */
void fan_comm_end(struct fanin_comm *c, int error, const uint64_t *blamed);

/* Any thread: as fanin_comm_error, and as fanin_comm_stats with stats->size set. */
const char *fan_comm_error(const struct fanin_comm *c);
void fan_comm_read_stats(const struct fanin_comm *c, struct fanin_stats *stats);

/* In a child of fork(), to which the communicator does not belong. */
bool fan_comm_is_forked(const struct fanin_comm *c);

/* With the lock held: see to it that the thread looks at what has changed. */
void fan_comm_wake(struct fanin_comm *c);

/* Queue an operation.  `wait`: wait for room instead of FAN_E_BUSY. */
int fan_comm_submit(struct fanin_comm *c, const struct fan_op_args *args, bool wait,
		    struct fanin_op **op);

/* The same for `count` operations at once, at most FAN_RANKS_MAX: all or none. */
int fan_comm_submit_all(struct fanin_comm *c, const struct fan_op_args *args, unsigned count,
			bool wait, struct fanin_op **ops);

/* Submit an operation and wait for its end: its result.  Where ranks share memory, the caller does
 * this rank's work meanwhile. */
int fan_comm_run(struct fanin_comm *c, const struct fan_op_args *args);

/* The same for `timeout_ms` at most, < 0: as long as it takes, without calls of `idle`.
 * FAN_E_PENDING: it goes on, and is `*op`, which is NULL otherwise.  FAN_E_BUSY: there is no room.
 */
int fan_comm_run_within(struct fanin_comm *c, const struct fan_op_args *args, int timeout_ms,
			struct fanin_op **op);

/* Entry of the thread: runs until `closing` is set and all connections have left. */
void *fan_progress(void *comm);

/* The following are for the thread alone.  The counters for fanin_comm_stats. */
struct fanin_stats fan_comm_collect_stats(const struct fanin_comm *c);

/* The round trips of all connections. */
void fan_comm_collect_trips(const struct fanin_comm *c, struct fan_rtt_histogram *h);

/* Add the counters of the connections that there are now. */
void fan_comm_add_stats(struct fanin_stats *s, const struct fanin_comm *c);

/* What fault `f` of connection `cn` is, in a sentence. */
void fan_comm_fault_text(const struct fanin_comm *c, const struct fan_connection *cn,
			 const struct fan_fault *f, char *text, size_t bytes);

/* The aggregator of part `k` is silent: blame the rank that it is inside, or this one, which has
 * lost it. */
void fan_comm_blame_for_silence(struct fanin_comm *c, unsigned k);

/* `op` is over: make room, then tell.  It may be gone afterwards. */
void fan_comm_end_op(struct fanin_comm *c, struct fanin_op *op, int result);

/* The same for one whose rests are done, and that has not been counted yet. */
void fan_comm_end_whole(struct fanin_comm *c, struct fanin_op *whole, int result);

/* End the communicator and all its operations. */
void fan_comm_fail(struct fanin_comm *c, int error, const char *sentence);

#endif
