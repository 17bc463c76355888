/* SPDX-License-Identifier: Apache-2.0 */
/* ctlmsg.h - the control messages: membership, health and queries.
 *
 * A control message is the header (type >= FAN_TYPE_CTL) and a body with the fields below in
 * this order, packed, little-endian.  A body may be longer: later minor revisions append
 * fields, and receivers ignore fields that they do not know.  doc/protocol/base.md, section 4. */
#ifndef FAN_WIRE_CTLMSG_H
#define FAN_WIRE_CTLMSG_H

#include "core/base/out.h"
#include "core/base/rank_set.h"
#include "wire.h"

enum fan_join_option {
	FAN_JOIN_GROUP = 1 << 0,   /* the worker can listen to a multicast group */
	FAN_JOIN_SUMMED = 1 << 1,  /* checksums cover the payloads of this job */
	FAN_JOIN_WIDE = 1 << 2,	   /* slots hold twice the payload: half types at full size */
	FAN_JOIN_AHEAD = 1 << 3,   /* run-ahead by up to the window, at most a burst in flight */
	FAN_JOIN_NUMBERS = 1 << 4, /* the worker numbers its packets and obeys MISS */
	FAN_JOIN_RUNS = 1 << 5,	   /* the worker reads runs: run.h */
	FAN_JOIN_QUAD = 1 << 6,	   /* slots hold four times the payload: BLOCK8 at full size */
};

/* Payloads that a slot of a job with these options holds. */
static inline unsigned fan_join_width(unsigned options)
{
	return options & FAN_JOIN_QUAD ? 4 : options & FAN_JOIN_WIDE ? 2 : 1;
}

/* JOIN.  header: sender = rank, nonce (random, one per life of a worker), path. */
struct fan_join {
	uint16_t ranks;		/* size of the job */
	uint16_t payload_bytes; /* of a full fragment, multiple of 8 */
	uint16_t window;	/* slots requested, 2 or more; 0: as many as the switch grants */
	uint8_t options;	/* enum fan_join_option */
	uint32_t alive_ms;	/* silence after which a rank is lost */
	uint8_t name_bytes;
	char name[FAN_NAME_MAX + 1]; /* with a terminating zero, which is not on the wire */
	uint32_t workers;	     /* of this rank: all below an aggregator; 0: one */
	/* id of the launch, the same on all its ranks; 0: none; odd: no other launch has it */
	uint64_t launch;
	uint32_t claim; /* `have` of the REFUSE RANK_TAKEN that came before; 0: none did */
};

/* WELCOME.  header: job, epoch, nonce and path of the JOIN. */
struct fan_welcome {
	uint16_t window; /* slots of the job = fragments in flight */
	uint16_t shards; /* UDP ports from this one on; each is joined separately */
	uint32_t beat_ms;
	uint32_t alive_ms;
	uint8_t group_family; /* 0: no multicast; 4; 6 */
	uint16_t group_port;
	uint8_t group[16]; /* address, network order; IPv4 in the first four bytes */
	/* AHEAD: most fragments of a rank in flight, 1 .. window.  Without AHEAD 0 */
	uint16_t burst;
	uint8_t flags;	 /* enum fan_welcome_flag */
	uint64_t cookie; /* for BEATs: proves that the WELCOME has come */
};

enum fan_welcome_flag {
	FAN_WELCOME_NUMBERS = 1 << 0, /* number your packets; request lost results by MISS */
	FAN_WELCOME_RUNS = 1 << 1,    /* send runs where you like */
	FAN_WELCOME_QUAD = 1 << 2,    /* the job has QUAD */
};

#define FAN_HOSTS_BYTES 32 /* two addresses, each in network order, IPv4 mapped into IPv6 */

/* REFUSE.  header: nonce of the JOIN. */
struct fan_refuse {
	int8_t err;    /* enum fan_err */
	uint16_t rank; /* the rank concerned, or FAN_RANK_NONE */
	uint32_t have; /* the value of the aggregator or the other ranks */
	uint32_t want; /* the value of the JOIN */
	/* LAUNCHES: where `rank` is, and where the JOIN came from; otherwise 0, and not sent */
	uint8_t hosts[FAN_HOSTS_BYTES];
};

