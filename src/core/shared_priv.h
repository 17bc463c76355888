/* SPDX-License-Identifier: Apache-2.0 */
/* shared_priv.h - what shared.c (fragments) and relay.c (children, control messages and
 * the way down) share. */
#ifndef FAN_SHARED_PRIV_H
#define FAN_SHARED_PRIV_H

#include "policy_shared.h"
#include "via.h"

/* A life of a rank that sends through here: a worker, or one behind a switch below. */
struct fan_child {
	fan_peer peer;	   /* the worker; or the switch below, and its token for it */
	uint64_t nonce;	   /* of its last JOIN */
	uint64_t heard_ns; /* last control message... */
	uint32_t job, epoch;
	uint16_t rank; /* ...and what it was about */
	bool used;
	char name[FAN_NAME_MAX + 1]; /* of the job, in its last JOIN */
};

/* As in struct fan_shared_stats, for one job. */
struct fan_use {
	uint64_t hits, taken, collisions, over_quota, passed;
	uint64_t preemptions; /* by it */
	uint64_t evictions;   /* of it */
	uint64_t flushes, completions, results;
};

/* Count for the switch and for the job. */
#define FAN_COUNT(sh, j, what) ((sh)->stats.what++, (j)->use.what++)

/* What the home's envelopes have told of a job. */
struct fan_shared_job {
	uint32_t id, epoch;
	bool used;
	bool switches; /* some ranks are behind a switch below */
	uint16_t ranks, window, payload_bytes;
	uint16_t children;		/* ranks that are below */
	uint64_t below[FAN_RANK_WORDS]; /* those */
	uint32_t held;			/* slots */
	uint32_t quota;			/* the most it may hold; 0: all */
	uint64_t fill_ns;		/* smoothed: a slot's first part to its last... */
	uint64_t turn_ns;		/* ...and its sum to the result */
	struct fan_use use;
	char name[FAN_NAME_MAX + 1]; /* empty: not known, since a JOIN would tell it */
	struct fan_group group;
	fan_peer hops[FAN_RANKS_MAX];  /* where to send once, as in struct fan_job */
	uint16_t child[FAN_RANKS_MAX]; /* number of the rank's child + 1; 0: not below */
};

struct fan_shared {
	struct fan_shared_config cfg;
	enum fan_contest (*contest)(const struct fan_shared_config *cfg, struct fan_sslot *slot,
				    const struct fan_frag *f);
	struct fan_sslots slots;
	struct fan_child *children; /* token - 1 is the index */
	uint64_t deadline_ns, now_ns;
	struct fan_shared_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every ECHOED, which is cut to its length */
	struct fan_shared_job job[FAN_JOBS_MAX]; /* as the home numbers them */
};

enum fan_verdict fan_shared_drop(struct fan_shared *sh, enum fan_drop why);

/* The job, or NULL: nothing is known of it, or of this life of it. */
static inline struct fan_shared_job *fan_shared_job_of(struct fan_shared *sh, uint32_t id,
						       uint32_t epoch)
{
	struct fan_shared_job *j = &sh->job[(id & 0xff) % FAN_JOBS_MAX];
	return j->used && j->id == id && j->epoch == epoch ? j : NULL;
}

/* Where the child of `rank` is reached; none if it is not below. */
fan_peer fan_relay_hop(const struct fan_shared *sh, const struct fan_shared_job *j, uint16_t rank);

/* Answer `f` of an unknown child: who are you? */
enum fan_verdict fan_relay_ask_who(struct fan_shared *sh, const fan_peer *to,
				   const struct fan_frag *f, enum fan_drop why,
				   struct fan_out *out);

/* A control message from below, and one from above. */
enum fan_verdict fan_relay_up(struct fan_shared *sh, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out);
enum fan_verdict fan_relay_down(struct fan_shared *sh, const struct fan_frag *f,
				struct fan_out *out);

/* usage.c - questions about the switch. */
void fan_usage_prepare(struct fan_shared *sh);
enum fan_verdict fan_usage_recv(struct fan_shared *sh, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out);

/* Send `f` on as it came. */
void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f);

/* Send a fragment's message on to the children it is for. */
enum fan_verdict fan_relay_fragment(struct fan_shared *sh, struct fan_shared_job *j,
				    const struct fan_frag *f, struct fan_out *out);

#endif
