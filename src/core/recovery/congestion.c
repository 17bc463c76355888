/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.c - the controls by number, and the default. */
#include "congestion.h"

/* Words of the default. */
enum {
	HELD,	  /* results until a mark counts again */
	COLLIDES, /* contributions were dropped for want of slots: grow with each result */
};

void fan_congestion_set(struct fan_congestion *c, uint64_t cwnd)
{
	cwnd = cwnd < FAN_CWND_MIN ? FAN_CWND_MIN : cwnd;
	c->cwnd = cwnd > c->max ? c->max : (uint32_t)cwnd;
}

static void halve(struct fan_congestion *c)
{
	fan_congestion_set(c, c->cwnd / 2);
}

/* Once per window: shrink or grow. */
static void look(struct fan_congestion *c)
{
	if (c->own[HELD])
		c->own[HELD]--;
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

static void ended(struct fan_congestion *c, uint64_t now_ns, uint64_t trip_ns)
{
	(void)now_ns;
	if (c->own[COLLIDES] && c->cwnd < c->max && trip_ns != FAN_CONGESTION_LOST)
		c->cwnd++;
	look(c);
}

static void marked(struct fan_congestion *c, uint64_t now_ns)
{
	(void)now_ns;
	if (c->own[HELD])
		return;
	c->own[HELD] = c->cwnd;
	halve(c);
	c->done = c->lost = 0;
}

static void collided(struct fan_congestion *c, uint64_t now_ns)
{
	(void)now_ns;
	c->own[COLLIDES] = true;
	halve(c);
	c->done = c->lost = 0;
}

static const struct fan_congestion_control fan_congestion_fanin = {
	.ended = ended, .marked = marked, .collided = collided};

void fan_congestion_init(struct fan_congestion *c, unsigned kind, uint32_t max)
{
	static const struct fan_congestion_control *const control[FAN_CONGESTION_COUNT] = {
		[FAN_CONGESTION_FANIN] = &fan_congestion_fanin,
#define FAN_X(NUMBER, name) [FAN_CONGESTION_##NUMBER] = &fan_congestion_##name,
		FAN_CONGESTION_CONTROLS(FAN_X)
#undef FAN_X
	};
	assert(kind < FAN_CONGESTION_COUNT);
	*c = (struct fan_congestion){
		.control = control[kind], .cwnd = max, .max = max, .slots = FAN_CONGESTION_ALL};
	if (c->control->init)
		c->control->init(c);
}

void fan_congestion_lost(struct fan_congestion *c, uint64_t now_ns)
{
	c->lost++;
	c->control->ended(c, now_ns, FAN_CONGESTION_LOST);
}

void fan_congestion_marked(struct fan_congestion *c, uint64_t now_ns)
{
	c->marks = true;
	if (c->control->marked)
		c->control->marked(c, now_ns);
}

void fan_congestion_taken(struct fan_congestion *c, uint64_t now_ns)
{
	if (c->control->taken)
		c->control->taken(c, now_ns);
}

void fan_congestion_collided(struct fan_congestion *c, uint64_t now_ns)
{
	if (c->control->collided)
		c->control->collided(c, now_ns);
}