/* JOB_MISMATCH: bits 24..31 of `have` and `want` name the option on which ranks disagree, the
 * lower bits hold the values. */
enum fan_refuse_about {
	FAN_ABOUT_RANKS = 1,
	FAN_ABOUT_PAYLOAD = 2,
	FAN_ABOUT_OPTIONS = 3, /* enum fan_join_option */
	FAN_ABOUT_WINDOW = 4,  /* `want` is less than the job's */
	FAN_ABOUT_ROUTE = 5,
	FAN_ABOUT_LAUNCH = 6, /* 1: there is a launch; 0: there is none */
};

enum fan_beat_flag {
	FAN_BEAT_HEARD = 1 << 0,   /* the rank has received from the multicast group */
	FAN_BEAT_WAITING = 1 << 1, /* the rank waits for the header's frag */
	FAN_BEAT_AHEAD = 1 << 2,   /* the job has the option AHEAD */
	FAN_BEAT_HELPER = 1 << 3,  /* the rank is a helper: helper.c */
};

/* Use of a helper cache; more than 65535 is sent as 65535. */
struct fan_helper_cache_use {
	uint16_t frags; /* capacity, sums; 0: not known */
	uint16_t open;	/* sums in it */
	uint16_t peak;	/* most sums that were in it */
};

/* BEAT.  header: job, epoch, sender = rank, nonce, frag = oldest fragment without a result. */
struct fan_beat {
	uint8_t flags;			   /* enum fan_beat_flag */
	uint64_t cookie;		   /* of the WELCOME */
	struct fan_helper_cache_use cache; /* HELPER; otherwise 0 */
};

enum fan_job_state {
	FAN_JOB_NONE = 0,    /* no such job */
	FAN_JOB_FORMING = 1, /* `missing`: ranks that have not joined */
	FAN_JOB_READY = 2,   /* `missing`: ranks that have not contributed to header's frag */
	FAN_JOB_FAILED = 3,  /* `err`: the cause; `missing`: ranks to blame */
	FAN_JOB_LEFT = 4,    /* to one rank: its LEAVE has come */
	FAN_JOB_AWAY = 5,    /* to one rank: a switch on its path is being stopped */
};

/* Description of a fragment, by which ranks are compared: FAN_DESC_* below. */
typedef uint32_t fan_desc;

/* Ranks are compared by these as well: the mark of an operation, in the exponent of its fragments.
 * base.md, section 6.2. */
enum fan_mark {
	FAN_MARK_NAME = 15, /* bits 0 .. 3: given by the caller; 0: none */
	FAN_MARK_OWN = 15,  /* of these: of the library itself */
	FAN_MARK_MEMBER =
		1 << 4, /* one of as many as there are ranks: of an all-gather or reduce-scatter */
	FAN_MARK_KIND = 31,	 /* these bits, which descriptions repeat */
	FAN_MARK_ROOT_SHIFT = 5, /* 8 bits: of a broadcast or reduce, modulo 256 */
	FAN_MARK_AVG = 1 << 13,	 /* a sum between hosts that is part of an average */
	FAN_MARK_HALF_SHIFT =
		14, /* 2 bits: enum fan_dtype of the half type that is summed as float32 */
};
#define FAN_MARK_ROOT(r)    ((uint16_t)(((unsigned)(r)&255) << FAN_MARK_ROOT_SHIFT))
#define FAN_MARK_ROOT_OF(m) ((uint16_t)((m) >> FAN_MARK_ROOT_SHIFT & 255))

/* STATE.  header: job, epoch, nonce of the BEAT or LEAVE that it answers; 0: it goes to all.  While
 * a job forms, a STATE to the group also tests the group: BEATs report that it was received. */
