/* SPDX-License-Identifier: Apache-2.0 */
/* in_step.h - the workers of one rank, each with a part of every tensor, proceed in step.
 *
 * Their aggregators stand on different links.  Where each worker has a window of its own, the
 * aggregator whose host's link has the longest queue gets its part done early, since contributions
 * to it are most of what is in that queue, and delays the results of all others.  So a part that
 * has less left of its share than another has less in flight, and all parts together have one
 * window.
 *
 * A bound on windows alone: it never holds up the lowest fragment without a result. */
#ifndef FAN_CORE_IN_STEP_H
#define FAN_CORE_IN_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_IN_STEP_FRAGS  24 /* by which a part may be ahead of the last one */
#define FAN_IN_STEP_LEAST  4  /* least bound */
#define FAN_IN_STEP_RTO_MS 20 /* least time-out of results before the end */
#define FAN_IN_STEP_END_MS 5  /* at the end */

struct fan_in_step_part {
	double share;	 /* of the tensor, 0 to 1; 0: it has none, and delays nobody */
	double left;	 /* fragments of its own without a result */
	uint32_t window; /* that its aggregator granted */
	uint32_t allow;	 /* set: what it may have in flight (fan_worker_allow) */
};

/* Set `allow` of `parts` parts.  The one furthest ahead of the last may be so by `frags` fragments
 * of the whole tensor.  A part that has all of it is in step with nothing, and has its window.
 * True: the end, where all that is left may be in flight. */
bool fan_in_step_bound(struct fan_in_step_part *part, unsigned parts, double frags);

/* The least time-out of a result, in milliseconds.  Before the end queues hold contributions to
 * other parts: asking for results that stand behind them makes them longer.  At the end queues
 * empty, and no later result shows what is lost. */
static inline uint32_t fan_in_step_rto_ms(bool ends)
{
	return ends ? FAN_IN_STEP_END_MS : FAN_IN_STEP_RTO_MS;
}

/* The bound `allow` of a part of which `done` fragments have their results and `waiting` do not, so
 * that what is sent ends where a block of `block` fragments does.  As all ranks number fragments
 * alike, they send the same blocks: an aggregator has all of one at about the same time, its
 * results leave together, and what they make room for does.  Otherwise the ends of each rank's
 * sends cut the results of all others, and batches become shorter with every round trip. */
uint32_t fan_in_step_block(uint32_t allow, uint32_t block, uint64_t done, uint32_t waiting);

#endif
