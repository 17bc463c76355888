/* SPDX-License-Identifier: Apache-2.0 */
/* gap.h - which numbers of a stream have not come, though later ones have.
 *
 * A number that a few later ones have overtaken is taken for lost, and is to be asked for;
 * if the stream says so, once more when FAN_GAP_AGAIN have, since the question may be lost
 * as well.  How few, a stream learns: one that was asked for and then comes had only been
 * overtaken, and from then on it takes twice as many.  Numbers further back than 63 are no
 * concern any more: timers find what they were. */
#ifndef FAN_GAP_H
#define FAN_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

#define FAN_GAP_BITS 64

struct fan_gap {
	uint64_t heard; /* bit i: number last - i has come, or was none */
	uint16_t last;	/* the highest that has come */
	bool twice;	/* whether to ask again */
	uint8_t few;	/* that tell of a loss: FAN_GAP_RESULTS .. FAN_GAP_AGAIN */
};

/* The first number will be `last` + 1. */
void fan_gap_init(struct fan_gap *g, uint16_t last, bool twice);

/* The same as fan_gap_note. */
uint64_t fan_gap_jump(struct fan_gap *g, int step, bool again);

/* Number last + `step` has come; `again`: not for the first time that it was sent.  Bit i of
 * the answer: last - i, by the new `last`, is to be asked for. */
static inline uint64_t fan_gap_note(struct fan_gap *g, int step, bool again)
{
	if (step != 1 || g->heard != UINT64_MAX)
		return fan_gap_jump(g, step, again);
	g->last++; /* as it is nearly always */
	return 0;
}

#endif
