/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - random numbers from a seed: the same on every machine (splitmix64).
 *
 * For the planner, the simulator and tests; the core draws none. */
#ifndef FAN_BASE_RNG_H
#define FAN_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct fan_rng {
	uint64_t state;
};

static inline uint64_t fan_rng_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline uint64_t fan_rng_next(struct fan_rng *r)
{
	return fan_rng_mix(r->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Stream number `n` of a seed: independent of the other streams. */
static inline struct fan_rng fan_rng_stream(uint64_t seed, uint64_t n)
{
	return (struct fan_rng){fan_rng_mix(seed ^ fan_rng_mix(n + 1))};
}

/* 0 .. n-1; 0 if n is 0 */
static inline uint64_t fan_rng_below(struct fan_rng *r, uint64_t n)
{
	return n ? fan_rng_next(r) % n : 0;
}

#endif
