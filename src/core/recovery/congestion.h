/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.h - how many fragments a worker keeps in flight.
 *
 * The window starts at what the switch granted, which fits the switch's own queue.
 * Queues on the way may be shorter.  Once per window: if more than one in eight
 * fragments was lost, halve; else grow by a sixteenth.  Loss below that is taken for
 * noise on the line, which a smaller window would not cure: a window slot that waits
 * for a lost fragment holds up no other slot.
 *
 * Where packets are marked instead of lost (ECN), the first marked result halves the
 * window at once, and no further one does until a window of them has come; from then on
 * it grows by one fragment a window, as in ATP. */
#ifndef FAN_RECOVERY_CONGESTION_H
#define FAN_RECOVERY_CONGESTION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define FAN_CWND_MIN 2u /* fragments: one is heard of while the other is under way */

struct fan_congestion {
	uint32_t cwnd; /* fragments allowed in flight */
	uint32_t max;
	uint32_t done; /* fragments finished, and... */
	uint32_t lost; /* ...lost since the window was last looked at */
	uint32_t held; /* results until a mark counts again */
	bool marks;    /* there have been any: grow slowly */
	bool crowded; /* losses have made it shrink, and it is not back at `max`: queues overflow */
};

/* What holds between calls. */
static inline void fan_congestion_check(const struct fan_congestion *c)
{
	assert(c->cwnd <= c->max);
	assert(c->cwnd >= FAN_CWND_MIN || c->cwnd == c->max);
	assert(c->held <= c->max);
	assert(c->done + c->lost < c->cwnd || !c->max);
}

void fan_congestion_init(struct fan_congestion *c, uint32_t max);
void fan_congestion_done(struct fan_congestion *c);
void fan_congestion_lost(struct fan_congestion *c);

/* A result says that its parts have met congestion; it is counted by one of the others. */
void fan_congestion_marked(struct fan_congestion *c);

#endif
