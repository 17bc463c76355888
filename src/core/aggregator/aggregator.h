/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator.h - the aggregator: admits a job's ranks and completes each fragment, in a bounded
 * number of slots, from contributions of workers and of switches in front of it (switch.h).
 *
 * One fan_aggregator is one shard, with its own slots, jobs and members.  It owns no
 * socket, clock, thread or memory.  The caller gives it every datagram that arrives
 * (recv), calls it when its deadline has passed (tick), and sends the items of the
 * fan_out before the next call.  Beside the data path it admits members, tests the
 * multicast group, watches health and reports the state of jobs.
 *
 * An aggregator may have a parent: then its sum is not the result but its contribution to the
 * parent, where it is one member of the job of the same name, and the result is the parent's.
 * So a job may have more workers than an aggregator has members. */
#ifndef FAN_AGGREGATOR_AGGREGATOR_H
#define FAN_AGGREGATOR_AGGREGATOR_H

#include "core/base/out.h"
#include "core/base/prf.h"
#include "core/wire/ctlmsg.h"

struct fan_aggregator;

struct fan_aggregator_config {
	uint32_t slots;		/* of two versions of payload_bytes each */
	uint16_t payload_bytes; /* largest payload of a fragment */
	uint16_t jobs_max;	/* 1 .. FAN_GROUPS_MAX; behind shared slots FAN_JOBS_MAX */
	uint16_t members_max;	/* over all jobs, 2 .. FAN_MEMBERS_MAX */
	uint16_t window_max;	/* most slots of a job: the quota */
	/* grant each job its whole quota, although the next may find less: for jobs that are all
	 * known beforehand */
	bool greedy;
	/* the quota of jobs with run-ahead, at most FAN_AHEAD_MAX; window_max then bounds fragments
	 * in flight.  0: no run-ahead */
	uint16_t ahead_max;
	/* bytes that a receive queue holds: bounds window x ranks x packet of a job.  0: no such
	 * bound */
	uint32_t rx_bytes;
	uint16_t rx_queues;	  /* such queues: rank r sends to number r modulo this.  0: one */
	uint16_t shards;	  /* of the daemon, for workers */
	struct fan_secret secret; /* random, another for each shard and life */
	uint8_t group_family;	  /* multicast results: 0 off, 4, 6 */
	uint16_t group_port;
	uint8_t group_base[16]; /* first group address; job i uses base + i */
	bool no_reminders;	/* send no FLUSHes, for experiments */
	/* only JOINs with a key arrive here, so none must prove its address before it takes the
	 * place of others */
	bool authentic;
	/* With a parent: */
	uint16_t siblings; /* members of each job at the parent, with this one; 0: no parent */
	uint16_t index;	   /* its rank at the parent */
	uint64_t nonce;	   /* random: the first nonce at the parent */
};

/* Events for the log. */
enum fan_event_kind {
	FAN_EV_JOB_CREATED,
	FAN_EV_RANK_JOINED,
	FAN_EV_RANK_MOVED, /* the rank has another path: its switch may be silent */
	FAN_EV_RANK_REFUSED,
	FAN_EV_JOB_READY,
	FAN_EV_RANK_LEFT,
	FAN_EV_GROUP_OFF, /* results go by unicast from now on: too many were missed */
	FAN_EV_JOB_FAILED,
	FAN_EV_JOB_REMOVED,
};

struct fan_event {
	enum fan_event_kind kind;
	uint32_t job, epoch;
	uint16_t rank;	 /* or FAN_RANK_NONE */
	uint16_t ranks;	 /* size of the job */
	uint16_t window; /* slots of the job */
	bool multicast;
	int err;			 /* REFUSED, FAILED, LEFT: enum fan_err */
	uint64_t blamed[FAN_RANK_WORDS]; /* FAILED: ranks to blame */
	uint64_t results;		 /* REMOVED: fragments finished */
	uint64_t replays;
	fan_peer peer; /* JOINED, MOVED, REFUSED: the rank's address */
	char name[FAN_NAME_MAX + 1];
};

struct fan_aggregator_stats {
	uint64_t packets;
	uint64_t contributions; /* added to a slot */
	uint64_t results;
	uint64_t replays;
	uint64_t needs;		/* NEEDs sent, one for each rank */
	uint64_t partials;	/* partial sums added */
	uint64_t flushes;	/* reminders sent */
	uint64_t progress_sent; /* answers with PROGRESS */
	uint64_t challenges;	/* JOINs of which nothing was kept */
	uint64_t events_lost;	/* events overwritten before they were taken */
	uint64_t drops[FAN_DROP_COUNT];
};

