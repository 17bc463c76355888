/* SPDX-License-Identifier: Apache-2.0 */
/* policy_switchml.h - pool-based streaming aggregation (SwitchML, NSDI'21, section 3).
 *
 * A static pool of slots per job.  A worker sends fragment n + W only when it has the
 * result of n, so while anyone works on round k of a slot, nobody is further than
 * round k + 1 or behind round k - 1: two versions are enough, and a lost result can
 * always be fetched again from the other one.  Instead of one bit that a contribution
 * sets here and clears there, every round carries its full fragment number, so a stale
 * or forged packet can never open a round out of turn. */
#ifndef FAN_POLICY_SWITCHML_H
#define FAN_POLICY_SWITCHML_H

#include "slot.h"
#include "verdict.h"

/* Which of the pool's two questions a packet failed. */
struct fan_switchml {
	enum fan_drop drop;	 /* after FAN_DROP: why */
	fan_desc desc;		 /* after FAN_FAIL: what this rank sent */
	uint16_t other;		 /* after FAN_FAIL: the rank it disagrees with, may be NONE */
	fan_desc other_desc;	 /* after FAN_FAIL: and what that one sent */
	struct fan_round *round; /* the round, after WAIT, DONE and REPLAY */
	bool opened;		 /* this contribution is the round's first */
};

/* Take contribution `f` of rank f->sender of a job of `ranks`.
 *
 * FAN_WAIT, FAN_DONE: added; after DONE the round is DONE, or HELD if the pool's sums are
 * relayed.  FAN_REPLAY: was in, and the round is done.
 * FAN_DROP: DUPLICATE (was in, round open), STALE, AHEAD.
 * FAN_FAIL: ranks disagree about what the fragment is, or who the root is. */
enum fan_verdict fan_switchml_data(const struct fan_pool *pool, uint16_t ranks,
				   const struct fan_frag *f, struct fan_switchml *r);

/* All parts of the round are in: make the result of the sum, or hold it for a parent.  False:
 * the operation has no root. */
bool fan_switchml_finish(const struct fan_pool *pool, uint16_t ranks, struct fan_round *round,
			 const struct fan_frag *f);

/* Rank `f->sender` asks for the result of f->frag: FAN_REPLAY, FAN_ASK (its part is
 * missing), FAN_HELD (waits for others), or FAN_DROP. */
enum fan_verdict fan_switchml_probe(const struct fan_pool *pool, const struct fan_frag *f,
				    struct fan_switchml *r);

#endif
