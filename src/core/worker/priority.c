/* SPDX-License-Identifier: Apache-2.0 */
#include "priority.h"

#define STEPS	  8   /* of a doubling */
#define MIDDLE	  224 /* one fragment left, of the first layer, as much to send as to compute */
#define RATIO_MAX 64  /* eight doublings: more says that the one or the other is not known */

/* log2 in steps, linear between powers of two; 0 of 0. */
static int steps_of(uint64_t v)
{
	if (v < 2)
		return 0;
	int whole = 63 - __builtin_clzll(v);
	uint64_t rest = whole >= 3 ? v >> (whole - 3) & 7 : v << (3 - whole) & 7;
	return whole * STEPS + (int)rest;
}

uint8_t fan_priority_default(const void *arg, const struct fan_priority_view *v)
{
	(void)arg;
	int ratio = 0;
	if (v->busy_ns && v->idle_ns)
		ratio = steps_of(v->busy_ns) - steps_of(v->idle_ns);
	if (ratio > RATIO_MAX || ratio < -RATIO_MAX)
		ratio = ratio < 0 ? -RATIO_MAX : RATIO_MAX;
	int p = MIDDLE + ratio - steps_of(v->left_frags) - steps_of(v->layer);
	return (uint8_t)(p < 1 ? 1 : p > 255 ? 255 : p);
}