struct fan_state {
	uint64_t frag; /* as in the BEAT */
	uint8_t state; /* enum fan_job_state */
	int8_t err;    /* FAILED: enum fan_err */
	uint8_t multicast;
	uint16_t ranks;
	uint16_t rank_a, rank_b; /* FAILED, MISMATCH: two ranks that disagree */
	fan_desc desc_a, desc_b; /* FAILED, MISMATCH: the fragment as each of them sent it */
	uint64_t missing[FAN_RANK_WORDS];
	uint32_t workers; /* READY: of the tree.  As many as ranks: 0, and not on the wire */
	uint8_t hosts[FAN_HOSTS_BYTES]; /* FAILED, LAUNCHES: as in REFUSE */
};

/* LEAVE.  header: job, epoch, sender = rank, nonce. */
struct fan_leave {
	int8_t err; /* FAN_OK: finished; otherwise the cause for which the worker gives up */
	uint64_t blamed[FAN_RANK_WORDS];
};

/* The header's topic in QUERY and REPORT.  The nonce of a QUERY is arbitrary. */
enum fan_topic {
	FAN_TOPIC_JOB = 0,     /* struct fan_report */
	FAN_TOPIC_SLOTS = 1,   /* struct fan_slot_stats */
	FAN_TOPIC_RANKS = 2,   /* struct fan_rank_stats */
	FAN_TOPIC_HELPERS = 3, /* struct fan_helper_stats */
	FAN_TOPIC_ECHO = 4,    /* struct fan_echo, answered with struct fan_echoed */
	FAN_TOPIC_COUNT
};

/* QUERY of every topic but ECHO.  The body is padded to FAN_REPORT_BYTES so that an answer is
 * never larger than its query. */
struct fan_query {
	uint16_t index; /* of the job, from 0 */
	uint16_t first; /* RANKS: first rank of the answer.  HELPERS: first pair */
};

/* The work done for a job.  Known within the aggregator's process alone: no REPORT has it. */
struct fan_job_work {
	bool reported;	     /* the rest is known */
	uint64_t operations; /* finished */
	uint64_t bytes;	     /* of tensors, in finished fragments, as they are on the wire */
	/* operations under way, integrated over time: divided by `operations` it is the time of
	 * one, from its first contribution to its last result */
	uint64_t busy_ns;
};

/* REPORT of topic JOB. */
struct fan_report {
	uint16_t index;
	uint16_t jobs; /* number of jobs; index >= jobs: only `shards` is set below */
	uint8_t state; /* enum fan_job_state */
	int8_t err;
	uint8_t multicast;
	uint16_t ranks;
	uint16_t window;
	uint16_t shards;		  /* of the daemon; each reports its own jobs */
	uint64_t results;		  /* fragments finished */
	uint64_t replays;		  /* results sent again */
	uint64_t oldest;		  /* oldest incomplete fragment */
	uint32_t waiting;		  /* number of incomplete fragments */
	uint64_t missing[FAN_RANK_WORDS]; /* ranks missing in `oldest`, or in the job */
	uint8_t name_bytes;
	char name[FAN_NAME_MAX + 1];
	/* `waiting` not 0: since the last result, or the beginning of the operation if that is
	 * later; FAN_AGE_NOT_TOLD */
	uint32_t age_ms;
	uint16_t operations;	  /* under way; 0 also where that is not known */
	struct fan_job_work work; /* not on the wire */
};
#define FAN_AGE_NOT_TOLD UINT32_MAX
#define FAN_REPORT_BYTES 160 /* largest body of a REPORT but ECHO's; leaves room for new fields */

/* REPORT of topic SLOTS.  Counters are those of struct fan_switch_stats, of one job. */
struct fan_slot_stats {
	uint16_t index;
	uint16_t jobs;	/* jobs seen here; index >= jobs: all below slots_used is 0 */
	uint8_t policy; /* enum fan_policy; 0: there are no shared slots */
	uint32_t slots, slots_used;
	uint32_t held;	/* slots that the job holds */
	uint32_t quota; /* most slots that it may hold; 0: all */
	uint64_t hits, taken, collisions, over_quota, passed;
	uint64_t preemptions; /* slots that it took from other sums */
	uint64_t evictions;   /* its sums that were evicted */
	uint64_t flushes, completions;
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
};

