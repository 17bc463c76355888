/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - one rank of one job, with a thread.
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
 * than a window of packets + 1 MiB.  Where a job goes on without switches that die (regroup.c), a
 * connection keeps another window of packets; beside an embedded switch it has two rings of
 * FAN_RING_PAIR_PLACES packets, of which as many are used as were full at a time.  With run-ahead,
 * a connection has 132 bytes for each fragment of it, and 1.15 payloads for each sum of its helper
 * cache. */
#ifndef FAN_LIB_RANK_RANK_H
#define FAN_LIB_RANK_RANK_H

#include <fanin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/config.h"
#include "lib/base/fault_text.h"
#include "lib/base/op.h"
#include "lib/base/plan_msg.h"
#include "lib/base/rank_file.h"
#include "lib/base/rendezvous.h"
#include "lib/link/connection.h"
#include "net/echo.h"
#include "net/lines.h"
#include "shares.h"

#define FAN_RANK_OPS_MAX	 4096		  /* started and not ended */
#define FAN_RANK_EVENTS_MAX	 16		  /* sockets handled per round */
#define FAN_RANK_WAKE		 UINT32_MAX	  /* number of `wake_fd` in epoll */
#define FAN_RANK_CONTROLLER	 (UINT32_MAX - 1) /* number of the controller's socket in epoll */
#define FAN_RANK_COMPANY_MS	 2000 /* a rank that cannot take part waits for others to join */
#define FAN_RANK_SNAPSHOT_OPS	 8
#define FAN_RANK_SNAPSHOT_PLACES 8
#define FAN_RANK_IDLE_MS	 5 /* between calls of `idle` while an operation is waited for */
#define FAN_RANK_LEAVE_NS	 (2000 * FAN_MS) /* most time to leave */

/* ---- what a rank remembers for three of its tasks ---- */

#define FAN_SHARE_METER_COLUMN_LEAST                                                               \
	16 /* fragments in flight of a column, at least (share_meter.c) */
#define FAN_SHARE_METER_WORDS (FAN_PARTS_MAX + FAN_RANKS_MAX)

/* A stream of lines to a controller that redials (lines.h): one that fails, ends or takes too long
 * to connect is tried again after a pause, for ever. */
struct fan_dial {
	fan_peer to;
	int epoll_fd;
	uint32_t number; /* in epoll */
	struct fan_lines lines;
	struct fan_keys keys; /* count 0: lines are not signed */
	bool up;	      /* connected; otherwise connecting if there is a socket */
	int ended;	      /* -errno: the stream has ended, some lines are not taken yet */
	uint32_t tries;	      /* failures in a row */
	uint64_t at_ns;	      /* not up: time of the next try, or time-out of this one */
	char why[FAN_PLAN_MSG_WHY_BYTES]; /* of the last failure; "" */
};

/* State of plan_client.c. */
struct fan_plan_client {
	bool on;		    /* there is a controller */
	bool news;		    /* the socket has reported */
	bool has_parts;		    /* the job's parts are known */
	bool moving[FAN_PARTS_MAX]; /* by part: the controller waits for its `moved` */
	uint64_t behind_ns;	    /* time to move connections that are behind; UINT64_MAX: none */
	struct fan_dial dial;
	struct fan_plan_msg msg; /* the last one */
};

/* A part as callers see it. */
struct fan_part_shown {
	fan_peer at;
	int inside;	/* the rank in which it is; -1: none */
	bool lost;	/* the others go on without it (regroup.c) */
	uint64_t share; /* in 1 / FAN_CUT_WHOLE */
	uint32_t rtt_us;
};

/* State of share_meter.c. */
struct fan_share_meter {
	struct fan_split_history shares;
	struct fan_split_learner learner;
	bool news;	     /* shares or addresses have changed since callers read them */
	bool learns;	     /* several parts, and no plan fixes their shares */
	bool blocked;	     /* operations wait for the measurement in progress */
	bool measures;	     /* a measurement is in progress */
	bool arrived;	     /* its sum is there, and has not been taken yet */
	uint64_t ops;	     /* started, with measurements */
	bool drains;	     /* operations wait for the end of started ones */
	uint64_t bytes;	     /* of tensors that were started since the last measurement */
	uint64_t open_bytes; /* of operations in progress */
	uint64_t done_bytes; /* of operations that ended in the measured period */
	uint64_t busy_ns;    /* with operations in progress, in that period */
	uint64_t looked_ns;
	bool busy;		       /* something was in progress then */
	double fill;		       /* results in FAN_SHARE_METER_FILL_MS, smoothed */
	uint64_t fill_ns;	       /* with operations in progress, since `fill` was set */
	uint64_t results;	       /* of all connections when `fill` was set */
	double rtt_ns[FAN_SHARDS_MAX]; /* round trip of each connection, times busy_ns */
	int32_t words[FAN_SHARE_METER_WORDS];
	uint32_t rtt_us[FAN_PARTS_MAX]; /* as measured last */
};

