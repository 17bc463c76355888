/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define MILLION		 UINT64_C(1000000)
#define PARETO_MOST	 100.0 /* times as long as usual */
#define PARETO_POWER_MAX 16.0
#define PARETO_BITS	 24

uint64_t fan_model_numel(const struct fan_model *m)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < m->layers; i++)
		sum += m->layer[i].numel;
	return sum;
}

bool fan_job_cut(struct fan_job_config *c, uint64_t bytes)
{
	const struct fan_model *m = &c->model;
	c->bucket = calloc(m->layers ? m->layers : 1, sizeof *c->bucket);
	c->buckets = c->first = 0;
	while (c->first < m->layers && m->layer[c->first].numel == 0)
		c->first++;
	if (!c->bucket)
		return false;
	struct fan_bucket b = {.elems = 0};
	for (uint32_t i = m->layers; i-- > 0;) {
		b.low = i;
		b.elems += m->layer[i].numel;
		bool full = b.elems * sizeof(float) >= bytes || i == 0;
		if (!full || b.elems == 0)
			continue;
		c->bucket[c->buckets++] = b;
		b.elems = 0;
	}
	return true;
}

uint32_t fan_job_bucket_of(const struct fan_job_config *c, uint32_t layer)
{
	assert(c->buckets > 0);
	for (uint32_t b = 0; b < c->buckets; b++)
		if (layer >= c->bucket[b].low)
			return b;
	return c->buckets ? c->buckets - 1 : 0;
}

/* The factor by which it takes longer than at best: u^(-1 / shape), where `draw` gives a u of 0 to
 * 1.  Uses only squares and roots, which are exact to the last bit on every machine. */
static double pareto(uint64_t draw, uint32_t shape)
{
	assert(shape > 0);
	double u = (double)((draw >> 11) + 1) / 0x1p53, part = (double)MILLION / shape, r = 1;
	if (part > PARETO_POWER_MAX)
		part = PARETO_POWER_MAX;
	unsigned whole = (unsigned)part;
	for (unsigned i = 0; i < whole; i++)
		r *= u;
	part -= whole;
	for (unsigned bit = 0; bit < PARETO_BITS; bit++) {
		u = sqrt(u);
		part *= 2;
		if (part >= 1) {
			r *= u;
			part--;
		}
	}
	return r * PARETO_MOST > 1 ? 1 / r : PARETO_MOST;
}

uint64_t fan_job_jittered(const struct fan_job_config *c, uint16_t rank, uint32_t iteration,
			  uint64_t work_ns)
{
	uint64_t draw = fan_rng_mix(c->seed ^ fan_rng_mix((uint64_t)rank << 32 | iteration));
	if (c->pareto)
		work_ns = (uint64_t)((double)work_ns * pareto(fan_rng_mix(draw), c->pareto));
	if (!c->jitter || !work_ns)
		return work_ns;
	uint64_t share = MILLION - c->jitter + draw % (2 * (uint64_t)c->jitter + 1);
	return (uint64_t)((unsigned __int128)work_ns * share / MILLION);
}

/* The speed that one cause leaves at `at_ns`, and until when it holds. */
static uint32_t speed_of(const struct fan_job_config *c, const struct fan_slow *s, uint16_t rank,
			 uint64_t at_ns, uint64_t *until_ns)
{
	*until_ns = UINT64_MAX;
	if (rank < s->rank || rank - s->rank >= s->ranks || at_ns >= s->to_ns)
		return (uint32_t)MILLION;
	if (at_ns < s->from_ns) {
		*until_ns = s->from_ns;
		return (uint32_t)MILLION;
	}
	*until_ns = s->to_ns;
	if (!s->interval_ns)
		return s->speed;
	uint64_t interval = (at_ns - s->from_ns) / s->interval_ns;
	uint64_t end_ns = s->from_ns + (interval + 1) * s->interval_ns;
	if (end_ns < *until_ns)
		*until_ns = end_ns;
	uint64_t which = (uint64_t)(s - c->slow) << 16 | rank;
	uint64_t draw = fan_rng_mix(c->seed + fan_rng_mix(interval) + which * 0x9e3779b9);
	return draw % MILLION < s->chance ? s->speed : (uint32_t)MILLION;
}

/* The lowest speed that any cause of slow sending, or else computing, leaves. */
static uint32_t lowest(const struct fan_job_config *c, bool sends, uint16_t rank, uint64_t at_ns,
		       uint64_t *until_ns)
{
	uint32_t speed = MILLION;
	*until_ns = UINT64_MAX;
	for (uint32_t i = 0; i < c->slows; i++) {
		uint64_t end_ns;
		if (!(sends ? c->slow[i].sends : c->slow[i].computes))
			continue;
		uint32_t mine = speed_of(c, &c->slow[i], rank, at_ns, &end_ns);
		speed = mine < speed ? mine : speed;
		*until_ns = end_ns < *until_ns ? end_ns : *until_ns;
	}
	return speed;
}

uint32_t fan_job_sending(const struct fan_job_config *c, uint16_t rank, uint64_t at_ns,
			 uint64_t *until_ns)
{
	return lowest(c, true, rank, at_ns, until_ns);
}

uint64_t fan_job_work_until(const struct fan_job_config *c, uint16_t rank, uint64_t now_ns,
			    uint64_t work_ns)
{
	/* ends: each turn finishes the work, or does some of it up to the end of an interval */
	while (work_ns) {
		uint64_t until_ns, speed = lowest(c, false, rank, now_ns, &until_ns);
		uint64_t need_ns =
			(uint64_t)(((unsigned __int128)work_ns * MILLION + speed - 1) / speed);
		if (until_ns - now_ns >= need_ns)
			return now_ns + need_ns;
		uint64_t did_ns =
			(uint64_t)((unsigned __int128)(until_ns - now_ns) * speed / MILLION);
		work_ns -= did_ns < work_ns ? did_ns : work_ns;
		now_ns = until_ns;
	}
	return now_ns;
}
