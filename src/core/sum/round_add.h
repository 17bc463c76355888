/* SPDX-License-Identifier: Apache-2.0 */
/* round_add.h - pool-based streaming aggregation (SwitchML, NSDI'21, section 3).
 *
 * A static pool of slots per job.  A worker sends fragment n + W only when it has the
 * result of n, so while anyone works on round k of a slot, nobody is further than
 * round k + 1 or behind round k - 1: two versions are enough, and a lost result can
 * always be fetched again from the other one.  Instead of one bit that a contribution
 * sets here and clears there, every round carries its full fragment number, so a stale
 * or forged packet can never open a round out of turn. */
#ifndef FAN_SUM_ROUND_ADD_H
#define FAN_SUM_ROUND_ADD_H

#include "core/base/verdict.h"
#include "part.h"
#include "slot.h"

/* What became of a packet, beside the verdict. */
struct fan_round_outcome {
	enum fan_drop drop;		  /* after FAN_DROP: why */
	fan_desc desc;			  /* after FAN_FAIL: what this rank sent */
	uint16_t other;			  /* after FAN_FAIL: the rank it disagrees with */
	fan_desc other_desc;		  /* after FAN_FAIL: and what that one sent */
	struct fan_round *round;	  /* the round, after all but FAN_DROP */
	bool opened;			  /* this contribution is the round's first */
	uint64_t missing[FAN_RANK_WORDS]; /* after FAN_ASK: ranks that are missing still */
};

/* Take part `p` of a job of `ranks`, which is fit.
 *
 * FAN_WAIT, FAN_DONE: added; after DONE the round is DONE, or AWAITING if the pool's sums are
 * relayed.  FAN_REPLAY: the rank's part was in, and the round is done.
 * FAN_ASK: the sum of several ranks, not added, since some of them are in and some are not (ATP,
 * NSDI'21, section 3).  Those are asked for their parts, which they send to the aggregator
 * alone, so that asking always ends.
 * FAN_DROP: DUPLICATE (all was in), STALE, AHEAD.
 * FAN_FAIL: ranks disagree about what the fragment is, or who the root is. */
enum fan_verdict fan_round_add(const struct fan_pool *pool, uint16_t ranks,
			       const struct fan_part *p, struct fan_round_outcome *r);

/* Rank `f->sender` asks for the result of f->frag: FAN_REPLAY, FAN_ASK (its part is
 * missing), FAN_EARLY (waits for others), or FAN_DROP. */
enum fan_verdict fan_round_probe(const struct fan_pool *pool, const struct fan_frag *f,
				 struct fan_round_outcome *r);

#endif
