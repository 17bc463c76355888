/* SPDX-License-Identifier: Apache-2.0 */
/* seq_gap.h - which numbers of a stream have not come, though later ones have.
 *
 * A number that a few later ones have overtaken is taken for lost, and is to be asked for;
 * if the stream says so, once more when FAN_GAP_AGAIN have, since the question may be lost
 * as well.  How few, a stream learns: one that was asked for and then comes had only been
 * overtaken, and from then on it takes twice as many.  Numbers further back than 63 are no
 * concern any more: timers find what they were. */
#ifndef FAN_RECOVERY_SEQ_GAP_H
#define FAN_RECOVERY_SEQ_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"

#define FAN_SEQ_GAP_BITS 64

struct fan_seq_gap {
	uint64_t heard; /* bit i: number last - i has come, or was none */
	uint16_t last;	/* the highest that has come */
	bool twice;	/* whether to ask again */
	uint8_t few;	/* that tell of a loss: FAN_GAP_RESULTS .. FAN_GAP_AGAIN */
};

/* The first number will be `last` + 1. */
void fan_seq_gap_init(struct fan_seq_gap *g, uint16_t last, bool twice);

/* The same as fan_seq_gap_note. */
uint64_t fan_seq_gap_jump(struct fan_seq_gap *g, int step, bool again);

/* Number last + `step` has come; `again`: not for the first time that it was sent.  Bit i of
 * the answer: last - i, by the new `last`, is to be asked for. */
static inline uint64_t fan_seq_gap_note(struct fan_seq_gap *g, int step, bool again)
{
	if (step != 1 || g->heard != UINT64_MAX)
		return fan_seq_gap_jump(g, step, again);
	g->last++; /* as it is nearly always */
	return 0;
}

/* The stream goes on, but what was sent of it meanwhile went elsewhere: the number that comes
 * next, whichever it is, is the first. */
static inline void fan_seq_gap_resume(struct fan_seq_gap *g)
{
	g->heard = 0; /* otherwise bit 0 is always set */
}

/* Packet `seq` of a neighbour has come, which numbers each once.  The answer is that of
 * fan_seq_gap_note.  After too many losses to tell of, the stream begins anew; and with a number
 * that is FAN_GAP_BEGUN or more behind, since the neighbour has. */
uint64_t fan_seq_gap_take(struct fan_seq_gap *g, uint16_t seq);
static inline uint64_t fan_seq_gap_heard(struct fan_seq_gap *g, uint16_t seq)
{
	if (g->heard != UINT64_MAX || (uint16_t)(seq - g->last) != 1)
		return fan_seq_gap_take(g, seq);
	g->last++; /* as it is nearly always */
	return 0;
}

#endif
