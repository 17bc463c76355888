/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - which counters of a key have come, so that no packet is taken twice.
 *
 * The lower 32 bits of a counter travel; the upper ones are those that bring it nearest to the
 * highest counter that has come.  As RFC 6479, a ring of bits that is never shifted. */
#ifndef FAN_SEAL_REPLAY_H
#define FAN_SEAL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_REPLAY_WORDS 64   /* a power of two, with room for more than each window */
#define FAN_REPLAY_UP	 1024 /* counters behind the highest that may still come from a rank */
#define FAN_REPLAY_DOWN	 2048 /* and to a rank, by group and by unicast */

struct fan_replay {
	uint64_t highest; /* of those that have come; counters begin with 1 */
	uint64_t bits[FAN_REPLAY_WORDS];
};

/* The counter whose lower bits are `low`. */
static inline uint64_t fan_replay_counter(const struct fan_replay *r, uint32_t low)
{
	int32_t ahead = (int32_t)(low - (uint32_t)r->highest);

	if (ahead < 0 && r->highest < (uint64_t) - (int64_t)ahead)
		return r->highest + (uint32_t)ahead;
	return r->highest + (uint64_t)(int64_t)ahead;
}

/* Has `counter` not come, as far as is known?  Those behind the window are taken for known. */
static inline bool fan_replay_is_new(const struct fan_replay *r, uint64_t counter, uint64_t window)
{
	if (counter > r->highest)
		return true;
	return counter && r->highest - counter < window &&
	       !(r->bits[counter / 64 % FAN_REPLAY_WORDS] >> counter % 64 & 1);
}

/* `counter` has come, authentic and new. */
static inline void fan_replay_note(struct fan_replay *r, uint64_t counter)
{
	uint64_t word = counter / 64;

	if (counter > r->highest) {
		uint64_t last = r->highest / 64;
		uint64_t end = word - last > FAN_REPLAY_WORDS ? last + FAN_REPLAY_WORDS : word;
		while (last < end)
			r->bits[++last % FAN_REPLAY_WORDS] = 0;
		r->highest = counter;
	}
	r->bits[word % FAN_REPLAY_WORDS] |= UINT64_C(1) << counter % 64;
}

#endif
