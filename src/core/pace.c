/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

uint64_t fan_pace_slowest(const struct fan_pace *p, uint16_t ranks)
{
	uint64_t low = UINT64_MAX;
	for (uint16_t r = 0; r < ranks; r++)
		if (p->next[r] < low)
			low = p->next[r];
	return low;
}

void fan_pace_standing(const struct fan_pace *p, uint16_t rank, struct fan_standing *s)
{
	s->behind = fan_pace_behind(p, rank);
	s->most = s->behind > p->most[rank] ? s->behind : p->most[rank];
	if (s->behind >= FAN_LAG_FRAGS)
		s->flags |= FAN_RANK_STRAGGLES;
}

static uint16_t clip(uint64_t v)
{
	return v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;
}

struct fan_frag fan_pace_answer(const struct fan_pace *p, uint16_t ranks,
				const struct fan_frag *asked)
{
	uint64_t end = asked->frag + 1, slowest = fan_pace_slowest(p, ranks);
	uint16_t before = p->front > end ? clip(p->front - end) : 0;
	return (struct fan_frag){
		.frag = asked->frag,
		.job = asked->job,
		.epoch = asked->epoch,
		.sender = FAN_RANK_NONE,
		.count = slowest < end ? clip(end - slowest) : 0,
		.exponent = (int16_t)before,
		.type = FAN_TYPE_PACE,
		.op = FAN_BARRIER,
	};
}

struct fan_frag fan_pace_question(const struct fan_frag *asked, uint16_t rank)
{
	return (struct fan_frag){
		.frag = asked->frag,
		.job = asked->job,
		.epoch = asked->epoch,
		.flags = FAN_F_LEAD,
		.sender = rank,
		.type = FAN_TYPE_PACE,
		.op = FAN_BARRIER,
	};
}

uint64_t fan_pace_heard(const struct fan_frag *f)
{
	return f->frag + 1 < f->count ? 0 : f->frag + 1 - f->count;
}
