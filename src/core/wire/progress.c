/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

/* The smallest `next` of ranks 0 .. `ranks` - 1. */
static uint64_t slowest_of(const struct fan_progress *p, uint16_t ranks)
{
	uint64_t low = UINT64_MAX;
	for (uint16_t r = 0; r < ranks; r++)
		if (p->next[r] < low)
			low = p->next[r];
	return low;
}

void fan_progress_standing(const struct fan_progress *p, uint16_t rank, struct fan_standing *s)
{
	s->behind = fan_progress_behind(p, rank);
	s->most = s->behind > p->most[rank] ? s->behind : p->most[rank];
	if (fan_progress_straggles(p, rank))
		s->flags |= FAN_RANK_STRAGGLES;
}

static uint16_t clip(uint64_t v)
{
	return v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;
}

struct fan_frag fan_progress_answer(const struct fan_progress *p, uint16_t ranks,
				    const struct fan_frag *asked)
{
	uint64_t end = asked->frag + 1, slowest = slowest_of(p, ranks);
	uint16_t before = p->front > end ? clip(p->front - end) : 0;
	return (struct fan_frag){
		.frag = asked->frag,
		.job = asked->job,
		.epoch = asked->epoch,
		.sender = FAN_RANK_NONE,
		.behind = slowest < end ? clip(end - slowest) : 0,
		.before = before,
		.type = FAN_TYPE_PROGRESS,
	};
}

struct fan_frag fan_progress_question(const struct fan_frag *asked, uint16_t rank)
{
	return (struct fan_frag){
		.frag = asked->frag,
		.job = asked->job,
		.epoch = asked->epoch,
		.flags = FAN_F_ASK,
		.sender = rank,
		.type = FAN_TYPE_PROGRESS,
	};
}
