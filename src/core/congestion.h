/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.h - how many fragments a worker keeps in flight.
 *
 * The window starts at what the switch granted, which fits the switch's own queue.
 * Queues on the way may be shorter.  Once per window: if more than one in eight
 * fragments was lost, halve; else grow by a sixteenth.  Loss below that is taken for
 * noise on the line, which a smaller window would not cure: a window slot that waits
 * for a lost fragment holds up no other slot. */
#ifndef FAN_CONGESTION_H
#define FAN_CONGESTION_H

#include <stdint.h>

struct fan_congestion {
	uint32_t cwnd; /* fragments allowed in flight */
	uint32_t max;
	uint32_t done; /* fragments finished, and... */
	uint32_t lost; /* ...lost since the window was last looked at */
};

void fan_congestion_init(struct fan_congestion *c, uint32_t max);
void fan_congestion_done(struct fan_congestion *c);
void fan_congestion_lost(struct fan_congestion *c);

#endif
