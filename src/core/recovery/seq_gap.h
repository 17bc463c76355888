/* SPDX-License-Identifier: Apache-2.0 */
/* seq_gap.h - sequence gaps: numbers of a stream that later ones have overtaken.
 *
 * A number that `few` later ones have overtaken is taken for lost and is to be requested;
 * with `twice`, once more after FAN_GAP_AGAIN, since the request may be lost as well.
 * `few` adapts: a requested number that comes late was only overtaken, which doubles it.
 * Numbers more than 63 behind the highest are forgotten: timers find their losses. */
#ifndef FAN_RECOVERY_SEQ_GAP_H
#define FAN_RECOVERY_SEQ_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"

#define FAN_SEQ_GAP_BITS 64

struct fan_seq_gap {
	uint64_t heard; /* bit i: number last - i has come, or never existed */
	uint16_t last;	/* the highest that has come */
	bool twice;	/* request a lost number a second time */
	uint8_t few;	/* later numbers that show a loss: FAN_GAP_RESULTS .. FAN_GAP_AGAIN */
};

/* Begin a stream whose first number is `last` + 1. */
void fan_seq_gap_init(struct fan_seq_gap *g, uint16_t last, bool twice);

/* Number last + `step` has come; `again`: in a retransmission.  Bit i of the returned value:
 * number last - i, by the new `last`, is to be requested. */
uint64_t fan_seq_gap_note(struct fan_seq_gap *g, int step, bool again);

/* Has number `seq` come in order, with none missing?  Then it is noted, as it is nearly always. */
static inline bool fan_seq_gap_is_next(struct fan_seq_gap *g, uint16_t seq)
{
	bool next = g->heard == UINT64_MAX && (uint16_t)(seq - g->last) == 1;
	g->last = next ? seq : g->last;
	return next;
}

/* Packets of the stream went elsewhere for a while: take the next number for its first. */
static inline void fan_seq_gap_resume(struct fan_seq_gap *g)
{
	g->heard = 0; /* otherwise bit 0 is always set */
}

/* Packet `seq` of a neighbour that numbers each packet once has come.  Returns as
 * fan_seq_gap_note.  After too many losses to report, the stream begins anew; and with a number
 * that is FAN_GAP_BEGUN or more behind, since the neighbour has. */
uint64_t fan_seq_gap_heard(struct fan_seq_gap *g, uint16_t seq);

#endif
