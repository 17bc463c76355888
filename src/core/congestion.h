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
 * it grows by one fragment a window, as in ATP.
 *
 * The other controller is A2TP's, of two windows: beside the one for links, one for shared
 * slots (`aggr`), by the share of parts that found their slot taken.  Parts beyond it pass
 * the slots by.  Of ranks that find slots taken, one that straggles gives up more of it, since
 * slots wait long for its parts.  Once in a window:
 *
 *     gamma <- 63/64 gamma + 1/64 (share of results within a round trip and a half)
 *     alpha <- 7/8 alpha + 1/8 (share of marked results)
 *     beta  <- 7/8 beta + 1/8 (share of results that tell of a taken slot)
 *     taken, beta > 0.1:  aggr <- aggr (1 - (beta - 0.1)^gamma / 1.9), else aggr + 1
 *     marked:             cwnd <- cwnd (1 - alpha / 2), else cwnd + 1
 *     1 <= aggr <= cwnd */
#ifndef FAN_CONGESTION_H
#define FAN_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

enum fan_controller {
	FAN_CONTROL_AIMD = 0, /* one window */
	FAN_CONTROL_A2TP = 1, /* one for links, one for slots */
	FAN_CONTROL_COUNT
};

struct fan_congestion {
	uint32_t cwnd; /* fragments allowed in flight */
	uint32_t max;
	uint32_t done; /* fragments finished, and... */
	uint32_t lost; /* ...lost since the window was last looked at */
	uint32_t held; /* results until a mark counts again */
	bool marks;    /* there have been any: grow slowly */
	uint8_t kind;  /* enum fan_controller */
	/* A2TP: */
	uint32_t aggr;			/* fragments allowed in slots */
	uint32_t marked, taken, prompt; /* of `done` */
	float alpha, beta, gamma;
};

void fan_congestion_init(struct fan_congestion *c, uint32_t max);
/* After init: by this controller. */
void fan_congestion_choose(struct fan_congestion *c, enum fan_controller kind);

/* What a result tells, before it is counted as done: it has met congestion, some part found
 * its slot taken, it came within a round trip and a half.  For A2TP alone. */
void fan_congestion_tell(struct fan_congestion *c, bool marked, bool taken, bool prompt);

void fan_congestion_done(struct fan_congestion *c);
void fan_congestion_lost(struct fan_congestion *c);

/* A result says that its parts have met congestion; it is counted by one of the others. */
void fan_congestion_marked(struct fan_congestion *c);

#endif