enum fan_rank_flag {
	FAN_RANK_STRAGGLES = 1 << 0, /* is a straggler */
	FAN_RANK_OFFERS = 1 << 1,    /* is a helper */
	FAN_RANK_FULL = 1 << 2,	     /* is a helper that has lately reported a full cache */
};

/* Statistics of one rank.  More than 65535 fragments are sent as 65535. */
struct fan_standing {
	uint8_t flags;			   /* enum fan_rank_flag */
	uint16_t behind;		   /* lag, fragments */
	uint16_t most;			   /* largest lag so far, fragments */
	uint32_t lent;			   /* sums and contributions that it was given to keep */
	uint32_t deferred;		   /* its contributions that were deferred */
	struct fan_helper_cache_use cache; /* of its last BEAT */
};

/* REPORT of topic RANKS: up to FAN_STATS_RANKS ranks from `first` on. */
struct fan_rank_stats {
	uint16_t index;
	uint16_t jobs;	    /* jobs seen here; index >= jobs: all below is 0 */
	uint16_t ranks;	    /* of the job */
	uint8_t ahead;	    /* 1: the job has run-ahead; 0: `front` and `count` are 0 */
	uint64_t front;	    /* next fragment of the furthest rank */
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
	uint16_t first; /* rank of rank[0] */
	uint8_t count;	/* entries of `rank` */
	struct fan_standing rank[FAN_STATS_RANKS];
};

/* A pair of ranks as a number, by which pairs are ordered. */
#define FAN_HELPER_PAIR(helper, helped) ((helper)*FAN_RANKS_MAX + (helped))

/* REPORT of topic HELPERS: pairs of ranks from `first` on.  Omitted pairs have no contributions. */
struct fan_helper_stats {
	uint16_t index;
	uint16_t jobs;	    /* jobs seen here */
	uint16_t ranks;	    /* of the job; index >= jobs: this and all below is 0 */
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
	uint16_t first; /* pair, as in the query */
	uint16_t next;	/* `first` of a query for the rest; 0: there is no more */
	uint8_t count;	/* entries of `help` */
	/* Helper pair / FAN_RANKS_MAX, and the rank that it helped, pair % FAN_RANKS_MAX. */
	struct fan_helper_pair {
		uint16_t pair;
		uint32_t parts;	 /* contributions that it was given to keep, at least 1 */
	} help[FAN_STATS_PAIRS]; /* in ascending order of pairs */
};

/* QUERY of topic ECHO.  The body is padded with zeros to the length to be tested, FAN_ECHO_MIN ..
 * FAN_ECHO_MAX bytes. */
struct fan_echo {
	uint16_t answer_bytes; /* of the answer's body; 0: as many as the query's */
	uint16_t body_bytes;   /* of the query's body, padding included */
};

/* REPORT of topic ECHO, padded with zeros to the query's length. */
struct fan_echoed {
	uint16_t payload_bytes; /* of a slot: the most that a JOIN may request */
	uint16_t shards;	/* UDP ports of the daemon */
	uint16_t window;	/* most slots of a job on this shard */
	uint8_t group_family;	/* 0: no multicast results; 4; 6 */
	uint8_t version_bytes;
	/* of the program, with a terminating zero, which is not on the wire */
	char version[FAN_VERSION_MAX + 1];
	/* datagrams of so many bytes and more get lost between here and where sums go on; 0: none
	 * are known to */
	uint16_t behind_loses;
};

enum fan_body {
	FAN_BODY_JOIN,
	FAN_BODY_WELCOME,
	FAN_BODY_REFUSE,
	FAN_BODY_BEAT,
	FAN_BODY_STATE,
	FAN_BODY_LEAVE,
	FAN_BODY_QUERY,
	FAN_BODY_REPORT,
	FAN_BODY_SLOT_STATS,
	FAN_BODY_RANK_STATS,
	FAN_BODY_HELPER_STATS,
	FAN_BODY_ECHO,
	FAN_BODY_ECHOED,
};

