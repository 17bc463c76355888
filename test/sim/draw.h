/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h - what tests draw beside the simulator's own random numbers.
 *
 * rng_chance draws whatever the chance is, the simulator only where there is one: so a plan's
 * seed means the same whichever of its chances are 0. */
#ifndef TEST_SIM_DRAW_H
#define TEST_SIM_DRAW_H

#include "core/base/rng.h"

/* low .. high, both included */
static inline uint64_t rng_range(struct fan_rng *r, uint64_t low, uint64_t high)
{
	return low + fan_rng_below(r, high - low + 1);
}

/* True `millionths` times in a million. */
static inline bool rng_chance(struct fan_rng *r, uint32_t millionths)
{
	return fan_rng_below(r, 1000000) < millionths;
}

#endif
