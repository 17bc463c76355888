/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - what the files of the progress thread call of each other.  For that thread alone. */
#ifndef FAN_LIB_RANK_THREAD_H
#define FAN_LIB_RANK_THREAD_H

#include "rank.h"

/* ---- stats.c, fault.c, loop.c ---- */

/* With the lock held: note the rank's state in `shown.snapshot`. */
void fan_rank_take_snapshot(struct fan_rank *r, uint64_t now_ns);

/* Fail if the process has nearly no descriptors left, while there are some to join with and to tell
 * the other ranks. */
void fan_rank_check_files(struct fan_rank *r);

/* The counters for fanin_comm_stats. */
struct fanin_stats fan_rank_collect_stats(const struct fan_rank *r);

/* The round trips of all connections. */
void fan_rank_collect_trips(const struct fan_rank *r, struct fan_rtt_histogram *h);

/* Describe fault `f` of connection `cn` in a sentence. */
void fan_rank_fault_text(const struct fan_rank *r, const struct fan_connection *cn,
			 const struct fan_fault *f, char *text, size_t bytes);

/* Connection `cn` has failed: report the cause. */
void fan_rank_fail_by_core(struct fan_rank *r, const struct fan_connection *cn);

/* Fail if connection `cn` cannot send what it has to. */
void fan_rank_fail_by_socket(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns);

/* The aggregator of part `k` is silent: blame the rank that it is inside, or this one, which has
 * lost it. */
void fan_rank_blame_for_silence(struct fan_rank *r, unsigned k);

/* Entry of the thread of `rank` (loop.c): runs until its `closing` is set and all connections have
 * left. */
void *fan_rank_loop(void *rank);

/* Write what a join waits for, why, and when it gives up, to `text`, `bytes` bytes: a sentence that
 * a person reads while it waits. */
void fan_wait_text(const struct fan_rank *r, uint64_t now_ns, char *text, size_t bytes);

/* ---- parts.c: how operations end, and a rank with connections ---- */

/* `op` is over: make room, then wake its caller.  It may be freed afterwards. */
void fan_rank_end_op(struct fan_rank *r, struct fanin_op *op, int result);

/* The first operation that waits has been started on every connection. */
void fan_rank_run_first(struct fan_rank *r, uint64_t now_ns);

/* End the operations that have their results, but for those behind a measurement in progress. */
void fan_rank_end_done(struct fan_rank *r,
		       bool (*is_done)(struct fan_rank *r, struct fanin_op *op));

/* The rests of operation `whole` have ended, and it has not been counted yet. */
void fan_rank_end_whole(struct fan_rank *r, struct fanin_op *whole, int result);

/* End all operations that the thread has taken. */
void fan_rank_end_all(struct fan_rank *r, int result);

/* Leave the jobs of all connections, which touch no tensor after this.  `error`: FAN_OK, or why. */
void fan_rank_leave(struct fan_rank *r, int error);

/* End the rank and all its operations. */
void fan_rank_fail(struct fan_rank *r, int error, const char *sentence);

/* ---- the connections, to each shard of the aggregator of each part ---- */

/* Open the connection to shard 0 of each part. */
void fan_rank_open_parts(struct fan_rank *r, uint64_t now_ns);

/* Open the connection to shard 0 of each of the last `count` parts, when the others are joined.  No
 * operation is in progress. */
void fan_rank_join_more_parts(struct fan_rank *r, unsigned count);

/* Once the aggregator of part `k` has answered its first connection: open those to its other
 * shards. */
void fan_rank_open_shards(struct fan_rank *r, unsigned k, uint64_t now_ns);

/* Open connection `number` anew. */
void fan_rank_open_connection(struct fan_rank *r, unsigned number, uint64_t now_ns);

/* Set the rate limit of part `k`'s connections from its planned rate. */
void fan_rank_set_rate_limit(struct fan_rank *r, unsigned k);

/* ---- plan_client.c: the controller client ---- */

/* Handle the controller's messages and answer them.  May end the communicator. */
void fan_plan_client_work(struct fan_rank *r, uint64_t now_ns);
uint64_t fan_plan_client_deadline(const struct fan_rank *r);

