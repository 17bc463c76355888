/* SPDX-License-Identifier: Apache-2.0 */
/* member.h - jobs and their members: admission, and the state of a job.
 *
 * A job forms while its ranks join, is ready once all have joined and have answered their WELCOME,
 * and ends when all have left.  A rank that has not answered may stem from a delayed or forged
 * JOIN, so another JOIN replaces it, and so does the JOIN of another job where there is no room
 * (admission.c).  Others may then know the job's id and epoch: if such a rank was replaced when all
 * ranks are sure, the job takes another id and epoch, which ranks learn by joining again.  A job
 * fails, for all members at once, when a rank is lost, leaves too early, gives up, or disagrees
 * with the others.  A failed job keeps its members until each has left or fallen silent, so that
 * all learn the cause; its slots and its name are free at once, for a new job. */
#ifndef FAN_AGGREGATOR_MEMBER_H
#define FAN_AGGREGATOR_MEMBER_H

#include "aggregator.h"
#include "core/recovery/seq_gap.h"
#include "core/sum/slot.h"
#include "core/wire/envelope.h"
#include "core/wire/progress.h"
#include "core/wire/route_table.h"

enum fan_member_flag {
	FAN_MEMBER_IN = 1 << 0,	   /* joined, and has not left */
	FAN_MEMBER_HEARD = 1 << 1, /* receives from the multicast group */
	FAN_MEMBER_LEFT = 1 << 2,  /* has left in good order */
	FAN_MEMBER_SURE = 1 << 3,  /* has sent a BEAT with its cookie, so its address is its own */
	/* has been SURE, under an epoch that others know, or has met a challenge before it came */
	FAN_MEMBER_FIRM = 1 << 4,
};

struct fan_member {
	uint64_t heard_ns; /* last packet from it */
	uint64_t nonce;	   /* of its JOIN: this life of the rank */
	uint32_t workers;  /* behind it: 1, or those below a switch */
	uint16_t replays;  /* results it missed, in this span of results: group.c */
	uint8_t flags;	   /* enum fan_member_flag */
	uint8_t path;	   /* number of the path by which it came last */
	uint16_t route;	   /* by which it came then; 0: none */
	uint8_t next_path; /* of its last JOIN: other than `path` until a BEAT comes by it */
	uint16_t next_route;
	uint32_t alive_ms; /* of its JOIN */
	bool moved;	   /* it has just come by another path */
	bool numbers;	   /* its JOIN has the option NUMBERS */
	bool next_to;	   /* no switch is between, and its packets have numbers */
	bool runs;	   /* its JOIN has the option RUNS, too */
	uint64_t claim_ns; /* when another life claimed the rank first; 0: none has (join.c) */
	uint16_t gap_of;   /* of the members behind the same switch, the one whose `gap` counts */
	struct fan_seq_gap gap; /* of the numbers of whoever is next to us on its path */
};

/* Why a job failed. */
struct fan_job_fault {
	int8_t err;		 /* enum fan_err; FAN_OK: it has not failed */
	uint16_t rank_a, rank_b; /* MISMATCH: two ranks that disagree */
	fan_desc desc_a, desc_b; /* MISMATCH: the fragment as each of them sent it */
	uint64_t blamed[FAN_RANK_WORDS];
	uint8_t hosts[FAN_HOSTS_BYTES]; /* LAUNCHES: as in struct fan_refuse */
};

