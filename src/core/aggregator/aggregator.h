/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator.h - the switch role: sums fragments in a bounded number of slots.  It is also the
 * aggregator of ranks behind switches, switch.h, and completes what those could not.
 *
 * One fan_aggregator is one shard: its own slots, jobs and members, nothing shared with
 * another.  It owns no socket, clock, thread or memory.  The caller gives it every
 * datagram that arrives (recv), calls it when its deadline has passed (tick), and
 * sends what it writes into the fan_out, before the next call.  Beside the data path
 * it is the job's controller: it admits members, tests the multicast group, watches
 * health and tells everybody how a job stands.
 *
 * A switch may have a parent: then what it sums is not yet the result but its own
 * contribution there, where it is one member of the job of the same name, and the result is
 * the parent's.  So a job may have more workers than a switch has members. */
#ifndef FAN_AGGREGATOR_AGGREGATOR_H
#define FAN_AGGREGATOR_AGGREGATOR_H

#include "core/base/share.h"
#include "core/base/verdict.h"
#include "core/wire/ctlmsg.h"

struct fan_aggregator;

struct fan_aggregator_config {
	uint32_t slots;		/* of payload_bytes, twice: the shadow copies */
	uint16_t payload_bytes; /* largest payload of a fragment */
	uint16_t jobs_max;	/* 1 .. FAN_JOBS_MAX */
	uint16_t members_max;	/* over all jobs, 2 .. FAN_MEMBERS_MAX */
	uint16_t window_max;	/* most slots one job gets: its quota, for weight 1 */
	struct fan_shares shares;
	uint16_t ahead_max;   /* the same of a job whose ranks run ahead of each other, at most
			       * FAN_AHEAD_MAX; window_max then bounds what a rank has under way.
			       * 0: none may */
	uint32_t rx_bytes;    /* payload that the receive queue holds: a job's window x ranks x
			       * packet stays within it.  0: no such bound */
	uint16_t shards;      /* of the whole switch, told to workers */
	uint64_t epoch;	      /* differs between two lives of a switch, e.g. start time */
	uint8_t group_family; /* multicast results: 0 off, 4, 6 */
	uint16_t group_port;
	uint8_t group_base[16]; /* first group address; job i uses base + i */
	bool no_reminders;	/* of what switches may hold: to see what they are for */
	/* A parent, for which all that is summed here is one contribution. */
	uint16_t siblings; /* members of each job there, this switch one of them; 0: no parent */
	uint16_t index;	   /* its rank there */
	uint64_t nonce;	   /* random: begins its numbers of lives there */
};

/* Something for the log. */
enum fan_event_kind {
	FAN_EV_JOB_CREATED,
	FAN_EV_RANK_JOINED,
	FAN_EV_RANK_MOVED, /* comes by another path now: its switch may be silent */
	FAN_EV_RANK_REFUSED,
	FAN_EV_JOB_READY,
	FAN_EV_RANK_LEFT,
	FAN_EV_GROUP_OFF, /* results go by unicast from here on: too many were missed */
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
	fan_peer peer; /* JOINED, MOVED, REFUSED: where from */
	char name[FAN_NAME_MAX + 1];
};

struct fan_aggregator_stats {
	uint64_t packets;
	uint64_t contributions; /* added to a slot */
	uint64_t results;
	uint64_t replays;
	uint64_t needs;		/* NEEDs sent, each rank counted */
	uint64_t partials;	/* sums of switches that were added */
	uint64_t flushes;	/* reminders sent to switches */
	uint64_t progress_sent; /* ranks told how far the others are */
	uint64_t events_lost;	/* events overwritten before they were read */
	uint64_t drops[FAN_DROP_COUNT];
};

/* Bytes that a switch of this configuration needs; 0 if a field is out of range. */
size_t fan_aggregator_bytes(const struct fan_aggregator_config *cfg);

/* Make a switch in `mem`, fan_aggregator_bytes(cfg) bytes aligned to 64.  The memory
 * needs no clearing and belongs to the caller. */
struct fan_aggregator *fan_aggregator_init(void *mem, const struct fan_aggregator_config *cfg);

/* Handle one datagram of `len` bytes at `pkt` that `from` sent; `marked`: it met
 * congestion.  `out` has room for FAN_AGGREGATOR_OUT_MAX items: fan_out_has. */
enum fan_verdict fan_aggregator_recv(struct fan_aggregator *ag, uint64_t now_ns, fan_peer from,
				     const uint8_t *pkt, size_t len, bool marked,
				     struct fan_out *out);

/* Handle one datagram that the parent sent; `out` as for fan_aggregator_recv. */
enum fan_verdict fan_aggregator_recv_up(struct fan_aggregator *ag, uint64_t now_ns,
					const uint8_t *pkt, size_t len, bool marked,
					struct fan_out *out);

/* Do what time asks for: heartbeats overdue, group tests.  If `out` runs full the
 * deadline stays in the past; send, reset and call again.  An empty `out` has room for
 * FAN_AGGREGATOR_OUT_MAX items. */
void fan_aggregator_tick(struct fan_aggregator *ag, uint64_t now_ns, struct fan_out *out);

/* When tick wants to be called; UINT64_MAX: never. */
uint64_t fan_aggregator_deadline(const struct fan_aggregator *ag);

/* Why the last datagram was dropped; meaningful after FAN_DROP. */
enum fan_drop fan_aggregator_last_drop(const struct fan_aggregator *ag);

/* Take the oldest event; false if there is none. */
bool fan_aggregator_event(struct fan_aggregator *ag, struct fan_event *ev);

/* Fill in a report about job number r->index (0 .. jobs-1). */
void fan_aggregator_report(const struct fan_aggregator *ag, struct fan_report *r);

/* Fill in how ranks of job number m->index stand, from m->first on. */
void fan_aggregator_rank_stats(const struct fan_aggregator *ag, struct fan_rank_stats *m);

/* Assert all that holds between calls, round by round: for tests and simulations. */
void fan_aggregator_audit(const struct fan_aggregator *ag);

const struct fan_aggregator_stats *fan_aggregator_stats(const struct fan_aggregator *ag);

#endif
