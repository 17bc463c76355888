/* SPDX-License-Identifier: Apache-2.0 */
#include "congestion.h"

void fan_congestion_init(struct fan_congestion *c, uint32_t max)
{
	*c = (struct fan_congestion){.cwnd = max, .max = max};
}

static void halve(struct fan_congestion *c)
{
	c->cwnd = c->cwnd / 2 < FAN_CWND_MIN ? FAN_CWND_MIN : c->cwnd / 2;
	if (c->cwnd > c->max)
		c->cwnd = c->max;
}

/* Once per window: shrink or grow. */
static void look(struct fan_congestion *c)
{
	if (c->held)
		c->held--;
	if (c->done + c->lost < c->cwnd)
		return;
	if (c->lost * 8 > c->done + c->lost) {
		halve(c);
		c->crowded = true;
	} else {
		uint32_t more = c->cwnd / 16 && !c->marks ? c->cwnd / 16 : 1;
		c->cwnd = c->max - c->cwnd < more ? c->max : c->cwnd + more;
		c->crowded = c->crowded && c->cwnd < c->max;
	}
	c->done = c->lost = 0;
}

void fan_congestion_done(struct fan_congestion *c)
{
	c->done++;
	if (c->collides && c->cwnd < c->max)
		c->cwnd++;
	look(c);
}

void fan_congestion_lost(struct fan_congestion *c)
{
	c->lost++;
	look(c);
}

void fan_congestion_collided(struct fan_congestion *c)
{
	c->collides = true;
	halve(c);
	c->done = c->lost = 0;
}

void fan_congestion_marked(struct fan_congestion *c)
{
	c->marks = true;
	if (c->held)
		return;
	c->held = c->cwnd;
	halve(c);
	c->done = c->lost = 0;
}
