/* SPDX-License-Identifier: Apache-2.0 */
#include "seq_gap.h"

#include <assert.h>

void fan_seq_gap_init(struct fan_seq_gap *g, uint16_t last, bool twice)
{
	*g = (struct fan_seq_gap){
		.heard = UINT64_MAX, .last = last, .twice = twice, .few = FAN_GAP_RESULTS};
}

static void heard_late(struct fan_seq_gap *g, unsigned behind, bool again)
{
	uint64_t bit = UINT64_C(1) << behind;
	if (!again && !(g->heard & bit) && behind >= g->few)
		g->few = 2 * g->few < FAN_GAP_AGAIN ? (uint8_t)(2 * g->few) : FAN_GAP_AGAIN;
	g->heard |= bit;
}

uint64_t fan_seq_gap_note(struct fan_seq_gap *g, int step, bool again)
{
	assert(g->heard & 1);
	assert(g->few >= FAN_GAP_RESULTS && g->few <= FAN_GAP_AGAIN);
	if (step <= 0) {
		if (step > -FAN_SEQ_GAP_BITS)
			heard_late(g, (unsigned)-step, again);
		return 0;
	}
	g->last = (uint16_t)(g->last + step);
	if (step >= FAN_SEQ_GAP_BITS) {
		g->heard = 1;
		return UINT64_MAX << g->few;
	}
	uint64_t passed = (UINT64_C(1) << step) - 1;
	g->heard = g->heard << step | 1;
	return ~g->heard & (passed << g->few | (g->twice ? passed << FAN_GAP_AGAIN : 0));
}

uint64_t fan_seq_gap_heard(struct fan_seq_gap *g, uint16_t seq)
{
	if (fan_seq_gap_is_next(g, seq))
		return 0;
	int step = (int16_t)(uint16_t)(seq - g->last);
	if (g->heard && step > -FAN_GAP_BEGUN)
		return fan_seq_gap_note(g, step, false);
	fan_seq_gap_init(g, seq, g->twice);
	return 0;
}
