/* SPDX-License-Identifier: Apache-2.0 */
/* ctlmsg.h - every control message: membership, health and questions.
 *
 * A control message is the header (type >= FAN_TYPE_CTL) and a body with the fields below in
 * this order, packed, little-endian.  A body may be longer than known here: later minor
 * revisions append fields, a receiver ignores what it does not know.  doc/protocol/base.md,
 * section 4. */
#ifndef FAN_WIRE_CTLMSG_H
#define FAN_WIRE_CTLMSG_H

#include "core/base/out.h"
#include "core/base/rank_set.h"
#include "wire.h"

enum fan_join_option {
	FAN_JOIN_GROUP = 1 << 0,   /* I can listen to a multicast group */
	FAN_JOIN_SUMMED = 1 << 1,  /* checksums cover the payloads of this job */
	FAN_JOIN_WIDE = 1 << 2,	   /* slots hold twice the payload: half types at full size */
	FAN_JOIN_AHEAD = 1 << 3,   /* ranks run ahead of each other by the window, and have no
				    * more than a burst under way */
	FAN_JOIN_NUMBERS = 1 << 4, /* I can number what I send, and heed MISS */
};

/* JOIN.  header: sender = rank, nonce (random, one per life of a worker), path. */
struct fan_join {
	uint16_t ranks;		/* size of the job */
	uint16_t payload_bytes; /* of a full fragment, multiple of 8 */
	uint16_t window;	/* slots wanted; 2 or more; 0: as many as the switch gives */
	uint8_t options;	/* enum fan_join_option */
	uint32_t alive_ms;	/* silence after which a rank is lost */
	uint8_t name_bytes;
	char name[FAN_NAME_MAX + 1]; /* with a terminating zero, which is not on the wire */
	uint32_t workers; /* behind this rank: 1, or those below a switch.  On the wire unless 1 */
};

/* WELCOME.  header: job, epoch, nonce and path of the JOIN. */
struct fan_welcome {
	uint16_t window; /* slots of the job = fragments in flight */
	uint16_t shards; /* UDP ports from the one asked on; each is joined on its own */
	uint32_t beat_ms;
	uint32_t alive_ms;
	uint8_t group_family; /* 0: no multicast; 4; 6 */
	uint16_t group_port;
	uint8_t group[16]; /* address, network order; IPv4 in the first four bytes */
	uint16_t burst;	   /* AHEAD: fragments that a rank has under way, 1 .. window.  0, and not
			    * on the wire: the job is no such one */
	uint8_t flags;	   /* enum fan_welcome_flag */
};

enum fan_welcome_flag {
	FAN_WELCOME_NUMBERS = 1 << 0, /* number what you send; what you miss, ask for by MISS */
};

/* REFUSE.  header: nonce of the JOIN. */
struct fan_refuse {
	int8_t err;    /* enum fan_err */
	uint16_t rank; /* the rank it is about, or FAN_RANK_NONE */
	uint32_t have; /* what the switch or the other ranks have */
	uint32_t want; /* what the JOIN asked for */
};

/* JOB_MISMATCH: what ranks disagree about stands in bits 24..31 of `have` and `want`,
 * the values in the lower ones. */
enum fan_refuse_about {
	FAN_ABOUT_RANKS = 1,
	FAN_ABOUT_PAYLOAD = 2,
	FAN_ABOUT_OPTIONS = 3, /* enum fan_join_option */
	FAN_ABOUT_WINDOW = 4,  /* `want` is less than the job's */
	FAN_ABOUT_ROUTE = 5,
};

enum fan_beat_flag {
	FAN_BEAT_HEARD = 1 << 0,   /* the multicast group was heard */
	FAN_BEAT_WAITING = 1 << 1, /* header's frag is waited for */
	FAN_BEAT_AHEAD = 1 << 2,   /* the job has the option AHEAD */
	FAN_BEAT_LEADS = 1 << 3,   /* can keep sums for others: helper_cache.h */
};

