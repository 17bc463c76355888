/* SPDX-License-Identifier: Apache-2.0 */
#include "congestion.h"

#define CWND_MIN 2u /* fragments: one is heard of while the other is under way */

void fan_congestion_init(struct fan_congestion *c, uint32_t max)
{
	*c = (struct fan_congestion){.cwnd = max, .max = max};
}

/* Once per window: shrink or grow. */
static void look(struct fan_congestion *c)
{
	if (c->done + c->lost < c->cwnd)
		return;
	if (c->lost * 8 > c->done + c->lost) {
		c->cwnd = c->cwnd / 2 < CWND_MIN ? CWND_MIN : c->cwnd / 2;
	} else {
		uint32_t more = c->cwnd / 16 ? c->cwnd / 16 : 1;
		c->cwnd = c->max - c->cwnd < more ? c->max : c->cwnd + more;
	}
	if (c->cwnd > c->max)
		c->cwnd = c->max;
	c->done = c->lost = 0;
}

void fan_congestion_done(struct fan_congestion *c)
{
	c->done++;
	look(c);
}

void fan_congestion_lost(struct fan_congestion *c)
{
	c->lost++;
	look(c);
}
