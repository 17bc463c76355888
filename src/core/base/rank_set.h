/* SPDX-License-Identifier: Apache-2.0 */
/* rank_set.h - sets of a job's ranks: FAN_RANK_WORDS words, rank r is bit r % 64 of word r / 64.
 *
 * To iterate over a set:
 *
 *      for (unsigned r = fan_ranks_first(set); r < ranks; r = fan_ranks_next(set, r + 1))
 *
 * which ends because fan_ranks_next returns FAN_RANK_NONE, above every rank, at the end. */
#ifndef FAN_BASE_RANK_SET_H
#define FAN_BASE_RANK_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "limits.h"

static inline void fan_ranks_set(uint64_t *set, unsigned rank)
{
	assert(rank < FAN_RANKS_MAX);
	set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void fan_ranks_clear(uint64_t *set, unsigned rank)
{
	assert(rank < FAN_RANKS_MAX);
	set[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static inline bool fan_ranks_has(const uint64_t *set, unsigned rank)
{
	assert(rank < FAN_RANKS_MAX);
	return set[rank / 64] >> rank % 64 & 1;
}

/* Set to empty; to the ranks 0 .. `ranks` - 1; to `b`. */
static inline void fan_ranks_none(uint64_t *set)
{
	memset(set, 0, FAN_RANK_WORDS * sizeof *set);
}

static inline void fan_ranks_all(uint64_t *set, unsigned ranks)
{
	assert(ranks <= FAN_RANKS_MAX);
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		unsigned here = ranks > i * 64 ? ranks - i * 64 : 0;
		set[i] = here >= 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1;
	}
}

/* `b` may be `set`. */
static inline void fan_ranks_copy(uint64_t *set, const uint64_t *b)
{
	memmove(set, b, FAN_RANK_WORDS * sizeof *set);
}

/* Union: add the ranks of `b`. */
static inline void fan_ranks_join(uint64_t *set, const uint64_t *b)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		set[i] |= b[i];
}

/* Intersection: `set` may be `a` or `b`.  True if it is not empty. */
static inline bool fan_ranks_both(uint64_t *set, const uint64_t *a, const uint64_t *b)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		any |= set[i] = a[i] & b[i];
	return any != 0;
}

/* Difference: the ranks of `a` that are not in `b`.  Otherwise as fan_ranks_both. */
static inline bool fan_ranks_without(uint64_t *set, const uint64_t *a, const uint64_t *b)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		any |= set[i] = a[i] & ~b[i];
	return any != 0;
}

static inline bool fan_ranks_is_empty(const uint64_t *set)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		any |= set[i];
	return any == 0;
}

static inline bool fan_ranks_equal(const uint64_t *a, const uint64_t *b)
{
	return memcmp(a, b, FAN_RANK_WORDS * sizeof *a) == 0;
}

/* Do the sets have a rank in common? */
static inline bool fan_ranks_meet(const uint64_t *a, const uint64_t *b)
{
	uint64_t both = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		both |= a[i] & b[i];
	return both != 0;
}

/* Is `a` a subset of `b`? */
static inline bool fan_ranks_within(const uint64_t *a, const uint64_t *b)
{
	uint64_t beyond = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		beyond |= a[i] & ~b[i];
	return beyond == 0;
}

/* The lowest rank >= `from` in the set; FAN_RANK_NONE if there is none. */
static inline unsigned fan_ranks_next(const uint64_t *set, unsigned from)
{
	unsigned i = from / 64;
	if (i >= FAN_RANK_WORDS)
		return FAN_RANK_NONE;
	uint64_t rest = set[i] >> from % 64 << from % 64;
	while (!rest && ++i < FAN_RANK_WORDS)
		rest = set[i];
	return rest ? i * 64 + (unsigned)__builtin_ctzll(rest) : FAN_RANK_NONE;
}

static inline uint16_t fan_ranks_first(const uint64_t *set)
{
	return (uint16_t)fan_ranks_next(set, 0);
}

/* Number of ranks in the set.  Bits in parallel: the compiler's builtin may be a function call
 * on machines without an instruction. */
static inline unsigned fan_ranks_count(const uint64_t *set)
{
	unsigned n = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		uint64_t v = set[i] - (set[i] >> 1 & UINT64_C(0x5555555555555555));
		v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
		v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
		n += (unsigned)(v * UINT64_C(0x0101010101010101) >> 56);
	}
	return n;
}

#endif
