/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - a slot policy: which fragment gets a slot, and where others go.
 *
 * The switch (switch.c) adds contributions that meet, sends full sums up, drops duplicates and
 * enforces quotas.  All else is decided by the job's policy, an object of functions:
 *
 *   atp     ATP, NSDI'21: a slot belongs to the fragment that took it; first come, first served.
 *   esa     ESA, arXiv 2201.06398: a higher priority takes the slot, and each contribution that
 *           fails to halves the slot's priority, so that stale sums are evicted in the end.  A slot
 *           whose sum has left, and that waits for the result, has priority 0.
 *   grid    GRID, ToN 2023: as atp, but a rank's contribution that finds no slot is dropped, and
 *           the rank gets NEED, makes its window smaller and sends it again.
 *   sa_atp  SA-ATP, ToN 2024: wraps another policy for jobs with run-ahead, core/helper.
 *
 * A policy knows slots, contributions and ranks.  Routes and parents are handled by routed.h.  A
 * new policy is a new policy_NAME.c and its line in FAN_SHARED_POLICIES; doc/extend.md has one. */
#ifndef FAN_SWITCH_POLICY_H
#define FAN_SWITCH_POLICY_H

#include "core/sum/shared_slot.h"
#include "core/wire/ctlmsg.h"
#include "switch.h"

struct fan_switch_job;

enum fan_contest {
	FAN_CONTEST_LOST,   /* the contribution goes to its goal, unaggregated */
	FAN_CONTEST_WON,    /* the slot's sum is evicted to its goal; the contribution takes it */
	FAN_CONTEST_YIELDS, /* as WON, because the slot yields by itself */
	FAN_CONTEST_LATE,   /* as LOST, because the other ranks are far past the fragment */
};

/* A destination: the helper `rank`, or the next hop (FAN_RANK_NONE). */
struct fan_goal {
	fan_peer peer;
	uint16_t rank;
};

/* In all functions `j` is the job that has the policy; contributions and slots are of this job
 * unless noted otherwise.  A function of a policy that does as most do is one of fan_plain_*. */
struct fan_slot_policy {
	const char *name;

	/* The slot of the fragment of `f`. */
	struct fan_sslot *(*place)(const struct fan_switch *sw, const struct fan_switch_job *j,
				   const struct fan_frag *f);

	/* The contribution finds `slot` with the sum of another fragment, of any job. */
	enum fan_contest (*contest)(struct fan_switch *sw, const struct fan_switch_job *j,
				    struct fan_sslot *slot, const struct fan_contribution *p);

	/* The contribution has no slot: it lost the contest, or the quota is used up. */
	enum fan_verdict (*unplaced)(struct fan_switch *sw, struct fan_switch_job *j,
				     const struct fan_contribution *p, struct fan_out *out);
};

/* How a switch serves ranks that are at different fragments, as SA-ATP does (core/helper): helpers
 * may send for others.  NULL in jobs whose ranks go in step. */
struct fan_run_ahead_ops {
	/* Handle a contribution, in the end by fan_switch_add. */
	enum fan_verdict (*recv)(struct fan_switch *sw, struct fan_switch_job *j,
				 const struct fan_contribution *p, struct fan_out *out);

	/* Shall the contribution take a slot, if its fragment has none? */
	bool (*wants)(const struct fan_switch_job *j, const struct fan_contribution *p);

	/* Does the slot yield to another job's contribution, whatever that job's policy wants? */
	bool (*yields)(const struct fan_switch_job *j, const struct fan_sslot *slot);

	/* The slot is not full after an addition: is it final nevertheless? */
	bool (*is_over)(const struct fan_switch_job *j, const struct fan_sslot *slot);

	/* The destination of unaggregated contributions to fragment `frag`; and a notice that those
	 * of `ranks`, one or a sum, go there now. */
	struct fan_goal (*goal)(const struct fan_switch *sw, const struct fan_switch_job *j,
				uint64_t frag);
	void (*lend)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_goal *goal,
		     uint64_t frag, const uint64_t *ranks);

	/* The rank of `p` probes for a result.  waits: its contribution is in `slot`, which is not
	 * full: can the probe go unanswered, since nothing is lost?  asks: the destination of the
	 * probe if no slot has the fragment. */
	void (*asked)(struct fan_switch *sw, struct fan_switch_job *j,
		      const struct fan_contribution *p, struct fan_out *out);
	bool (*waits)(const struct fan_switch_job *j, const struct fan_sslot *slot,
		      const struct fan_contribution *p);
	struct fan_goal (*asks)(const struct fan_switch *sw, const struct fan_switch_job *j,
				const struct fan_contribution *p);

	/* A reminder of the fragment of `f` has come, and its slot has been flushed. */
	void (*reminded)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
			 struct fan_out *out);

	/* PROGRESS from the child `from`, a request or an answer; and PROGRESS from above. */
	enum fan_verdict (*progress)(struct fan_switch *sw, struct fan_switch_job *j,
				     const fan_peer *from, const struct fan_frag *f,
				     struct fan_out *out);
	void (*heard)(struct fan_switch *sw, struct fan_switch_job *j, struct fan_frag *f);
};

#define FAN_X(NUMBER, name) extern const struct fan_slot_policy fan_policy_##name;
FAN_SHARED_POLICIES(FAN_X)
#undef FAN_X

/* The policy by its number, one that fan_policy_shares. */
const struct fan_slot_policy *fan_slot_policy(enum fan_policy number);

struct fan_sslot *fan_plain_place(const struct fan_switch *sw, const struct fan_switch_job *j,
				  const struct fan_frag *f);
enum fan_contest fan_plain_contest(struct fan_switch *sw, const struct fan_switch_job *j,
				   struct fan_sslot *slot, const struct fan_contribution *p);
enum fan_verdict fan_plain_unplaced(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_contribution *p, struct fan_out *out);

/* Handle a contribution as all policies do: add it to its slot, let it take one, or send it on. */
enum fan_verdict fan_switch_add(struct fan_switch *sw, struct fan_switch_job *j,
				const struct fan_contribution *p, struct fan_out *out);

/* A plug of the switch: what it does for jobs whose ranks run ahead of each other, as
 * SA-ATP has it (core/helper).  A job that does not knows nothing else of it. */

struct fan_switch;
struct fan_switch_job;
struct fan_child;

struct fan_run_ahead_calls {
	size_t job_bytes;   /* of the state of a job; all 0 when the job begins */
	size_t child_bytes; /* of the state of a child */

	/* Note the flags of the last BEAT of child `c` of the job: its ranks may run ahead, and
	 * this one may be a helper. */
	void (*beat)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_child *c);

	/* Child `c` of the job has left; and: the job is over. */
	void (*left)(struct fan_switch_job *j, const struct fan_child *c);
	void (*end)(struct fan_switch *sw, struct fan_switch_job *j);

	/* Child `now` is the rank that child `before` was, counted from 1; 0: that nobody was. */
	void (*take)(struct fan_switch *sw, uint16_t before, uint16_t now);

	/* By rank of the job: its deferred contributions that were given to helper `rank`; NULL:
	 * that rank is not below. */
	const uint32_t *(*row)(const struct fan_switch *sw, const struct fan_switch_job *j,
			       uint16_t rank);

	/* Fill in the statistics of ranks from m->first on, if the job does. */
	void (*rank_stats)(const struct fan_switch *sw, const struct fan_switch_job *j,
			   struct fan_rank_stats *m);
};

/* Defined by core/helper/policy_sa_atp.c. */
extern const struct fan_run_ahead_calls fan_run_ahead;

#endif