/* ---- going on without an aggregator, and with one that is there again (regroup.c) ---- */

/* For which an answer counts, times those lost. */
#define FAN_REVIVAL_FRESH_NS (3000 * FAN_MS)
#define FAN_REVIVAL_WAIT_NS  (10000 * FAN_MS)
#define FAN_REVIVAL_WAITS    7 /* it is doubled so often at most */
#define FAN_REVIVAL_CALM_NS                                                                        \
	(600000 * FAN_MS)	    /* who was there for so long may come back as at first */
#define FAN_REVIVAL_OPS	  16	    /* operations between two of these all-reduces... */
#define FAN_REVIVAL_BYTES (4 << 20) /* ...or bytes, whichever comes first */

/* One part's data, by its number. */
struct fan_revival_part {
	uint64_t heard_ns; /* of its last answer; 0: none, or it was lost since */
	uint64_t from_ns;  /* it is not vouched for before */
	uint64_t back_ns;  /* when it came back last; 0: never */
	unsigned waits;	   /* doublings of FAN_REVIVAL_WAIT_NS */
};

struct fan_revival {
	struct fan_udp udp; /* to the one that was asked; fd -1: none was */
	unsigned asked;	    /* its number */
	struct fan_echo_asker echo;
	uint64_t back; /* bit i: part number i has answered all ranks */
	unsigned ops;  /* started since the last all-reduce, and their bytes */
	uint64_t bytes;
	struct fan_revival_part part[FAN_CAUSE_PARTS_MAX];
};

enum fan_regroup_phase {
	FAN_REGROUP_NONE,
	FAN_REGROUP_JOINS,  /* joining at the aggregators that are left */
	FAN_REGROUP_STANDS, /* agreeing on where all ranks stand */
	FAN_REGROUP_OWNERS, /* agreeing on the owners of results */
	FAN_REGROUP_GIVES,  /* giving results to ranks that lack them */
};

/* A part as it was before any was lost. */
struct fan_regroup_part {
	struct fan_job_part part;
	int inside;
	uint32_t mbps;
	uint8_t rail;
};

/* State of regroup.c and regroup_agree.c. */
struct fan_regroup {
	enum fan_regroup_phase phase;
	bool waits;    /* a connection has failed: is it the rail, or the host? */
	uint64_t gone; /* bit i: part number i is lost */
	unsigned all;
	struct fan_regroup_part first[FAN_CAUSE_PARTS_MAX]; /* `all` of them */
	uint8_t number[FAN_PARTS_MAX];	/* of the communicator's parts, among `first` */
	char why[FAN_FAULT_TEXT_BYTES]; /* the loss, in a sentence */
	unsigned turns;			/* losses and returns so far */
	int back;			/* JOINS: the part that is taken in again; -1: none */
	uint64_t back_by_ns;		/* it has answered by then, or is lost again */
	uint64_t look_ns;   /* time of the next look at the latest; later: this rank has slept */
	uint64_t silent_ns; /* a part that has not answered a JOIN by then is lost */
	uint64_t until_ns;  /* all ranks have joined by then, or the job ends */
	bool arrived;	    /* the all-reduce of this phase is done */

	/* As it was when the ranks stopped; connections without a worker have been closed. */
	struct fan_connection
		old[FAN_SHARDS_MAX]; /* by part and shard: in the same order on all ranks */
	uint8_t was[FAN_SHARDS_MAX]; /* their numbers before, which differ by rank */
	unsigned olds;
	struct fan_split_history shares;
	unsigned shards[FAN_PARTS_MAX];
	uint64_t ops;			      /* started */
	struct fanin_op *op[FAN_OPS_MAX + 1]; /* in progress, oldest first */
	unsigned op_count;

	/* For the agreement, in memory of its own. */
	unsigned slots;	  /* of all old connections */
	int64_t *stands;  /* operations started, negative; then what each slot awaits */
	int32_t *owners;  /* of each slot: the owner of its last result; whether a rank lacks it */
	uint8_t *results; /* RESULTS of them, result_bytes each */
	size_t result_bytes;
	/* the slots whose results are in progress: from next on, how many are behind them */
	unsigned next, given;
	struct fan_revival revival;
	/* Counters of connections that were closed. */
	struct fanin_stats before;
	struct fan_rtt_histogram trips_before;
};

