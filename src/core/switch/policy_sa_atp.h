/* SPDX-License-Identifier: Apache-2.0 */
/* policy_sa_atp.h - SA-ATP around another slot policy: a switch and ranks that run ahead of each
 * other.
 *
 * It sees how far each rank below is.  A slot whose missing ranks are stragglers gives way
 * to whoever wants it, and the sum in it goes to a helper, which keeps it (helper_cache.h),
 * or up.  So do parts that are late: those of a fragment that the furthest rank has long
 * passed and that no slot holds any more.  Who gets a slot otherwise, the wrapped policy says.
 *
 * Helpers are chosen for a block of fragments at a time, when the first rank enters
 * it, so all that is unaggregated of a fragment has one place to go for as long as it lives.  Only
 * a switch where the parts of all ranks meet chooses.  doc/protocol/run-ahead.md; adr 10, 15. */
#ifndef FAN_SWITCH_POLICY_SA_ATP_H
#define FAN_SWITCH_POLICY_SA_ATP_H

#include "core/wire/progress.h"
#include "policy.h"

#define FAN_HELPER_BLOCKS 32 /* remembered: two windows' worth */

/* The helpers of a block of fragments. */
struct fan_helper_block {
	uint64_t number;		/* + 1; 0: none yet */
	uint64_t ranks[FAN_RANK_WORDS]; /* take turns */
	uint16_t count;			/* of them; 0: what is unaggregated goes up... */
	uint16_t share;			/* ...as do others than so many of 256 parts */
};

/* How long what goes somewhere waits there: from a question to its answer. */
struct fan_helper_wait {
	uint64_t asked_ns; /* the question that is under way; 0: none */
	uint32_t frag;	   /* low bits of its fragment */
	uint32_t took_ns;  /* smoothed; 0: not known */
	uint32_t least_ns;
	bool fresh; /* heard of since the last block was entered */
};

/* What a switch knows of a job's ranks, beyond who they are. */
struct fan_sa_atp {
	const struct fan_slot_policy *inner; /* the policy that is wrapped; NULL: the job's ranks
					      * do not run ahead, and the rest is unused */
	struct fan_stretch due;		     /* its slots... */
	struct fan_stretch in[2]; /* ...those of fragments before `since`, and from it on */
	uint64_t since;
	uint64_t offers[FAN_RANK_WORDS]; /* ranks below that have a cache */
	uint64_t full[FAN_RANK_WORDS];	 /* of them: had no room... */
	uint64_t full_until_ns;		 /* ...and are left in peace until then */
	uint64_t entered;		 /* blocks that some rank has come to */
	struct fan_progress progress;
	struct fan_helper_block block[FAN_HELPER_BLOCKS];
	struct fan_helper_wait wait[FAN_RANKS_MAX + 1]; /* at helpers, and above */
	uint32_t share;					/* of further blocks */
	uint32_t lent[FAN_RANKS_MAX];			/* by rank: what it was given to keep... */
	uint32_t deferred[FAN_RANKS_MAX]; /* ...and its parts that went unaggregated while it
					   * was a straggler */
};

/* A BEAT of child `c` has come, or is known of already, and belongs to the job: its ranks may
 * run ahead, and this one may keep sums for others. */
struct fan_child;
void fan_sa_atp_beat(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_child *c);

/* Child `c` of the job has gone. */
void fan_sa_atp_left(struct fan_switch_job *j, const struct fan_child *c);

/* The job is over. */
void fan_sa_atp_end(struct fan_switch *sw, struct fan_switch_job *j);

/* By rank of the job: its parts that were given to `rank` to keep, of its deferred ones; NULL:
 * there is nobody of that rank. */
const uint32_t *fan_sa_atp_row(const struct fan_switch *sw, const struct fan_switch_job *j,
			       uint16_t rank);

/* How ranks from m->first on stand beside the others; nothing, if they do not run ahead. */
void fan_sa_atp_rank_stats(const struct fan_switch *sw, const struct fan_switch_job *j,
			   struct fan_rank_stats *m);

#endif
