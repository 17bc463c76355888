/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a switch's children: lives of ranks that send through it.
 *
 * A child is an address and a nonce, so a sender with the address of a rank, but without its nonce,
 * is another one.  It is unsure until the aggregator has answered a BEAT with that nonce: the BEAT
 * has a cookie that went to this child alone (ADR 24).  Until then it yields to any other, the one
 * that came first before the others. */
#ifndef FAN_SWITCH_CHILD_H
#define FAN_SWITCH_CHILD_H

#include "switch_priv.h"

/* Bytes for `max` children; and lay out those of `sw` at `p`.  Returns what follows. */
size_t fan_child_bytes(unsigned max);
uint8_t *fan_child_init(struct fan_switch *sw, uint8_t *p);

/* The token of the child at `peer` that `f`, a JOIN, BEAT or LEAVE, is from.  It is made if need
 * be, and the fields of `f` are noted.  0: there is no room. */
uint16_t fan_child_hear(struct fan_switch *sw, uint64_t now_ns, const fan_peer *peer,
			const struct fan_frag *f);

/* The aggregator has answered its BEAT. */
void fan_child_make_sure(struct fan_switch *sw, uint16_t token);

bool fan_child_is_sure(const struct fan_switch *sw, uint16_t token);

/* Forget a child, which has left or fallen silent. */
void fan_child_forget(struct fan_switch *sw, uint16_t token);

/* Find out which ranks of the job are below, and where to send once for several. */
void fan_child_find_below(struct fan_switch *sw, struct fan_switch_job *j);

/* Let a neighbour's numbers begin with whichever comes first. */
void fan_child_begin_anywhere(struct fan_seq_gap *g);

/* Assert the invariants of the table. */
void fan_child_audit(const struct fan_switch *sw);

/* ---- the sequence numbers of datagrams from neighbours below (ADR 12): a gap between them is a
 * loss, and draws a MISS.  sent.c numbers datagrams that go up ---- */

/* A contribution or PROBE of `rank` has come from `from`, where that is reached: next to us, so all
 * that it sends comes. */
void fan_arrival_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *from,
		      const struct fan_frag *f, uint16_t rank, struct fan_out *out);

#endif
