/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - a slot policy: who gets a slot, and where a part goes that gets none.
 *
 * The switch (switch.c) does what all policies have in common: it adds parts that meet, sends
 * full sums up, drops duplicates and keeps to quotas.  Whatever policies differ in, it asks the
 * job's policy, an object of functions:
 *
 *   atp     ATP, NSDI'21: a slot belongs to the fragment that took it; first come, first served.
 *   esa     ESA, arXiv 2201.06398: a higher priority takes the slot, and each part that has not
 *           halves the slot's priority, so that what is stale gives way in the end.  A slot
 *           whose sum has left, and that waits for the result, has priority 0.
 *   sa_atp  SA-ATP, ToN 2024: wraps one of the others in jobs whose ranks run ahead of each
 *           other, policy_sa_atp.h.
 *
 * A policy knows slots, parts and ranks.  Whether a job has a route, or its aggregator a parent,
 * is the path's business, path.h.  To add a policy is to add an object, and a row in policy.c. */
#ifndef FAN_SWITCH_POLICY_H
#define FAN_SWITCH_POLICY_H

#include "core/sum/shared_slot.h"
#include "switch.h"

struct fan_switch_job;

enum fan_contest {
	FAN_CONTEST_LOST,   /* the part goes to its goal, unsummed */
	FAN_CONTEST_WON,    /* what is in the slot goes to its goal, and the part takes it */
	FAN_CONTEST_YIELDS, /* the same, since the slot gives way by itself */
	FAN_CONTEST_LATE,   /* lost, since the others have long passed the part's fragment */
};

/* Where something goes: to the helper `rank`, or up (FAN_RANK_NONE). */
struct fan_goal {
	fan_peer peer;
	uint16_t rank;
};

/* In all of them `j` is the job that has the policy, and a part or slot is its own unless
 * something else is said. */
struct fan_slot_policy {
	const char *name;
	bool has_helpers; /* ranks that keep sums for others speak for those, too */

	/* The slot in which the parts of the fragment of `f` meet. */
	struct fan_sslot *(*place)(const struct fan_switch *sw, const struct fan_switch_job *j,
				   const struct fan_frag *f);

	/* Take in a part; what is common to all is fan_switch_add. */
	enum fan_verdict (*recv)(struct fan_switch *sw, struct fan_switch_job *j,
				 const struct fan_part *p, struct fan_out *out);

	/* Is a slot of use to the part, whose fragment has none? */
	bool (*wants)(const struct fan_switch_job *j, const struct fan_part *p);

	/* The part meets `slot`, which holds something of another fragment, of whichever job. */
	enum fan_contest (*contest)(struct fan_switch *sw, const struct fan_switch_job *j,
				    struct fan_sslot *slot, const struct fan_part *p);

	/* Does the slot give way to a part of another job, whatever that one's policy says? */
	bool (*gives_way)(const struct fan_switch_job *j, const struct fan_sslot *slot);

	/* The part has been added, and the slot is not full: will no other come? */
	bool (*is_over)(const struct fan_switch_job *j, const struct fan_sslot *slot);

	/* The part goes past `slot`, which has its key, since it is sent again. */
	void (*passes)(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
		       const struct fan_part *p, struct fan_out *out);

	/* Where goes what no slot holds of fragment `frag`?  And: parts of `ranks`, one or a sum,
	 * go there now. */
	struct fan_goal (*goal)(const struct fan_switch *sw, const struct fan_switch_job *j,
				uint64_t frag);
	void (*lend)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_goal *goal,
		     uint64_t frag, const uint64_t *ranks);

	/* A rank asks for a result; `p` says who.  Then: its part is in `slot`, a sum that waits
	 * for others; is nothing lost, so that nobody need be asked?  And if no slot has the
	 * fragment: who is asked? */
	void (*asked)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_part *p,
		      struct fan_out *out);
	bool (*waits)(const struct fan_switch *sw, const struct fan_switch_job *j,
		      const struct fan_sslot *slot, const struct fan_part *p);
	struct fan_goal (*asks)(const struct fan_switch *sw, const struct fan_switch_job *j,
				const struct fan_part *p);

	/* The aggregator has reminded of the fragment of `f`, and its slot has been flushed. */
	void (*reminded)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
			 struct fan_out *out);

	/* How far the ranks are: `from`, below, asks or answers; and what came from above. */
	enum fan_verdict (*progress)(struct fan_switch *sw, struct fan_switch_job *j,
				     const fan_peer *from, const struct fan_frag *f,
				     struct fan_out *out);
	void (*heard)(struct fan_switch *sw, struct fan_switch_job *j, struct fan_frag *f);
};

extern const struct fan_slot_policy fan_policy_atp, fan_policy_esa, fan_policy_sa_atp;

/* The policy by its number, FAN_POLICY_ATP or FAN_POLICY_ESA. */
const struct fan_slot_policy *fan_slot_policy(enum fan_policy number);

/* What policies that do nothing about slow ranks have in common. */
#define FAN_POLICY_PLAIN                                                                           \
	.place = fan_plain_place, .recv = fan_switch_add, .wants = fan_plain_wants,                \
	.gives_way = fan_plain_never, .is_over = fan_plain_never, .passes = fan_plain_passes,      \
	.goal = fan_plain_goal, .lend = fan_plain_lend, .asked = fan_plain_asked,                  \
	.waits = fan_plain_waits, .asks = fan_plain_asks, .reminded = fan_plain_reminded,          \
	.progress = fan_plain_progress, .heard = fan_plain_heard

struct fan_sslot *fan_plain_place(const struct fan_switch *sw, const struct fan_switch_job *j,
				  const struct fan_frag *f);
bool fan_plain_wants(const struct fan_switch_job *j, const struct fan_part *p);
bool fan_plain_never(const struct fan_switch_job *j, const struct fan_sslot *slot);
void fan_plain_passes(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
		      const struct fan_part *p, struct fan_out *out);
struct fan_goal fan_plain_goal(const struct fan_switch *sw, const struct fan_switch_job *j,
			       uint64_t frag);
void fan_plain_lend(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_goal *goal,
		    uint64_t frag, const uint64_t *ranks);
void fan_plain_asked(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_part *p,
		     struct fan_out *out);
bool fan_plain_waits(const struct fan_switch *sw, const struct fan_switch_job *j,
		     const struct fan_sslot *slot, const struct fan_part *p);
struct fan_goal fan_plain_asks(const struct fan_switch *sw, const struct fan_switch_job *j,
			       const struct fan_part *p);
void fan_plain_reminded(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
			struct fan_out *out);
enum fan_verdict fan_plain_progress(struct fan_switch *sw, struct fan_switch_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out);
void fan_plain_heard(struct fan_switch *sw, struct fan_switch_job *j, struct fan_frag *f);

/* The common part of taking in a part: add it to its slot, let it take one, or send it on. */
enum fan_verdict fan_switch_add(struct fan_switch *sw, struct fan_switch_job *j,
				const struct fan_part *p, struct fan_out *out);

#endif