/* Write what it waits for to `text`, `bytes` bytes. */
void fan_plan_client_text(const struct fan_rank *r, char *text, size_t bytes);

/* ---- regroup.c: going on without an aggregator ---- */

/* From now on the communicator goes on without named switches that die, if it can: it has others,
 * and no plan, server or run-ahead. */
void fan_regroup_enable(struct fan_rank *r);

/* A group that forms joins at the aggregators that its parent has not lost: this is called before
 * the rank's thread begins. */
void fan_regroup_prepare(struct fan_rank *r);
void fan_regroup_free(struct fan_regroup *g);

/* Connection `cn` has failed.  True: that does not end the communicator, or this has done so. */
bool fan_regroup_forgives(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns);

/* All ranks have joined. */
void fan_regroup_joined(struct fan_rank *r);

/* Do the due work; return when it is due next. */
void fan_regroup_work(struct fan_rank *r, uint64_t now_ns);
uint64_t fan_regroup_deadline(const struct fan_rank *r);

/* ---- regroup_agree.c: all ranks agree on which results they have ---- */

/* Begin.  All ranks have joined, and no operation is in progress. */
void fan_regroup_agree(struct fan_rank *r);

/* Go on, once the all-reduce in progress is done.  True: there may be something to start. */
bool fan_regroup_go_on(struct fan_rank *r);

/* Free what only the agreement needs. */
void fan_regroup_forget(struct fan_regroup *g);

/* ---- a switch that was lost is there again (regroup_agree.c) ---- */

/* The parts that are lost, and come back, with part `number`, a bit each: itself, or all of its
 * rail. */
uint64_t fan_revival_lost_with(const struct fan_regroup *g, unsigned number);

/* Part `number` is lost, or is there again. */
void fan_revival_lost(struct fan_revival *h, unsigned number, uint64_t now_ns);
void fan_revival_back(struct fan_revival *h, unsigned number, uint64_t now_ns);

/* Before an operation is started: put the all-reduce in front of it, if it is due.  False: no
 * memory. */
bool fan_revival_offer(struct fan_rank *r);

/* Ask, if it is time.  The number of a part that is back, with all that were lost with it; -1: none
 * is. */
int fan_revival_work(struct fan_rank *r, uint64_t now_ns);

/* ---- share_meter.c: measurements, by which shares are learnt ---- */

/* Once the parts are known: their first shares. */
void fan_share_meter_init(struct fan_rank *r);

/* The elements of part `part` in an operation that has been started; `s` are the shares, and
 * `per_frag` elements fill a fragment.
 *
 * In a set, the operation of each root goes to the aggregator on that root's host alone, if it has
 * one: each element then leaves a host once and enters one once, as in a ring.  Cut into parts,
 * sums would take another path, from the aggregators to the root. */
struct fan_split_range fan_share_meter_range(const struct fan_split *s, const struct fanin_op *op,
					     uint32_t per_frag, unsigned part);

/* May the first operation that waits be started?  May put a measurement before it.  1: it may; 0:
 * it waits; or FAN_E_NOMEM. */
int fan_share_meter_permits(struct fan_rank *r);

/* An operation is being started: count it. */
void fan_share_meter_started(struct fan_rank *r, struct fanin_op *op);

/* Has the measurement come for which the first waiting operation waits? */
bool fan_share_meter_waited(const struct fan_rank *r);

/* With the lock held: show the parts to callers. */
void fan_share_meter_show(struct fan_rank *r);

/* The least time-out of a result while so many parts have a share; `ends`: of all that was started
 * (fan_in_step_bound).  Results of one column queue behind other columns until the last one ends,
 * and those of ranks that run ahead wait for the slowest. */
uint32_t fan_share_meter_rto_min_ms(const struct fan_rank *r, unsigned parts, bool ends);

/* Note round trips; let connections proceed in step, and have results asked for no sooner than
 * their queues empty (core/worker/in_step.h), also those of a named switch, which was the only part
 * until hosts joined it. */
void fan_share_meter_keep_in_step(struct fan_rank *r, uint64_t now_ns);

#endif
