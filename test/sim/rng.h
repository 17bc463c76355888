/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - random numbers from a seed: the same on every machine (splitmix64). */
#ifndef TEST_SIM_RNG_H
#define TEST_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline uint64_t rng_next(struct rng *r)
{
	return rng_mix(r->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 .. n-1 */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

/* low .. high, both included */
static inline uint64_t rng_range(struct rng *r, uint64_t low, uint64_t high)
{
	return low + rng_below(r, high - low + 1);
}

/* True `millionths` times in a million. */
static inline bool rng_chance(struct rng *r, uint32_t millionths)
{
	return rng_below(r, 1000000) < millionths;
}

#endif