/* The body that `...`, a pointer, points to. */
#define FAN_BODY_OF(...)                                                                           \
	_Generic(*(__VA_ARGS__), struct fan_join                                                   \
		 : FAN_BODY_JOIN, struct fan_welcome                                               \
		 : FAN_BODY_WELCOME, struct fan_refuse                                             \
		 : FAN_BODY_REFUSE, struct fan_beat                                                \
		 : FAN_BODY_BEAT, struct fan_state                                                 \
		 : FAN_BODY_STATE, struct fan_leave                                                \
		 : FAN_BODY_LEAVE, struct fan_query                                                \
		 : FAN_BODY_QUERY, struct fan_report                                               \
		 : FAN_BODY_REPORT, struct fan_slot_stats                                          \
		 : FAN_BODY_SLOT_STATS, struct fan_rank_stats                                      \
		 : FAN_BODY_RANK_STATS, struct fan_helper_stats                                    \
		 : FAN_BODY_HELPER_STATS, struct fan_echo                                          \
		 : FAN_BODY_ECHO, struct fan_echoed                                                \
		 : FAN_BODY_ECHOED)

/* Decode into `*m`, one of the structs above, the body of a control message whose header
 * fan_wire_get has accepted.
 * FAN_OK, FAN_E_SHORT, or FAN_E_FORMAT for a field out of its range. */
#define fan_ctl_get(m, f) fan_ctl_get_body(FAN_BODY_OF(m), m, f)
enum fan_err fan_ctl_get_body(enum fan_body body, void *m, const struct fan_frag *f);

/* Encode a struct above, to which `...` points, into `b`, at least
 * FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES bytes; an echo's `body_bytes`.  JOIN, BEAT and LEAVE are
 * filled up with zeros to FAN_CTL_UP_MIN bytes, a query's answers to FAN_ECHO_MIN.  Return its
 * length. */
#define fan_ctl_put(b, ...) fan_ctl_put_body(FAN_BODY_OF(__VA_ARGS__), b, __VA_ARGS__)
size_t fan_ctl_put_body(enum fan_body body, uint8_t *b, const void *m);

/* Make `it` the control message `h` with the `bytes` bytes at `body`, in the out's scratch, as its
 * body: sets checksum and payload. */
void fan_ctl_finish(struct fan_out_item *it, struct fan_frag *h, const uint8_t *body, size_t bytes);

/* Pack and unpack the description of a fragment. */
static inline fan_desc fan_desc_of(const struct fan_frag *f)
{
	uint32_t kind = f->dtype == FAN_FIXED32 ? 0 : (uint32_t)f->exponent & FAN_MARK_KIND;
	return kind << 11 | (uint32_t)f->count << 16 |
	       (uint32_t)(f->flags & (FAN_F_FIRST | FAN_F_LAST)) << 8 |
	       (f->flags & FAN_F_REDUCE ? 1u << 10 : 0) | (uint32_t)f->op << 4 | f->dtype;
}
#define FAN_DESC_DTYPE(d)  ((d)&15u)
#define FAN_DESC_OP(d)	   ((d) >> 4 & 15u)
#define FAN_DESC_FIRST(d)  ((d) >> 8 & 1u)
#define FAN_DESC_LAST(d)   ((d) >> 9 & 1u)
#define FAN_DESC_REDUCE(d) ((d) >> 10 & 1u)
#define FAN_DESC_KIND(d)   ((d) >> 11 & 31u)
#define FAN_DESC_COUNT(d)  ((d) >> 16)

/* Set the fields of `f` that `d` describes: type, operation, count, and some flags. */
static inline void fan_desc_put(struct fan_frag *f, fan_desc d)
{
	f->count = (uint16_t)FAN_DESC_COUNT(d);
	f->dtype = (uint8_t)FAN_DESC_DTYPE(d);
	f->op = (uint8_t)FAN_DESC_OP(d);
	f->flags |= (uint16_t)((FAN_DESC_FIRST(d) ? FAN_F_FIRST : 0) |
			       (FAN_DESC_LAST(d) ? FAN_F_LAST : 0) |
			       (FAN_DESC_REDUCE(d) ? FAN_F_REDUCE : 0));
}

#endif