/* How a rank's cache for slower ranks is used; more than 65535 is told as that. */
struct fan_helper_cache_use {
	uint16_t frags; /* sums that it has room for; 0: not known */
	uint16_t open;	/* sums that wait in it... */
	uint16_t peak;	/* ...and the most there have been */
};

/* BEAT.  header: job, epoch, sender = rank, nonce, frag = the oldest fragment waited for. */
struct fan_beat {
	uint8_t flags;			   /* enum fan_beat_flag */
	struct fan_helper_cache_use cache; /* LEADS; on the wire if not 0 */
};

enum fan_job_state {
	FAN_JOB_NONE = 0,    /* no such job */
	FAN_JOB_FORMING = 1, /* not all ranks are here; missing = those */
	FAN_JOB_READY = 2,   /* missing = ranks whose part of header's frag is missing */
	FAN_JOB_FAILED = 3,  /* err says why; missing = ranks to blame */
	FAN_JOB_LEFT = 4,    /* to one rank: its LEAVE has been noted */
};

/* What a fragment claims to be, for comparing ranks: FAN_DESC_* below. */
typedef uint32_t fan_desc;

/* STATE.  header: job, epoch, nonce of the BEAT or LEAVE that it answers; 0: it goes to all.  One
 * that goes to the group while the job forms also tests the group: a BEAT says that it was heard.
 */
struct fan_state {
	uint64_t frag; /* as in the BEAT */
	uint8_t state; /* enum fan_job_state */
	int8_t err;    /* FAILED: enum fan_err */
	uint8_t multicast;
	uint16_t ranks;
	uint16_t rank_a, rank_b; /* FAILED, MISMATCH: two ranks that disagree... */
	fan_desc desc_a, desc_b; /* ...and what each of them sent */
	uint64_t missing[FAN_RANK_WORDS];
	uint32_t workers; /* READY: of the whole tree.  0, and not on the wire: as many as ranks */
};

/* LEAVE.  header: job, epoch, sender = rank, nonce. */
struct fan_leave {
	int8_t err; /* FAN_OK: done; else why the worker gave up */
	uint64_t blamed[FAN_RANK_WORDS];
};

/* What a QUERY asks and a REPORT tells: header's topic.  Its nonce is the asker's choice. */
enum fan_topic {
	FAN_TOPIC_JOB = 0,     /* struct fan_report */
	FAN_TOPIC_SLOTS = 1,   /* struct fan_tallied */
	FAN_TOPIC_RANKS = 2,   /* struct fan_lags */
	FAN_TOPIC_HELPERS = 3, /* struct fan_helps */
	FAN_TOPIC_ECHO = 4,    /* struct fan_echo, answered with struct fan_echoed */
	FAN_TOPIC_COUNT
};

/* QUERY about all but ECHO.  The body is filled up to FAN_REPORT_BYTES so that an answer is
 * never larger than its question. */
struct fan_query {
	uint16_t index; /* which job: 0, 1, ... */
	uint16_t first; /* RANKS: the first rank to be told about.  HELPERS: the first pair */
};

/* REPORT about JOB. */
struct fan_report {
	uint16_t index;
	uint16_t jobs; /* jobs there are; index >= jobs: nothing but shards is set */
	uint8_t state; /* enum fan_job_state */
	int8_t err;
	uint8_t multicast;
	uint16_t ranks;
	uint16_t window;
	uint16_t shards;		  /* of the switch: each reports about its own port */
	uint64_t results;		  /* fragments finished */
	uint64_t replays;		  /* results sent again */
	uint64_t oldest;		  /* oldest fragment that waits for somebody */
	uint32_t waiting;		  /* how many fragments wait */
	uint64_t missing[FAN_RANK_WORDS]; /* ranks that `oldest`, or the job, waits for */
	uint8_t name_bytes;
	char name[FAN_NAME_MAX + 1];
};
#define FAN_REPORT_BYTES 160 /* room for fields to come; a REPORT never fills it */

