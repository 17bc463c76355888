/* SPDX-License-Identifier: Apache-2.0 */
/* regroup.h - a communicator goes on without a named switch that has died, or without a rail, at
 * the aggregators that are left.
 *
 * A named switch is lost when it is silent, or has been restarted.  Where hosts have several rails
 * (net/rails.h), all parts of one rail are lost together: when one of them is silent, or misses a
 * rank, and for half of alive_ms from then on no part of another rail is or does.  Whoever notices
 * leaves the jobs of all parts with a cause that names the part, so all ranks stop where they are:
 * their old connections get no results from then on.  They join again at the aggregators that are
 * left, in jobs whose names have the set of lost parts, so only ranks that agree about it meet.
 * There they agree on three things by all-reduces, before any other operation:
 *
 *  1. For each slot of each old connection, the furthest fragment that a rank awaits; and the first
 *     operation that some rank has not started.
 *  2. Who has a result that another rank lacks.  Results are kept until all ranks have them: the
 *     last one of each slot, since the slot's next result shows that all had it.
 *  3. These results.
 *
 * Then all have the same results.  What else was in progress has no result anywhere, so its input
 * is whole everywhere, also in place: it is summed anew.  Operations that some rank had not started
 * are started anew by all (ADR 27).
 *
 * A part that is there again (hello.h) is taken in likewise: all leave, with the cause by which
 * they tell of its loss, for jobs whose names have the set without it, and how often it has
 * changed.  If it does not answer then, it is lost again.
 *
 * A rank's own aggregator dies with the rank, on all rails, so that ends the job.  So does another
 * loss before all have agreed. */
#ifndef FAN_LIB_RANK_REGROUP_H
#define FAN_LIB_RANK_REGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_REGROUP_MARGIN_MS 1000 /* beyond twice alive_ms, until all ranks have joined again */

struct fan_connection;
struct fan_rank;
struct fan_regroup;
struct fanin_op;

/* From now on the communicator goes on without named switches that die, if it can: it has others,
 * and no plan, server or run-ahead. */
void fan_regroup_enable(struct fan_rank *r);

/* A group that forms joins at the aggregators that its parent has not lost: before the rank's
 * thread begins, and in each round of it until all have joined. */
void fan_regroup_prepare(struct fan_rank *r);
void fan_regroup_follow(struct fan_rank *r, uint64_t now_ns);
void fan_regroup_free(struct fan_regroup *g);

/* Connection `cn` has failed.  True: that does not end the communicator, or this has done so. */
bool fan_regroup_forgives(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns);

/* Must operation `op` wait until all ranks have agreed, or it is known what is lost? */
bool fan_regroup_holds(const struct fan_rank *r, const struct fanin_op *op);

/* All ranks have joined. */
void fan_regroup_joined(struct fan_rank *r);

/* Do what is due, and when that is next. */
void fan_regroup_work(struct fan_rank *r, uint64_t now_ns);
uint64_t fan_regroup_deadline(const struct fan_rank *r);

#endif
