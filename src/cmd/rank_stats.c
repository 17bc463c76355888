/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "net/logline.h"

#define TRIES	     3 /* questions, since one or its answer may be lost */
#define HELPERS_TOLD 4 /* named helpers of a slow rank; two or more others are added up */

/* Most answers about pairs from a switch: some are full, the others have scanned as many pairs as
 * they may. */
#define PAIRS	    (FAN_RANKS_MAX * FAN_RANKS_MAX)
#define ANSWERS_MAX (PAIRS / FAN_STATS_PAIRS + PAIRS / FAN_STATS_SCAN + 1)

/* The ranks of a job, as one shard reports them. */
struct team {
	struct fan_line name;
	unsigned shard, ranks;
	unsigned copy; /* teams of its name in the shard that were asked before */
	struct fan_standing rank[FAN_RANKS_MAX];
	bool paired; /* `kept` is known, by keeper and rank */
	uint32_t kept[FAN_RANKS_MAX][FAN_RANKS_MAX];
};

static const char *standing_text(const struct fan_standing *s)
{
	if (s->flags & FAN_RANK_STRAGGLES)
		return s->deferred ? "is slow, others keep for it" : "is slow";
	if (s->flags & FAN_RANK_FULL)
		return "keeps for others, is full";
	if (s->lent)
		return "keeps for others";
	return s->flags & FAN_RANK_OFFERS ? "would keep" : "-";
}

static void add_share(struct fan_line *l, const char *who, uint64_t parts, uint64_t all)
{
	if (parts)
		fan_line_add(l, "%s%s %.0f%%", l->used ? ", " : "", who,
			     100 * (double)parts / (double)all);
}

/* Who of the ranks has kept the most of the late contributions of `rank`, which is not in `told`.
 */
static unsigned best_helper(const struct team *t, unsigned rank, const uint64_t *told)
{
	unsigned best = 0;
	uint32_t most = 0;

	for (unsigned r = 0; r < t->ranks; r++) {
		if (fan_ranks_has(told, r) || t->kept[r][rank] <= most)
			continue;
		best = r;
		most = t->kept[r][rank];
	}
	return best;
}

/* "2 41%, 0 30%, 1 10%, itself 3%, 3 more 10%, server 6%": where the late contributions of `rank`
 * went. */
static void helpers_text(struct fan_line *l, const struct team *t, unsigned rank)
{
	uint64_t told[FAN_RANK_WORDS] = {0}, kept = 0, all = t->rank[rank].deferred;
	unsigned helpers = 0;
	char who[32];

	l->used = 0;
	l->text[0] = '\0';
	for (unsigned r = 0; r < t->ranks; r++) {
		kept += t->kept[r][rank];
		helpers += t->kept[r][rank] > 0;
	}
	all = kept > all ? kept : all; /* the answers are of different times */
	uint64_t rest = kept;
	unsigned tell = helpers <= HELPERS_TOLD + 1 ? helpers : HELPERS_TOLD;
	for (unsigned n = 0; n < tell; n++) {
		unsigned r = best_helper(t, rank, told);
		fan_ranks_set(told, r);
		rest -= t->kept[r][rank];
		snprintf(who, sizeof who, r == rank ? "itself" : "%u", r);
		add_share(l, who, t->kept[r][rank], all);
	}
	snprintf(who, sizeof who, "%u more", helpers - tell);
	add_share(l, who, rest, all);
	add_share(l, "server", all - kept, all);
}

static void print_rank(FILE *f, const struct team *t, unsigned rank, bool *begun)
{
	const struct fan_standing *s = &t->rank[rank];
	struct fan_line helpers = {.used = 0};

	if (t->paired)
		helpers_text(&helpers, t, rank);
	if (!*begun)
		fprintf(f, "\n%-5s %-20s %5s %7s %7s %9s %9s %6s %6s %6s  %-27s  %s\n", "shard",
			"ranks of job", "rank", "behind", "most", "deferred", "lent", "cache",
			"used", "peak", "", "helped by");
	*begun = true;
	fprintf(f, "%-5u %-20s %5u %7u %7u %9u %9u %6u %6u %6u  %-27s  %s\n", t->shard,
		t->name.used ? t->name.text : "?", rank, s->behind, s->most, s->deferred, s->lent,
		s->cache.frags, s->cache.open, s->cache.peak, standing_text(s),
		helpers.used ? helpers.text : "-");
}