/* ---- a rank ---- */

/* Two kinds of ranks: one has connections to aggregators (by_sockets.c), the other shares memory
 * with those of its host (lib/host). */
struct fan_rank;
struct fan_daemon;
struct fan_host_comm;
struct fan_rank_kind {
	bool has_sockets;
	int (*open)(struct fan_rank *rank);	/* what the thread needs; NULL: nothing */
	void *(*run)(void *rank);		/* entry of the thread: until `closing` is set */
	void (*wake)(struct fan_rank *rank);	/* the lock is held */
	void (*release)(struct fan_rank *rank); /* its memory, when there is no thread */
	void (*look)(struct fan_rank *rank);	/* from any thread: shown.snapshot is to be taken */
	void (*ask)(struct fan_rank *rank);	/* from any thread: has it failed? NULL: it knows */
	/* from any thread: it fails with the error and sentence */
	void (*end)(struct fan_rank *rank, int error, const char *why);

	/* The others are NULL where they do not apply.  The caller of `op`, which is queued, does
	 * the rank's work until it has ended, or it is `until_ns`. */
	void (*attend)(struct fan_rank *rank, struct fanin_op *op, uint64_t until_ns);
	void (*join_on)(void *host);		       /* a rank of it is being joined, as `idle` */
	uint64_t (*gone)(const struct fan_rank *rank); /* bit i: its part number i is lost, and the
							* others go on (regroup.c) */
};

/* A rank whose job is one of several, with a rank for each host; none: all zero. */
struct fan_rank_column {
	unsigned columns;
	const uint16_t *global;	    /* the ranks of the job, by rank of this one */
	const uint16_t *host_first; /* the first rank of each host */
	const uint16_t (*rank_at)[FAN_HOST_RANKS_MAX]; /* by host and number there */
	_Atomic uint64_t *gone;			       /* where it reports lost parts to its host */
};

/* A rank's state, for registry.h.  It is taken on request alone. */
struct fan_rank_snapshot {
	bool asked;	   /* one is to be taken */
	uint64_t at_ns;	   /* when it was; 0: it was not */
	unsigned ops;	   /* of `op` */
	uint64_t moved_ns; /* of the last progress, if operations are under way */
	struct fan_rank_op_shown {
		const char *name;
		uint64_t bytes, started_ns;
	} op[FAN_RANK_SNAPSHOT_OPS];	  /* the oldest ones under way */
	char waits[FAN_FAULT_TEXT_BYTES]; /* for whom, in words; "": for nobody */
	uint64_t missing[FAN_RANK_WORDS]; /* ranks of the job that it waits for and knows */
	bool away;			  /* these may wait for other hosts, or it does itself */
	unsigned places;		  /* of `place` */
	struct fan_rank_place_shown {
		fan_peer at;
		char job[FAN_NAME_MAX + 1]; /* as that aggregator knows it */
	} place[FAN_RANK_SNAPSHOT_PLACES];  /* aggregators whose results it waits for */
};

/* State that callers are shown, under the lock. */
struct fan_rank_shown {
	char wait_text[FAN_FAULT_TEXT_BYTES]; /* for `waiting`, until all are ready */
	struct fanin_stats stats;
	struct fan_rtt_histogram trips;		   /* of all connections, if counts_trips */
	struct fan_part_shown part[FAN_PARTS_MAX]; /* stats.parts of them */
	bool settled;				   /* their shares stay */
	bool missing_known;			   /* of a job that is forming: */
	uint64_t missing[FAN_RANK_WORDS];	   /* ranks that have not joined */
	struct fan_rank_snapshot snapshot;
};

/* Where a part is summed. */
struct fan_rank_part {
	fan_peer at; /* of its aggregator */
	int inside;  /* the rank in which that is embedded; -1: none */
	uint32_t mbps;
	uint8_t rail; /* the number of its network among those of that rank's host */
};