struct fan_job {
	enum fan_job_state state;
	uint32_t id; /* index in the table (id & 0xff), a random byte, and newest route */
	uint32_t epoch;
	uint16_t ranks;
	uint16_t in;	 /* members that are IN */
	uint16_t left;	 /* members that LEFT */
	uint16_t proved; /* members that are SURE or FIRM */
	uint16_t payload_bytes;
	uint16_t window;    /* slots */
	uint16_t burst;	    /* option AHEAD: most fragments of a rank in flight; otherwise 0 */
	uint8_t options;    /* enum fan_join_option, the same for all ranks but GROUP */
	uint8_t tests_left; /* tests of the group before it is given up */
	uint32_t alive_ms;  /* the most that a rank has asked for that is sure */
	uint64_t since_ns;  /* its first JOIN */
	fan_peer source;    /* of that */
	/* READY, or FAILED by a stop: the next rank that gets it; `ranks`: all have */
	uint16_t telling;
	/* READY: the rank whose BEAT made it so, which knows; FAN_RANK_NONE: none */
	uint16_t answered;
	uint64_t ready_ns;     /* since when it is READY */
	uint64_t tell_ns;      /* when to inform all once more; UINT64_MAX: not */
	uint64_t last_frag;    /* being stopped: of the rounds that were open; 0: there are none */
	bool reported;	       /* FORMING: some who know its epoch are no members now */
	uint32_t workers;      /* READY: of the tree */
	uint16_t asked;	       /* window that its first rank requested, within the quota */
	bool below_ready;      /* FORMING: all members are ready, the parent is not */
	struct fan_worker *up; /* the uplink; NULL: none at the moment */
	uint64_t up_ns;	       /* below_ready and no `up`: time to join the parent */
	uint64_t test_ns;      /* time of the next test of the group; UINT64_MAX: none */
	uint64_t check_ns;     /* time of the next check for silent members */
	uint64_t results;      /* fragments finished */
	uint64_t replays;      /* results sent again */
	struct fan_job_work work; /* busy_ns up to `work_ns` */
	uint64_t work_ns;
	uint64_t still_ns; /* of its last result, or of the beginning of an operation after it */
	int32_t operations_open;    /* begun and not finished; less than 0 while a first is late */
	uint64_t runs_again;	    /* `results` from which on they may leave as runs */
	bool all_read_runs;	    /* all members do: core/wire/run.h */
	uint16_t span;		    /* results since the last look at group health */
	uint32_t member_base;	    /* index of its first member in the table */
	struct fan_member *members; /* by rank */
	fan_peer *peers;	    /* by rank; none: not IN */
	/* by rank: its next hop downwards; none: not IN, or an earlier rank has the same */
	fan_peer *hops;
	fan_peer *older_hops; /* as `hops`, of members on the previous route */
	uint16_t older_route;
	bool behind;	    /* some member is behind a switch */
	uint64_t remind_ns; /* time of the next look at open rounds; UINT64_MAX: none */
	uint32_t remind_at; /* first round of that look */
	uint32_t age_us;    /* smoothed age of completed rounds */
	/* For a job behind switches: rounds in the order in which they have opened, or were
	 * reminded of: entry n is round order[n % FAN_ORDER_MAX]. */
	uint16_t order[FAN_ORDER_MAX];
	uint16_t order_first, order_next; /* the oldest entry, and the next */
	uint16_t overtaker;		  /* the latest of which the result is there */
	struct fan_pool pool;
	struct fan_group group; /* members on the newest route, or all */
	/* members on the previous route; ranks 0: none.  Members on other routes must probe for
	 * results */
	struct fan_group older;
	struct fan_progress progress; /* option AHEAD: of its ranks, by contributions seen here */
	struct fan_job_fault fault;   /* FAILED: the cause */
	uint64_t launch;	      /* id of its launch; 0: none */
	uint8_t claim_hosts[FAN_HOSTS_BYTES]; /* of its member claimed last, and of the claim */
	char name[FAN_NAME_MAX + 1];
};

/* The jobs of one shard, their members and their slots. */
struct fan_jobs {
	struct fan_job *job; /* `max` entries; state NONE: free */
	uint16_t max;
	uint16_t used; /* entries from here on have held no job, and no page of memory yet */
	struct fan_member *members;
	fan_peer *peers;
	fan_peer *hops, *older_hops;
	uint32_t members_max;
	struct fan_slots slots;
	uint16_t window_max;
	bool greedy;
	uint16_t ahead_max;
	uint32_t rx_bytes; /* of each of rx_queues */
	uint16_t rx_queues;
	struct fan_secret secret;
	uint32_t lives; /* of jobs so far */
};