/* For whom `rank` keeps sums, and how many; only ranks with any. */
static json_t *kept_json(const struct team *t, unsigned rank)
{
	json_t *o = json_object();
	char who[16];

	for (unsigned r = 0; r < t->ranks; r++) {
		if (!t->kept[rank][r])
			continue;
		snprintf(who, sizeof who, "%u", r);
		json_object_set_new(o, who, json_integer(t->kept[rank][r]));
	}
	return o;
}

static void add_rank(json_t *ranks, const struct team *t, unsigned rank)
{
	const struct fan_standing *s = &t->rank[rank];
	json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I}", "job", t->name.text, "shard",
			      (int)t->shard, "rank", (int)rank, "behind", (int)s->behind,
			      "behind_most", (int)s->most, "deferred", (json_int_t)s->deferred,
			      "lent", (json_int_t)s->lent);
	json_t *cache = json_pack(
		"{s:b, s:b, s:b, s:i, s:i, s:i}", "straggles", (s->flags & FAN_RANK_STRAGGLES) != 0,
		"offers", (s->flags & FAN_RANK_OFFERS) != 0, "full",
		(s->flags & FAN_RANK_FULL) != 0, "cache_frags", (int)s->cache.frags, "cache_open",
		(int)s->cache.open, "cache_peak", (int)s->cache.peak);

	json_object_update_new(j, cache);
	if (t->copy)
		json_object_set_new(j, "copy", json_integer(t->copy));
	if (t->paired)
		json_object_set_new(j, "helps", kept_json(t, rank));
	json_array_append_new(ranks, j);
}

static bool is_named(const struct team *t, const char *name, size_t bytes)
{
	struct fan_line l = {.used = 0};

	fan_line_escaped(&l, name, bytes);
	return l.used == t->name.used && memcmp(l.text, t->name.text, l.used) == 0;
}

/* Ask who keeps for whom.  A switch whose jobs have changed in between does not answer about this
 * job. */
static bool ask_helpers(struct ask_talk *t, unsigned index, struct team *team)
{
	struct fan_helper_stats m = {.next = 0};
	uint16_t first = 0;
	bool any = false;

	for (unsigned r = 0; r < team->ranks; r++)
		any |= team->rank[r].lent > 0;
	if (!any)
		return true;
	for (unsigned n = 0; n < ANSWERS_MAX; n++) {
		const struct ask_question w = {.topic = FAN_TOPIC_HELPERS,
					       .index = (uint16_t)index,
					       .first = first,
					       .helpers = &m};
		if (!ask_times(t, &w, TRIES) || m.ranks != team->ranks ||
		    !is_named(team, m.name, m.name_bytes))
			return false;
		for (unsigned i = 0; i < m.count; i++) {
			unsigned pair = m.help[i].pair;
			team->kept[pair / FAN_RANKS_MAX][pair % FAN_RANKS_MAX] = m.help[i].parts;
		}
		first = m.next;
		if (!first)
			return true;
	}
	return false;
}

/* Ask about all ranks, FAN_STATS_RANKS at a time.  Returns as rank_stats_ask does. */
static unsigned ask_team(struct ask_talk *t, unsigned index, struct team *team)
{
	struct fan_rank_stats m = {.jobs = 0};
	unsigned first = 0;

	do {
		const struct ask_question w = {.topic = FAN_TOPIC_RANKS,
					       .index = (uint16_t)index,
					       .first = (uint16_t)first,
					       .ranks = &m};
		if (!ask_times(t, &w, TRIES))
			return 0;
		if (!first)
			fan_line_escaped(&team->name, m.name, m.name_bytes);
		if (!is_named(team, m.name, m.name_bytes))
			break;
		memcpy(&team->rank[first], m.rank, m.count * sizeof *m.rank);
		first += m.count;
	} while (m.count && first < m.ranks);
	team->ranks = first;
	team->paired = first && ask_helpers(t, index, team);
	return m.jobs;
}

static unsigned count_copies(const json_t *ranks, const struct team *t)
{
	unsigned copies = 0;

	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const json_t *r = json_array_get(ranks, i);
		copies += !json_integer_value(json_object_get(r, "rank")) &&
			  json_integer_value(json_object_get(r, "shard")) == t->shard &&
			  !strcmp(json_string_value(json_object_get(r, "job")), t->name.text);
	}
	return copies;
}

unsigned rank_stats_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks, FILE *f,
			bool *begun)
{
	struct team *team = calloc(1, sizeof *team);

	if (!team)
		return 0;
	team->shard = shard;
	unsigned jobs = ask_team(t, index, team);
	team->copy = count_copies(ranks, team);
	for (unsigned r = 0; r < team->ranks; r++) {
		if (f)
			print_rank(f, team, r, begun);
		add_rank(ranks, team, r);
	}
	free(team);
	return jobs;
}