/* Bytes that an aggregator of this configuration needs; 0 if a field is out of range. */
size_t fan_aggregator_bytes(const struct fan_aggregator_config *cfg);

/* Make one in `mem`, fan_aggregator_bytes(cfg) bytes aligned to 64.  The memory
 * needs no clearing and belongs to the caller. */
struct fan_aggregator *fan_aggregator_init(void *mem, const struct fan_aggregator_config *cfg);

/* Handle one datagram of `len` bytes at `pkt` that `from` sent; `marked`: with a congestion
 * mark.  `out` has room for FAN_AGGREGATOR_OUT_MAX items: fan_out_has. */
enum fan_verdict fan_aggregator_recv(struct fan_aggregator *ag, uint64_t now_ns, fan_peer from,
				     const uint8_t *pkt, size_t len, bool marked,
				     struct fan_out *out);

/* As fan_aggregator_recv, of a datagram that fan_wire_get has read to `f`, which may change. */
enum fan_verdict fan_aggregator_take(struct fan_aggregator *ag, uint64_t now_ns,
				     const fan_peer *from, struct fan_frag *f, bool marked,
				     struct fan_out *out);

/* Handle one datagram that the parent sent; `out` as for fan_aggregator_recv. */
enum fan_verdict fan_aggregator_recv_up(struct fan_aggregator *ag, uint64_t now_ns,
					const uint8_t *pkt, size_t len, bool marked,
					struct fan_out *out);
enum fan_verdict fan_aggregator_take_up(struct fan_aggregator *ag, uint64_t now_ns,
					struct fan_frag *f, bool marked, struct fan_out *out);

/* Run timers: overdue heartbeats, group tests, reminders.  If `out`, with room for
 * FAN_AGGREGATOR_OUT_MAX items, runs full, the deadline stays in the past: send, reset
 * and call again. */
void fan_aggregator_tick(struct fan_aggregator *ag, uint64_t now_ns, struct fan_out *out);

/* Time of the next tick; UINT64_MAX: none is needed. */
uint64_t fan_aggregator_deadline(const struct fan_aggregator *ag);

/* Take the oldest event; false if there is none. */
bool fan_aggregator_event(struct fan_aggregator *ag, struct fan_event *ev);

/* Names of jobs whose end the aggregator's owner waits for; names derived from them, which begin
 * alike, count too. */
struct fan_drain {
	bool goodbye;	/* nobody will be in its place: fan_aggregator_stop */
	unsigned count; /* 0: all jobs */
	char head[FAN_DRAIN_JOBS_MAX][FAN_DRAIN_HEAD_BYTES + 1];
};

/* As fan_switch_behind_loses, of an aggregator that has a parent.  Answers to ECHO are prepared
 * here. */
void fan_aggregator_behind_loses(struct fan_aggregator *ag, uint16_t bytes);

/* Admit only members again from now on: other JOINs get no answer, so that ranks retry, wherever
 * the next aggregator is; or, of->goodbye, as fan_aggregator_stop. */
void fan_aggregator_drain(struct fan_aggregator *ag, uint64_t now_ns, const struct fan_drain *of);

/* Stop the aggregator for good: from now on it refuses strangers, opens no rounds, and fails its
 * jobs with FAN_E_STOPPED as soon as the open rounds have ended, FAN_STOP_FINISH_NS from now at the
 * latest. */
void fan_aggregator_stop(struct fan_aggregator *ag, uint64_t now_ns);

/* Count the jobs that are waited for and are READY or have FAILED: their members may lack a result,
 * or the news.  One that is FORMING never will be READY. */
unsigned fan_aggregator_undrained(const struct fan_aggregator *ag);

/* Fill in the report of job number r->index (0 .. jobs-1). */
void fan_aggregator_report(const struct fan_aggregator *ag, struct fan_report *r);

/* Assert all invariants, round by round: for tests and simulations. */
void fan_aggregator_audit(const struct fan_aggregator *ag);

const struct fan_aggregator_stats *fan_aggregator_stats(const struct fan_aggregator *ag);

#endif
