/* SPDX-License-Identifier: Apache-2.0 */
/* congestion_dctcp.c - DCTCP (RFC 8257) for fragments: once per window, shrink by half of the share
 * that was marked, a mean with weight 1/16 for the newest; otherwise one fragment more. */
#include "congestion.h"

#define ONE 1024u

enum { ALPHA, MARKED };

static void ended(struct fan_congestion *c, uint64_t now_ns, uint64_t trip_ns)
{
	(void)now_ns;
	(void)trip_ns;
	uint64_t all = c->done + c->lost, marked = c->own[MARKED] + c->lost;
	if (all < c->cwnd)
		return;
	marked = marked < all ? marked : all;
	c->own[ALPHA] = (c->own[ALPHA] * 15 + marked * ONE / all) / 16;
	fan_congestion_set(c, marked ? c->cwnd - c->cwnd * c->own[ALPHA] / ONE / 2 : c->cwnd + 1);
	c->own[MARKED] = c->done = c->lost = 0;
}

static void marked(struct fan_congestion *c, uint64_t now_ns)
{
	(void)now_ns;
	c->own[MARKED]++;
}

const struct fan_congestion_control fan_congestion_dctcp = {.ended = ended, .marked = marked};
