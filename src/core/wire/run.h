/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - fragments without elements that follow each other, in one datagram.
 *
 * Contributions of all but the root of a broadcast, and results of a reduce for all but its root,
 * are headers alone, which differ in their numbers.  The sender packs them just before they leave,
 * and the receiver takes each out again: the core knows nothing of runs, except the bits of JOIN
 * and WELCOME by which both sides agree.  doc/protocol/runs.md. */
#ifndef FAN_WIRE_RUN_H
#define FAN_WIRE_RUN_H

#include "core/base/out.h"

/* Pack what may go together: with `all` of all items, otherwise of those to groups that read runs.
 * Items that are part of another one now go to nobody. */
void fan_run_pack(struct fan_out *out, bool all);

/* The fragments that a datagram stands for: 1, but for a run, which has 2 .. FAN_RUN_MAX.  A run
 * that is malformed counts as 1: the core knows no such message, and drops it. */
unsigned fan_run_frags(const uint8_t *pkt, size_t len);

/* Write number `n` of the run `pkt` to `head`, FAN_HEAD_BYTES, as if it had come alone. */
void fan_run_take(uint8_t *head, const uint8_t *pkt, unsigned n);

#endif
