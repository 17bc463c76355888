/* SPDX-License-Identifier: Apache-2.0 */
#include "congestion.h"

#define LOG_BITS   12
#define LOG_MOST   32
#define BETA_LEAST 0.1F /* share of parts without a slot that is borne */
#define CWND_MIN   2u	/* fragments: one is heard of while the other is under way */

void fan_congestion_init(struct fan_congestion *c, uint32_t max)
{
	*c = (struct fan_congestion){.cwnd = max, .max = max, .aggr = max, .gamma = 1};
}

void fan_congestion_choose(struct fan_congestion *c, enum fan_controller kind)
{
	c->kind = (uint8_t)kind;
}

void fan_congestion_tell(struct fan_congestion *c, bool marked, bool taken, bool prompt)
{
	c->marked += marked;
	c->taken += taken;
	c->prompt += prompt;
}

/* -log2(x), 0 < x <= 1, to LOG_BITS behind the point: squaring doubles a logarithm. */
static float doublings(float x)
{
	float whole = 0, part = 0, bit = 0.5F;
	for (; x < 1 && whole < LOG_MOST; whole++)
		x *= 2;
	for (unsigned i = 0; i < LOG_BITS; i++, bit /= 2) {
		x *= x;
		if (x >= 2) {
			x /= 2;
			part += bit;
		}
	}
	return whole - part;
}

/* x^y for 0 < x <= 1 and 0 <= y <= 1. */
static float power(float x, float y)
{
	static const float roots[LOG_BITS] = {
		0.70710678F, 0.84089642F, 0.91700404F, 0.95760328F, 0.97857206F, 0.98922801F,
		0.99459942F, 0.99729605F, 0.99864711F, 0.99932333F, 0.99966161F, 0.99983079F,
	}; /* 2^-1/2, 2^-1/4, ... */
	float e = doublings(x) * y, r = 1;
	while (e >= 1) {
		r /= 2;
		e--;
	}
	for (unsigned i = 0; i < LOG_BITS; i++) {
		e *= 2;
		if (e >= 1) {
			r *= roots[i];
			e--;
		}
	}
	return r;
}

static uint32_t within(float v, uint32_t least, uint32_t most)
{
	if (v < (float)least)
		return least;
	return v > (float)most ? most : (uint32_t)v;
}

/* Once per window, A2TP. */
static void look_at_pair(struct fan_congestion *c)
{
	float all = (float)(c->done + c->lost);
	float marked = (float)c->marked + (float)c->lost; /* a loss is a mark, and more */
	c->gamma = c->gamma * 63 / 64 + (float)c->prompt / all / 64;
	c->alpha = c->alpha * 7 / 8 + marked / all / 8;
	c->beta = c->beta * 7 / 8 + (float)c->taken / all / 8;
	float aggr = (float)c->aggr + 1, cwnd = (float)c->cwnd + 1;
	if (c->taken && c->beta > BETA_LEAST)
		aggr = (float)c->aggr * (1 - power(c->beta - BETA_LEAST, c->gamma) / 1.9F);
	if (marked > 0)
		cwnd = (float)c->cwnd * (1 - c->alpha / 2);
	c->cwnd = within(cwnd, CWND_MIN < c->max ? CWND_MIN : c->max, c->max);
	c->aggr = within(aggr, 1, c->cwnd);
	c->done = c->lost = c->marked = c->taken = c->prompt = 0;
}

static void halve(struct fan_congestion *c)
{
	c->cwnd = c->cwnd / 2 < CWND_MIN ? CWND_MIN : c->cwnd / 2;
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
	if (c->kind == FAN_CONTROL_A2TP) {
		look_at_pair(c);
		return;
	}
	if (c->lost * 8 > c->done + c->lost) {
		halve(c);
	} else {
		uint32_t more = c->cwnd / 16 && !c->marks ? c->cwnd / 16 : 1;
		c->cwnd = c->max - c->cwnd < more ? c->max : c->cwnd + more;
	}
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

void fan_congestion_marked(struct fan_congestion *c)
{
	if (c->kind == FAN_CONTROL_A2TP)
		return; /* told already */
	c->marks = true;
	if (c->held)
		return;
	c->held = c->cwnd;
	halve(c);
	c->done = c->lost = 0;
}
