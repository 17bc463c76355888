/* SPDX-License-Identifier: Apache-2.0 */
/* round_add.h - pool-based streaming aggregation (SwitchML, NSDI'21, section 3).
 *
 * A static pool of slots per job.  A worker sends fragment n + W only after the result of
 * n, so while any rank is in round k of a slot, all are in rounds k - 1 to k + 1: two
 * versions are enough, and a lost result can always be sent again from the other one.
 * SwitchML's rounds alternate one bit; here every round has its full fragment number, so
 * a stale or forged packet can never open a round out of turn. */
#ifndef FAN_SUM_ROUND_ADD_H
#define FAN_SUM_ROUND_ADD_H

#include "contribution.h"
#include "core/base/out.h"
#include "slot.h"

/* Details of a verdict. */
struct fan_round_outcome {
	enum fan_drop drop;		  /* FAN_DROP: the reason */
	fan_desc desc;			  /* FAN_FAIL: the fragment as this rank sent it */
	uint16_t other;			  /* FAN_FAIL: the rank with which it disagrees */
	fan_desc other_desc;		  /* FAN_FAIL: the fragment as that rank sent it */
	struct fan_round *round;	  /* the fragment's */
	bool opened;			  /* this contribution opened the round */
	uint64_t missing[FAN_RANK_WORDS]; /* FAN_ASK: ranks that are still missing */
};

/* Add the fit contribution `p` of a job of `ranks` to r->round, fan_pool_round of its fragment.
 *
 * FAN_WAIT, FAN_DONE: added; after DONE the round is DONE, or AWAITING if the pool's sums are
 * relayed.  FAN_REPLAY: it was in, and the round is done.
 * FAN_ASK: a sum that was not added, because some of its ranks are in and some are not (ATP,
 * NSDI'21, section 3).  The missing ranks are requested; they send to the aggregator alone, so
 * that requests end.
 * FAN_DROP: DUPLICATE (all of it was in), STALE, AHEAD.
 * FAN_FAIL: ranks disagree about the fragment or the root. */
enum fan_verdict fan_round_add(const struct fan_pool *pool, uint16_t ranks,
			       const struct fan_contribution *p, struct fan_round_outcome *r);

/* Rank `f->sender` probes for f->frag: FAN_REPLAY, FAN_ASK (its contribution is missing),
 * FAN_EARLY (the round waits for other ranks), or FAN_DROP. */
enum fan_verdict fan_round_probe(const struct fan_pool *pool, const struct fan_frag *f,
				 struct fan_round_outcome *r);

#endif
