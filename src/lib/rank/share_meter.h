/* SPDX-License-Identifier: Apache-2.0 */
/* share_meter.h - a communicator's measurements, by which it learns the shares of its parts.
 *
 * After every FAN_SHARE_METER_BYTES of tensors each rank adds what it has measured to the stream of
 * operations, as an all-reduce of its own; since all ranks start the same operations in the same
 * order, all get the same sums at the same place, and from there on cut alike.  The operations
 * that follow wait for it while shares are learnt, but for FAN_SHARE_METER_AHEAD, so that a stream
 * of small ones goes on meanwhile; and not once they stay.
 *
 * Operations of sets that one part has whole are not measured and wait for no measurement: shares
 * say nothing about them, and they go fast only side by side. */
#ifndef FAN_LIB_RANK_SHARE_METER_H
#define FAN_LIB_RANK_SHARE_METER_H

#include "core/worker/in_step.h"
#include "shares.h"

/* The rules of measuring and of keeping in step: what for, what sets the threshold, the threshold.
 * B is a row of bench/README.md, A a figure of doc/adr, C the case of
 * test/unit/lib/rank/share_meter.c. */

/* Bytes of tensors from one measurement to the next; once the shares stay, QUIET times as many,
 * which no figure sets.  B: a host's link drops, 0.997 of the best time 20 operations later. */
#define FAN_SHARE_METER_BYTES (4 << 20)
#define FAN_SHARE_METER_QUIET 2
/* Bytes of tensors that do not wait for a measurement, so that the operations of columns, of 64 KiB
 * each, go on (ADR 18).  C: small_operations_go_on_during_a_measurement. */
#define FAN_SHARE_METER_AHEAD (512 << 10)
/* FAN_IN_STEP_FRAGS count for as many connections as bring their results in FILL_MS, for COUNTED at
 * least.  A: for each of eight, 1.18 of the best time (ADR 22);
 * C: a_slow_link_has_no_longer_queue_for_more_connections. */
#define FAN_SHARE_METER_COUNTED 5
#define FAN_SHARE_METER_FILL_MS 10
/* The rate of a host's link up to which parts stay close together.  A: 4 x 1 at 1 Gb/s, processor
 * time by Gloo's, 1.35 from 1.0 on, 1.05 from here (ADR 40);
 * C: parts_may_be_further_apart_only_on_a_fast_link. */
#define FAN_SHARE_METER_FAST_GBPS 0.5
/* Fragments in flight of all columns of a host on a slow link, and of one at least: results arrive
 * before FAN_IN_STEP_RTO_MS.  B: 4 x 4 hosts x ranks, 1.01 of the time that links allow; with
 * 256, 1.06.
 */
#define FAN_SHARE_METER_COLUMNS_WINDOW 128
#define FAN_SHARE_METER_COLUMN_LEAST   16
/* In place of FAN_IN_STEP_FRAGS while sets are in progress.  B: reduce-scatter, 1.52
 * of Gloo's speed. */
#define FAN_SHARE_METER_SET_STEP 64
/* A bound: the round trips of 256 ranks, added, are less than 2^31. */
#define FAN_SHARE_METER_RTT_MAX_US (1 << 22)

struct fan_rank;
struct fanin_op;
struct fan_cut;

/* Once the parts are known: their first shares. */
void fan_share_meter_init(struct fan_rank *r);

/* The elements of part `part` in an operation that has been started; `s` are the shares, and
 * `per_frag` elements fill a fragment.
 *
 * Of a set, the operation of each root goes to the aggregator on that root's host alone, if it has
 * one: each element then leaves a host once and enters one once, as in a ring.  Cut into parts,
 * sums would take another path, from the aggregators to the root. */
struct fan_split_range fan_share_meter_range(const struct fan_split *s, const struct fanin_op *op,
					     uint32_t per_frag, unsigned part);

/* The elements of connection `i` in operation `op`.  False: it takes no part in it. */
bool fan_share_meter_cut(const struct fan_rank *r, const struct fanin_op *op, unsigned i,
			 struct fan_cut *cut);

/* May the first operation that waits be started?  May put a measurement before it.  1: it may; 0:
 * it waits; or FAN_E_NOMEM. */
int fan_share_meter_permits(struct fan_rank *r);

/* An operation is being started: count it. */
void fan_share_meter_started(struct fan_rank *r, struct fanin_op *op);

/* Operations were in progress for `spent_ns`, with the present round trips. */
void fan_share_meter_spent(struct fan_rank *r, uint64_t spent_ns);

/* The measurement in progress is done; an operation is. */
void fan_share_meter_arrived(struct fan_rank *r);
void fan_share_meter_done(struct fan_rank *r, const struct fanin_op *op);

/* Does the first operation that waits do so for a measurement?  Has what it waits for come? */
bool fan_share_meter_holds(const struct fan_rank *r);
bool fan_share_meter_waited(const struct fan_rank *r);

/* With the lock held: show the parts to callers. */
void fan_share_meter_show(struct fan_rank *r);

/* Count those of `used` connections with a share, to named switches and to hosts, that matter for
 * what may be in flight: all leave by this rank's link, whose queue must not get longer by their
 * number, but a link that is fast, by which `fill` results come in FAN_SHARE_METER_FILL_MS, takes
 * more. */
double fan_share_meter_counted(double fill, unsigned used);

/* The rate of this host's link, in Gb/s, in the direction that has more, while each of `columns`
 * ranks of it takes in `fill` results of `bytes` each in FAN_SHARE_METER_FILL_MS.  `hosts` hosts
 * alone sum; 0: switches do. */
double fan_share_meter_gbps(double fill, unsigned bytes, unsigned columns, unsigned hosts);

/* Fragments of the whole tensor by which a part may be ahead of the last one, if `count`
 * connections count: FAN_IN_STEP_FRAGS each, or of sets FAN_SHARE_METER_SET_STEP.  Beyond
 * FAN_SHARE_METER_FAST_GBPS it grows by the square of the rate: what comes and goes in long batches
 * takes processors less time. */
double fan_share_meter_step(double count, double gbps, bool sets);

/* Return how many of `window` fragments one of `columns` ranks of a host may have in flight, all
 * parts together: they share the queue of its link.  That of a fast one takes more. */
double fan_share_meter_window(double window, unsigned columns, double gbps);

/* Fragments, each in a packet of so many bytes, that leave in one system call: beyond
 * FAN_SHARE_METER_FAST_GBPS ranks send blocks of so many (fan_in_step_block). */
uint32_t fan_share_meter_block(unsigned packet_bytes);

/* The least time-out of a result while so many parts have a share; `ends`: of all that was started
 * (fan_in_step_bound).  Results of one column queue behind other columns until the last one ends,
 * and those of ranks that run ahead wait for the slowest. */
uint32_t fan_share_meter_rto_min_ms(const struct fan_rank *r, unsigned parts, bool ends);

/* Note round trips; let connections proceed in step, and have results asked for no sooner than
 * their queues empty (core/worker/in_step.h), also those of a named switch, which was the only part
 * until hosts joined it. */
void fan_share_meter_keep_in_step(struct fan_rank *r, uint64_t now_ns);

#endif
