/* SPDX-License-Identifier: Apache-2.0 */
#include "lags.h"

#include "net/logline.h"

#define TRIES 3 /* questions: one of them, or its answer, may be lost */

static const char *standing_text(const struct fan_standing *s)
{
	if (s->flags & FAN_RANK_STRAGGLES)
		return s->owed ? "is slow, others keep for it" : "is slow";
	if (s->flags & FAN_RANK_FULL)
		return "keeps for others, is full";
	if (s->lent)
		return "keeps for others";
	return s->flags & FAN_RANK_OFFERS ? "would keep" : "-";
}

static void print_rank(FILE *f, const struct fan_lags *m, unsigned i, unsigned shard, bool *begun)
{
	const struct fan_standing *s = &m->rank[i];
	struct fan_line name = {.used = 0};

	fan_line_escaped(&name, m->name, m->name_bytes);
	if (!*begun)
		fprintf(f, "\n%-5s %-20s %5s %7s %7s %9s %9s %6s %6s %6s  %s\n", "shard",
			"ranks of job", "rank", "behind", "most", "owed", "lent", "cache", "used",
			"peak", "");
	*begun = true;
	fprintf(f, "%-5u %-20s %5u %7u %7u %9u %9u %6u %6u %6u  %s\n", shard,
		name.used ? name.text : "?", m->first + i, s->behind, s->most, s->owed, s->lent,
		s->cache.frags, s->cache.open, s->cache.peak, standing_text(s));
}

static void add_rank(json_t *ranks, const struct fan_lags *m, unsigned i, unsigned shard)
{
	const struct fan_standing *s = &m->rank[i];
	struct fan_line name = {.used = 0};

	fan_line_escaped(&name, m->name, m->name_bytes);
	json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I}", "job", name.text, "shard",
			      (int)shard, "rank", (int)(m->first + i), "behind", (int)s->behind,
			      "behind_most", (int)s->most, "owed", (json_int_t)s->owed, "lent",
			      (json_int_t)s->lent);
	json_t *cache = json_pack(
		"{s:b, s:b, s:b, s:i, s:i, s:i}", "straggles", (s->flags & FAN_RANK_STRAGGLES) != 0,
		"offers", (s->flags & FAN_RANK_OFFERS) != 0, "full",
		(s->flags & FAN_RANK_FULL) != 0, "cache_frags", (int)s->cache.frags, "cache_open",
		(int)s->cache.open, "cache_peak", (int)s->cache.peak);

	json_object_update_new(j, cache);
	json_array_append_new(ranks, j);
}

static bool is_answered(struct ask_talk *t, const struct ask_question *w)
{
	int n = 0;

	for (unsigned i = 0; i < TRIES && n == 0; i++)
		n = ask_once(t, w);
	return n == 1;
}

unsigned lags_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks, FILE *f,
		  bool *begun)
{
	struct fan_lags m = {.jobs = 0};
	unsigned first = 0;

	do {
		const struct ask_question w = {.type = FAN_TYPE_LAG,
					       .index = (uint16_t)index,
					       .first = (uint16_t)first,
					       .lags = &m};
		if (!is_answered(t, &w))
			return 0;
		for (unsigned i = 0; i < m.count; i++) {
			if (f)
				print_rank(f, &m, i, shard, begun);
			add_rank(ranks, &m, i, shard);
		}
		first += m.count;
	} while (m.count && first < m.ranks);
	return m.jobs;
}
