/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.h - the congestion window: how many fragments a worker keeps in flight.
 *
 * The window starts at what the switch granted, which fits the switch's own queue;
 * queues on the path may be shorter.  Once per window: if more than one in eight
 * fragments was lost, it is halved; otherwise it grows by a sixteenth.  Fewer losses
 * are taken for line errors, which a smaller window does not cure: a window slot that
 * waits for a lost fragment delays no other slot.
 *
 * Where queues mark packets (ECN), the first marked result halves the window at once;
 * further marks count only after a window of results.  After the first mark it grows by
 * one fragment a window, as in ATP.
 *
 * Where switches drop what finds no slot, a collision halves the window, and each result makes it
 * larger by a fragment, as in GRID. */
#ifndef FAN_RECOVERY_CONGESTION_H
#define FAN_RECOVERY_CONGESTION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define FAN_CWND_MIN 2u /* fragments: one in flight while the other's result arrives */

struct fan_congestion {
	uint32_t cwnd; /* fragments allowed in flight */
	uint32_t max;  /* upper bound of cwnd */
	uint32_t done; /* fragments finished since the last adjustment */
	uint32_t lost; /* fragments lost since the last adjustment */
	uint32_t held; /* results until a mark counts again */
	bool marks;    /* marks have been seen: grow slowly */
	bool collides; /* contributions were dropped for want of slots: grow with each result */
	bool crowded;  /* losses have shrunk it, and it is below `max` since: queues overflow */
};

/* Assert the invariants that hold between calls. */
static inline void fan_congestion_check(const struct fan_congestion *c)
{
	assert(c->cwnd <= c->max);
	assert(c->cwnd >= FAN_CWND_MIN || c->cwnd == c->max);
	assert(c->held <= c->max);
	assert(c->done + c->lost < c->cwnd || !c->max);
}

/* Start with a window of `max` fragments; a fragment has finished; a fragment was lost. */
void fan_congestion_init(struct fan_congestion *c, uint32_t max);
void fan_congestion_done(struct fan_congestion *c);
void fan_congestion_lost(struct fan_congestion *c);

/* A contribution was dropped for want of a slot; the caller counts those of one window once. */
void fan_congestion_collided(struct fan_congestion *c);

/* A result carries a congestion mark.  It is also counted by fan_congestion_done. */
void fan_congestion_marked(struct fan_congestion *c);

#endif
