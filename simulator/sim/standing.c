/* SPDX-License-Identifier: Apache-2.0 */
#include "standing.h"

#include <assert.h>
#include <stdlib.h>

static bool loans_init(struct fan_standing_loans *l, size_t ranks)
{
	l->lent = calloc(ranks * (ranks + 2), sizeof *l->lent);
	l->deferred = l->lent + ranks;
	l->kept = l->deferred + ranks;
	return l->lent != NULL;
}

bool fan_standings_init(struct fan_standings *s, uint32_t ranks, uint64_t interval_ns)
{
	assert(ranks > 0);
	memset(s, 0, sizeof *s);
	s->ranks = ranks;
	s->interval_ns = interval_ns ? interval_ns : 1;
	s->sum = calloc((size_t)ranks * FAN_STANDING_MAX, sizeof *s->sum);
	bool ok = loans_init(&s->now, ranks);
	ok &= loans_init(&s->past, ranks);
	return ok && s->sum;
}

void fan_standings_free(struct fan_standings *s)
{
	free(s->sum);
	free(s->now.lent);
	free(s->past.lent);
}

static struct fan_standing_at *sum_at(const struct fan_standings *s, uint32_t rank, uint32_t i)
{
	assert(rank < s->ranks && i < FAN_STANDING_MAX);
	return &s->sum[(size_t)rank * FAN_STANDING_MAX + i];
}

static void halve(struct fan_standings *s)
{
	for (uint32_t i = 0; i < FAN_STANDING_MAX; i++) {
		bool both = i < FAN_STANDING_MAX / 2;
		s->weight[i] = both ? s->weight[2 * i] + s->weight[2 * i + 1] : 0;
		for (uint32_t r = 0; r < s->ranks; r++) {
			struct fan_standing_at *to = sum_at(s, r, i), sum = {0, 0};
			for (uint32_t k = 2 * i; both && k < 2 * i + 2; k++) {
				sum.behind += sum_at(s, r, k)->behind;
				sum.kept += sum_at(s, r, k)->kept;
			}
			*to = sum;
		}
	}
	s->count = (s->count + 1) / 2;
	s->interval_ns *= 2;
}

void fan_standings_look(struct fan_standings *s, uint64_t now_ns, const struct fan_standing_at *at)
{
	if (!s->count)
		s->start_ns = now_ns;
	while ((now_ns - s->start_ns) / s->interval_ns >= FAN_STANDING_MAX)
		halve(s);
	uint32_t i = (uint32_t)((now_ns - s->start_ns) / s->interval_ns);
	s->count = i + 1;
	s->weight[i]++;
	for (uint32_t r = 0; r < s->ranks; r++) {
		sum_at(s, r, i)->behind += at[r].behind;
		sum_at(s, r, i)->kept += at[r].kept;
	}
}

void fan_standings_life(struct fan_standings *s, const uint64_t life[2])
{
	size_t counts = (size_t)s->ranks * (s->ranks + UINT32_C(2));
	if (memcmp(s->life, life, sizeof s->life) == 0)
		return;
	memcpy(s->life, life, sizeof s->life);
	for (size_t i = 0; i < counts; i++)
		s->past.lent[i] += s->now.lent[i];
	memset(s->now.lent, 0, counts * sizeof *s->now.lent);
}

void fan_standings_count(struct fan_standings *s, uint16_t rank, const struct fan_switch_rank *r)
{
	assert(rank < s->ranks);
	s->now.lent[rank] = r->lent;
	s->now.deferred[rank] = r->deferred;
	if (r->kept)
		memcpy(&s->now.kept[(size_t)rank * s->ranks], r->kept,
		       s->ranks * sizeof *s->now.kept);
}

uint32_t fan_standings_lent(const struct fan_standings *s, uint32_t rank)
{
	assert(rank < s->ranks);
	return s->past.lent[rank] + s->now.lent[rank];
}

uint32_t fan_standings_deferred(const struct fan_standings *s, uint32_t rank)
{
	assert(rank < s->ranks);
	return s->past.deferred[rank] + s->now.deferred[rank];
}

uint32_t fan_standings_kept(const struct fan_standings *s, uint32_t helper, uint32_t helped)
{
	assert(helper < s->ranks && helped < s->ranks);
	size_t pair = (size_t)helper * s->ranks + helped;
	return s->past.kept[pair] + s->now.kept[pair];
}