struct fan_rank {
	struct fan_config cfg; /* constant once created */
	const struct fan_rank_kind *kind;
	struct fan_host_comm *host;	 /* of a kind that shares memory; NULL: by sockets */
	const struct fan_meeting *hosts; /* of the ranks, once `met`; NULL: not known */
	const struct fan_rank
		*parent; /* of a group that forms: what that has lost; NULL: nothing */
	struct fan_rank_column column;
	/* keeps the name of its job: if two launches use it, that ends as well; NULL: none.  Under
	 * the lock */
	struct fan_rank *owner;
	struct fan_daemon *own;	 /* the aggregator in this process, which outlives it; NULL: none */
	struct fan_trace *trace; /* NULL: nobody traces */
	bool counts_trips;	 /* `shown.trips` is kept up to date */
	atomic_bool met;	 /* `hosts` is constant from here on */
	unsigned fork_guard;	 /* fan_fork_guard() when created */
	/* The thread, and what it sleeps on. */
	struct {
		pthread_t id;
		bool started;
		int epoll_fd, wake_fd;
	} thread;
	/* Work that a waiting caller does now and then, called every FAN_RANK_IDLE_MS by
	 * fan_rank_run, and of a column while it is joined; call NULL: nothing.  It must not call
	 * this communicator. */
	struct {
		void (*call)(void *arg);
		void *arg;
	} idle;
	atomic_int mark; /* of operations that are started from here on: FAN_MARK_NAME */

	pthread_mutex_t lock;	/* for all up to the next blank line */
	pthread_cond_t changed; /* ready, error, or room for operations */
	bool ready;		/* all ranks have joined */
	/* Requests of callers to the thread, under the lock, which they wake afterwards. */
	struct {
		struct fan_op_queue queued; /* operations that it has not taken yet */
		bool awake;		    /* it will look at these before it sleeps */
		unsigned parts_to_add;	    /* to join, beyond `parts` */
		bool complete;		    /* there are no further parts to add */
		bool closing;		    /* to end: fanin_comm_destroy was called */
		uint64_t close_ns;	    /* when it is to end by itself; 0: never */
		unsigned room_waiters;	    /* callers that wait for room for an operation */
		unsigned attending;	    /* callers that do this rank's work, in fan_rank_run */
	} asked;
	struct fan_rank_shown shown;
	/* Why fan_rank_end was called; error 0: it was not. */
	struct {
		int error;
		char why[FAN_FAULT_TEXT_BYTES]; /* ""; or the sentence about it */
		uint64_t blamed[FAN_RANK_WORDS];
	} ending;

	atomic_int error; /* 0, or its cause of failure: then `sentence` is constant */
	char sentence[FAN_FAULT_TEXT_BYTES];
	atomic_uint ops_open;  /* operations started and not ended */
	_Atomic uint64_t gone; /* bit i: its part number i is lost */

	/* Used by the thread alone. */
	/* Parts of each tensor, one for each aggregator. */
	struct {
		unsigned count;				/* 0: not known yet */
		struct fan_job_part job[FAN_PARTS_MAX]; /* without a controller one, of route 0 */
		int inside[FAN_PARTS_MAX]; /* the rank in which its switch is embedded; -1: none */
		uint32_t mbps[FAN_PARTS_MAX];	/* rate of that host's link; 0: not known */
		uint8_t rail[FAN_PARTS_MAX];	/* by which of that host's networks */
		unsigned shards[FAN_PARTS_MAX]; /* of its switches; 0: not known yet */
		uint8_t of[FAN_PARTS_MAX];	/* of a group, before any is lost: their numbers at
						   `parent` */
	} parts;
	/* each part has one to shard 0 of its aggregator, then one to each further shard */
	struct fan_connection connection[FAN_SHARDS_MAX];
	unsigned connections;
	struct fan_share_meter meter;
	struct fan_regroup *regroup;  /* NULL: the job ends with any of its aggregators */
	struct fan_regroup *prepared; /* of a group that forms, as `regroup` will be; NULL: none */
	fan_peer server_addr;	      /* none: not given */
	fan_peer controller_addr;
	struct fan_plan_client client;
	struct fan_connection_io *io;
	struct {
		struct fan_op_queue waiting; /* taken, not started on every connection */
		struct fanin_op
			*running[FAN_OPS_MAX]; /* started on every connection, oldest first */
		unsigned running_count;
		bool progressed; /* one may be done */
		uint64_t done, bytes_done;
	} ops;
	/* How it ends. */
	struct {
		/* ranks to blame for a failed connection, for all connections; constant after an
		 * error */
		uint64_t blamed[FAN_RANK_WORDS];
		int cause;    /* of a failure, as other ranks of a column get it */
		bool leaving; /* the connections are leaving */
	} fate;
	struct {
		uint64_t join_by_ns, leave_by_ns;
		uint64_t note_ns;   /* of the next `wait_text` */
		bool heard;	    /* a fragment has finished since note_gap looked last */
		uint64_t quiet_ns;  /* of the last result, or of the first operation after none */
		uint64_t result_ns; /* of the last result; 0: none */
		uint64_t gap_ns;    /* longest time without a result during operations */
	} when;
};

