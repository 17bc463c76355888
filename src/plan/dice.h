/* SPDX-License-Identifier: Apache-2.0 */
/* dice.h - random numbers from a seed: the same on every machine (splitmix64). */
#ifndef FAN_PLAN_DICE_H
#define FAN_PLAN_DICE_H

#include <stdint.h>

struct fan_dice {
	uint64_t state;
};

static inline uint64_t fan_dice_next(struct fan_dice *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. n-1; 0 for n == 0 */
static inline uint32_t fan_dice_below(struct fan_dice *r, uint32_t n)
{
	return n ? (uint32_t)(fan_dice_next(r) % n) : 0;
}

/* 0 <= x < 1 */
static inline double fan_dice_unit(struct fan_dice *r)
{
	return (double)(fan_dice_next(r) >> 11) * 0x1p-53;
}

/* Put `n` numbers into a random order. */
static inline void fan_dice_shuffle(struct fan_dice *r, uint32_t *at, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = fan_dice_below(r, i), x = at[k];
		at[k] = at[i - 1];
		at[i - 1] = x;
	}
}

#endif