/* REPORT about SLOTS.  Counts are those of struct fan_switch_stats, for the one job. */
struct fan_tallied {
	uint16_t index;
	uint16_t jobs;	/* that have been seen here; index >= jobs: all below slots_used is 0 */
	uint8_t policy; /* enum fan_policy; 0: no slots are shared here */
	uint32_t slots, slots_used;
	uint32_t held;	/* slots of the job */
	uint32_t quota; /* the most it may hold; 0: all */
	uint64_t hits, taken, collisions, over_quota, passed;
	uint64_t preemptions; /* slots that it has taken from others... */
	uint64_t evictions;   /* ...and sums of it that others have driven out */
	uint64_t flushes, completions;
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
};

enum fan_rank_flag {
	FAN_RANK_STRAGGLES = 1 << 0, /* far behind the furthest */
	FAN_RANK_OFFERS = 1 << 1,    /* keeps sums for slower ranks... */
	FAN_RANK_FULL = 1 << 2,	     /* ...and has no room for more, as far as is known */
};

/* How a rank stands beside the others.  Fragments beyond 65535 are told as that. */
struct fan_standing {
	uint8_t flags;			   /* enum fan_rank_flag */
	uint16_t behind;		   /* fragments behind the furthest... */
	uint16_t most;			   /* ...and the most they have been */
	uint32_t lent;			   /* sums and parts that it was given to keep */
	uint32_t owed;			   /* its own parts that others had to keep a sum for */
	struct fan_helper_cache_use cache; /* as it told */
};

/* REPORT about RANKS: up to FAN_LAGS_RANKS ranks from `first` on. */
struct fan_lags {
	uint16_t index;
	uint16_t jobs;	    /* as many as are seen here; index >= jobs: all below is 0 */
	uint16_t ranks;	    /* of the job */
	uint8_t ahead;	    /* 1: its ranks run ahead of each other; else all below is 0 */
	uint64_t front;	    /* the fragment that the furthest rank comes to */
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
	uint16_t first; /* rank */
	uint8_t count;	/* of ranks told about, from `first` on */
	struct fan_standing rank[FAN_LAGS_RANKS];
};

/* A pair of ranks as a number: pairs are told in this order. */
#define FAN_HELP_PAIR(helper, helped) ((helper)*FAN_RANKS_MAX + (helped))

/* Rank pair / FAN_RANKS_MAX was given so many parts of rank pair % FAN_RANKS_MAX to keep. */
struct fan_help {
	uint16_t pair;
	uint32_t parts; /* at least 1 */
};

/* REPORT about HELPERS: pairs of ranks from `first` on.  Pairs that are left out have none. */
struct fan_helps {
	uint16_t index;
	uint16_t jobs;	    /* as in RANKS... */
	uint16_t ranks;	    /* ...of the job; index >= jobs: this and all below is 0 */
	uint8_t name_bytes; /* 0: not known */
	char name[FAN_NAME_MAX + 1];
	uint16_t first; /* pair, as asked */
	uint16_t next;	/* to ask from for the rest; 0: that was all */
	uint8_t count;
	struct fan_help help[FAN_HELPS_PAIRS]; /* pairs rise */
};

/* QUERY about ECHO.  The body is filled up with zeros to the length that is to be tried,
 * FAN_ECHO_MIN .. FAN_ECHO_MAX bytes. */
struct fan_echo {
	uint16_t answer_bytes; /* of the answer's body; 0: as many as the question's */
	uint16_t body_bytes;   /* get: what came; put: how long to make it */
};

/* REPORT about ECHO, filled up with zeros as the question asks. */
struct fan_echoed {
	uint16_t payload_bytes; /* that a slot holds: the largest a JOIN may ask for */
	uint16_t shards;	/* UDP ports of the switch */
	uint16_t window;	/* the most slots that a job gets from this shard */
	uint8_t group_family;	/* 0: no multicast results; 4; 6 */
	uint8_t version_bytes;
	char version[FAN_VERSION_MAX + 1]; /* of the program, with a terminating zero, which is
					    * not on the wire */
};