/* For makers of ranks.  Zero bytes become a rank of `kind`, whose hosts `hosts` will name (NULL:
 * nobody will). */
void fan_rank_init(struct fan_rank *r, const struct fan_rank_kind *kind,
		   const struct fan_meeting *hosts);

/* Part `k` of it, or one more part.  The first one has the job's own name and `column`. */
void fan_rank_set_part(struct fan_rank *r, unsigned k, const struct fan_rank_part *part,
		       const char *column);
void fan_rank_add_part(struct fan_rank *r, const struct fan_rank_part *part, const char *column);

/* It cannot be made, and returns `error` until it is destroyed. */
int fan_rank_refuse(struct fan_rank *r, int error, const char *why);

/* Buffers and a thread; and all ranks have joined. */
int fan_rank_start(struct fan_rank *r);
int fan_rank_begin(struct fan_rank *r);
void fan_rank_wait_ready(struct fan_rank *r);

/* From any thread: leave the job in `ms`; until then it joins, fails and learns why. */
void fan_rank_close_in(struct fan_rank *r, unsigned ms);

/* The end: of the thread, which leaves the job; and of all of one with memory of its own, unless in
 * a child of fork(), which has no thread.  NULL is allowed. */
void fan_rank_stop(struct fan_rank *r);
void fan_rank_destroy(struct fan_rank *r);

/* From any thread: end with `error` and the sentence `why` ("": its text), and inform the column's
 * other ranks that those in `blamed` (NULL: nobody) caused it. */
void fan_rank_end(struct fan_rank *r, int error, const char *why, const uint64_t *blamed);

/* Any thread: the cause of its end, as far as it has seen that; as fanin_comm_error,
 * which looks; and as fanin_comm_stats with stats->size set. */
const char *fan_rank_error(const struct fan_rank *r);
void fan_rank_read_stats(const struct fan_rank *r, struct fanin_stats *stats);

/* Any thread: the round trips of all connections, if counts_trips. */
void fan_rank_read_trips(const struct fan_rank *r, struct fan_rtt_histogram *trips);

/* Any thread: part `k`, one of stats.parts, and whether shares stay as they are. */
struct fan_part_shown fan_rank_part_shown(const struct fan_rank *r, unsigned k, bool *settled);

/* Any thread: the connections with which it became ready. */
unsigned fan_rank_connections(const struct fan_rank *r);

/* In a child of fork(), to which the communicator does not belong. */
bool fan_rank_is_forked(const struct fan_rank *r);

/* Queue `count` operations at once, at most FAN_RANKS_MAX: all or none, and then `ops` are NULL.
 * `wait`: wait for room instead of FAN_E_BUSY. */
int fan_rank_submit(struct fan_rank *r, const struct fan_op_args *args, unsigned count, bool wait,
		    struct fanin_op **ops);

/* Submit an operation and wait for its end: its result.  Where ranks share memory, the caller does
 * this rank's work meanwhile. */
int fan_rank_run(struct fan_rank *r, const struct fan_op_args *args);

/* Submit an operation and wait for its end for `timeout_ms` at most, without calls of `idle`; < 0:
 * as long as it takes. FAN_E_PENDING: it goes on, and is `*op`, which is NULL otherwise.
 * FAN_E_BUSY: there is no room. */
int fan_rank_run_within(struct fan_rank *r, const struct fan_op_args *args, int timeout_ms,
			struct fanin_op **op);

/* Any thread: what was shown last as an object of JSON, which the caller owns.  `rate` is of
 * tensors, bytes a second over `over_s`. */
struct json_t *fan_rank_tell(const struct fan_rank *r, uint64_t now_ns, double rate, double over_s);

/* Any thread, of a rank that is no column: write its wait as a sentence to `text`, `bytes` bytes.
 * False: it does not wait, or has not reported since `asked_ns`. */
bool fan_rank_wait_sentence(const struct fan_rank *r, uint64_t asked_ns, char *text, size_t bytes);

/* Add an operation that is under way. */
void fan_rank_snapshot_add(struct fan_rank_snapshot *s, const struct fanin_op *op);

/* ---- by_sockets.c ---- */

extern const struct fan_rank_kind fan_rank_by_sockets;

/* A rank that sums a share of what the ranks of its host do, with the other hosts: that of column
 * `number` of those of `of`, at the same aggregators.  Texts name ranks by `column`, whose
 * arrays outlive it. */
int fan_rank_create_column(const struct fan_rank *of, const struct fan_config *cfg,
			   const struct fan_rank_column *column, unsigned number,
			   struct fan_rank **rank);

#endif
