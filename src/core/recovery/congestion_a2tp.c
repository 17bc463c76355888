/* SPDX-License-Identifier: Apache-2.0 */
/* congestion_a2tp.c - A2TP, EuroSys'23: a window for links (cwnd), and within it one for shared
 * slots (aggr).  The first `aggr` fragments of each window take slots; the others bypass them.
 * Once per window, where a loss counts as a mark:
 *
 *     gamma <- 63/64 gamma + 1/64 (share of results within a base round trip of its start)
 *     alpha <- 7/8 alpha + 1/8 marks / cwnd
 *     beta  <- 7/8 beta + 1/8 (results with a slot that was taken) / aggr
 *     taken, and beta > 0.1:  aggr <- aggr (1 - (beta - 0.1)^gamma / 1.9);  otherwise aggr + 1
 *     marked:                 cwnd <- cwnd (1 - alpha / 2);  otherwise cwnd + 1
 *     1 <= aggr <= cwnd
 *
 * A rank that waits for a straggler has a small gamma, and gives slots up fast.  The paper's base
 * round trip is a constant; here it is one and a half times the shortest that the job has seen. */
#include "congestion.h"

#define ONE   65536u	 /* 1, of alpha, beta, gamma and aggr */
#define BEARS (ONE / 10) /* the beta that is borne */
#define BITS  12	 /* of an exponent */

enum { ALPHA, BETA, GAMMA, AGGR, MARKED, TAKEN, PROMPT, BASE_NS, START_NS };

static uint32_t root(uint32_t square)
{
	uint32_t r = 0;
	for (uint32_t bit = 1u << 15; bit; bit >>= 1)
		if ((r | bit) * (r | bit) <= square)
			r |= bit;
	return r;
}

/* x^y, both of ONE, x < ONE: the product of roots of x, one for each bit of y. */
static uint64_t power(uint64_t x, uint64_t y)
{
	uint64_t product = ONE;
	if (y >= ONE)
		return x;
	for (uint64_t bit = ONE / 2; bit >= ONE >> BITS; bit /= 2) {
		x = root((uint32_t)(x * ONE));
		if (y & bit)
			product = product * x / ONE;
	}
	return product;
}

/* The mean with `part` of `whole`, which weighs 1 / `weight`. */
static void smooth(uint64_t *mean, uint64_t part, uint64_t whole, uint64_t weight)
{
	*mean = (*mean * (weight - 1) + (part < whole ? part * ONE / whole : ONE)) / weight;
}

/* Once per window. */
static void look(struct fan_congestion *c, uint64_t now_ns)
{
	uint64_t *own = c->own, all = c->done + c->lost, cwnd = c->cwnd + 1, aggr = own[AGGR] + ONE;
	if (all < c->cwnd)
		return;
	if (own[START_NS])
		smooth(&own[GAMMA], own[PROMPT], all, 64);
	smooth(&own[ALPHA], own[MARKED] + c->lost, c->cwnd, 8);
	smooth(&own[BETA], own[TAKEN] * ONE, own[AGGR], 8);
	if (own[TAKEN] && own[BETA] > BEARS)
		aggr = own[AGGR] * (ONE - power(own[BETA] - BEARS, own[GAMMA]) * 10 / 19) / ONE;
	if (own[MARKED] + c->lost)
		cwnd = c->cwnd * (ONE - own[ALPHA] / 2) / ONE;
	fan_congestion_set(c, cwnd);
	own[AGGR] = aggr < ONE ? ONE : aggr / ONE < c->cwnd ? aggr : (uint64_t)c->cwnd * ONE;
	c->slots = own[AGGR] / ONE < c->cwnd ? (uint32_t)(own[AGGR] / ONE) : FAN_CONGESTION_ALL;
	c->crowded = c->cwnd < c->max && (c->crowded || c->lost * 8 > all);
	own[MARKED] = own[TAKEN] = own[PROMPT] = c->done = c->lost = 0;
	own[START_NS] = now_ns;
}

static void init(struct fan_congestion *c)
{
	c->own[GAMMA] = ONE;
	c->own[AGGR] = (uint64_t)c->max * ONE;
	c->own[BASE_NS] = UINT32_MAX;
}

static void ended(struct fan_congestion *c, uint64_t now_ns, uint64_t trip_ns)
{
	if (trip_ns != FAN_CONGESTION_LOST) {
		if (trip_ns && trip_ns < c->own[BASE_NS])
			c->own[BASE_NS] = trip_ns;
		c->own[PROMPT] += now_ns - c->own[START_NS] <= c->own[BASE_NS] * 3 / 2;
	}
	look(c, now_ns);
}

static void marked(struct fan_congestion *c, uint64_t now_ns)
{
	(void)now_ns;
	c->own[MARKED]++;
}

static void taken(struct fan_congestion *c, uint64_t now_ns)
{
	(void)now_ns;
	c->own[TAKEN]++;
}

const struct fan_congestion_control fan_congestion_a2tp = {
	.init = init, .ended = ended, .marked = marked, .taken = taken};