/* Decode the body of a control message whose header fan_wire_get accepted.
 * FAN_OK, FAN_E_SHORT, or FAN_E_FORMAT for a field out of its range. */
enum fan_err fan_join_get(struct fan_join *m, const struct fan_frag *f);
enum fan_err fan_welcome_get(struct fan_welcome *m, const struct fan_frag *f);
enum fan_err fan_refuse_get(struct fan_refuse *m, const struct fan_frag *f);
enum fan_err fan_beat_get(struct fan_beat *m, const struct fan_frag *f);
enum fan_err fan_state_get(struct fan_state *m, const struct fan_frag *f);
enum fan_err fan_leave_get(struct fan_leave *m, const struct fan_frag *f);
enum fan_err fan_query_get(struct fan_query *m, const struct fan_frag *f);
enum fan_err fan_report_get(struct fan_report *m, const struct fan_frag *f);
enum fan_err fan_tallied_get(struct fan_tallied *m, const struct fan_frag *f);
enum fan_err fan_lags_get(struct fan_lags *m, const struct fan_frag *f);
enum fan_err fan_helps_get(struct fan_helps *m, const struct fan_frag *f);
enum fan_err fan_echo_get(struct fan_echo *m, const struct fan_frag *f);
enum fan_err fan_echoed_get(struct fan_echoed *m, const struct fan_frag *f);

/* Encode a body into `b`, at least FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES bytes.
 * Returns its length. */
size_t fan_join_put(uint8_t *b, const struct fan_join *m);
size_t fan_welcome_put(uint8_t *b, const struct fan_welcome *m);
size_t fan_refuse_put(uint8_t *b, const struct fan_refuse *m);
size_t fan_beat_put(uint8_t *b, const struct fan_beat *m);
size_t fan_state_put(uint8_t *b, const struct fan_state *m);
size_t fan_leave_put(uint8_t *b, const struct fan_leave *m);
size_t fan_query_put(uint8_t *b, const struct fan_query *m);
size_t fan_report_put(uint8_t *b, const struct fan_report *m);
size_t fan_tallied_put(uint8_t *b, const struct fan_tallied *m);
size_t fan_lags_put(uint8_t *b, const struct fan_lags *m);
size_t fan_helps_put(uint8_t *b, const struct fan_helps *m);
size_t fan_echo_put(uint8_t *b, const struct fan_echo *m);     /* b: m->body_bytes bytes */
size_t fan_echoed_put(uint8_t *b, const struct fan_echoed *m); /* b: FAN_ECHO_MIN; all of it */

/* Finish `it` as control message `h`, whose body of `bytes` bytes lies in the
 * out's scratch at `body`: sets checksum and payload. */
void fan_ctl_finish(struct fan_out_item *it, struct fan_frag *h, const uint8_t *body, size_t bytes);

/* Pack and unpack what a fragment claims to be. */
static inline fan_desc fan_desc_of(const struct fan_frag *f)
{
	return (uint32_t)f->count << 16 | (uint32_t)(f->flags & (FAN_F_FIRST | FAN_F_LAST)) << 8 |
	       (f->flags & FAN_F_REDUCE ? 1u << 10 : 0) | (uint32_t)f->op << 4 | f->dtype;
}
#define FAN_DESC_DTYPE(d)  ((d)&15u)
#define FAN_DESC_OP(d)	   ((d) >> 4 & 15u)
#define FAN_DESC_FIRST(d)  ((d) >> 8 & 1u)
#define FAN_DESC_LAST(d)   ((d) >> 9 & 1u)
#define FAN_DESC_REDUCE(d) ((d) >> 10 & 1u)
#define FAN_DESC_COUNT(d)  ((d) >> 16)

/* Let `f` claim to be `d`: type, operation, count, and the flags that fan_desc_of reads. */
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