size_t fan_jobs_bytes(const struct fan_aggregator_config *cfg);
void fan_jobs_init(struct fan_jobs *t, void *mem, const struct fan_aggregator_config *cfg);

/* The job with this id, on any route, or NULL. */
static inline struct fan_job *fan_jobs_get(struct fan_jobs *t, uint32_t id)
{
	struct fan_job *j = (id & 0xff) < t->used ? &t->job[id & 0xff] : NULL;
	return j && j->state != FAN_JOB_NONE && fan_job_id_is(j->id, id) ? j : NULL;
}

/* Return the value that a BEAT of `rank` must repeat to prove that it receives at `at`,
 * by path `path`. */
uint64_t fan_jobs_cookie(const struct fan_jobs *t, const struct fan_job *j, uint16_t rank,
			 uint8_t path, const fan_peer *at);

/* Take a life of a rank in: fan_jobs_join. */
void fan_job_admit(struct fan_job *j, uint64_t now_ns, const fan_peer *from,
		   const struct fan_frag *head, const struct fan_join *m);

/* May the member send runs (core/wire/run.h), and does it read them? */
bool fan_job_has_runs(const struct fan_job *j, uint16_t rank);

/* From now on the member is where it has sent the last of its JOINs from, `from`. */
void fan_job_move(struct fan_job *j, uint16_t rank, const fan_peer *from);

/* The member has proved its address: by a BEAT (FAN_MEMBER_SURE), or before (FAN_MEMBER_FIRM). */
void fan_job_make_sure(struct fan_job *j, uint16_t rank, enum fan_member_flag how);

/* Has this rank of it proved its address? */
static inline bool fan_job_has_proved(const struct fan_job *j, uint16_t rank)
{
	return j->members[rank].flags & (FAN_MEMBER_SURE | FAN_MEMBER_FIRM);
}

/* Assert the invariants of a job; and of all jobs, their members and rounds: disjoint runs of
 * members and slots, and all counts. */
void fan_job_check(const struct fan_job *j);
void fan_jobs_audit(const struct fan_jobs *t);

/* Workers of all members. */
uint32_t fan_job_workers(const struct fan_job *j);

/* Do all ranks have this enum fan_member_flag? */
bool fan_job_all_have(const struct fan_job *j, uint8_t flag);

/* Is `from` the member `rank` of `j`, or the switch in front of it? */
static inline bool fan_job_is_member(const struct fan_job *j, uint16_t rank, const fan_peer *from)
{
	if (rank >= j->ranks || !(j->members[rank].flags & FAN_MEMBER_IN))
		return false;
	if (fan_peer_equal(&j->peers[rank], from))
		return true;
	return fan_peer_token(&j->peers[rank]) && fan_peer_same_hop(&j->peers[rank], from);
}

/* The job's id on the route of `rank`. */
static inline uint32_t fan_job_id_for(const struct fan_job *j, uint16_t rank)
{
	return fan_job_id_on(j->id, j->members[rank].route);
}

/* Remove the member: it has left in good order (`left`) or is lost. */
void fan_job_drop_member(struct fan_job *j, uint16_t rank, bool left);

/* Return the job's slots. */
void fan_job_free_slots(struct fan_job *j);

/* Return the job's slots, members and entry. */
void fan_job_free(struct fan_job *j);

/* Let `set` be the ranks that are missing in fragment `frag` or, while it forms, in the job. */
void fan_job_missing(const struct fan_job *j, uint64_t frag, bool waiting, uint64_t *set);

/* Number of fragments that are OPEN or AWAITING, and the oldest of them, UINT64_MAX if none. */
uint32_t fan_job_open(const struct fan_job *j, uint64_t *oldest);

#endif
