/* SPDX-License-Identifier: Apache-2.0 */
/* report_ahead.c - the ranks of a job that run ahead of each other: who was behind when, who
 * kept how much, and for whom. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"
#include "report_blocks.h"
#include "standing.h"

#define ROWS_MAX   200 /* of a table */
#define LINES_MAX  8
#define SIDE_MAX   32 /* ranks on a side of the map */
#define TEXT_BYTES 256
#define NAME_BYTES 24

static const json_t *rank_of(const json_t *ahead, size_t rank)
{
	return json_array_get(json_object_get(ahead, "ranks"), rank);
}

static size_t ranks_of(const json_t *ahead)
{
	return json_array_size(json_object_get(ahead, "ranks"));
}

static json_t *table(const json_t *ahead)
{
	static const char *const key[] = {"rank",	 "lag_mean",   "lag_max",     "lent",
					  "deferred",	 "cache_peak", "cache_parts", "cache_done",
					  "cache_early", "cache_over", NULL};
	static const char *const name[] = {"rank",
					   "behind, mean",
					   "behind, most",
					   "given to keep",
					   "late contributions",
					   "kept at most",
					   "contributions kept",
					   "sums finished",
					   "asked for",
					   "no room"};
	json_t *columns = json_array(), *rows = json_array();
	for (unsigned k = 0; key[k]; k++)
		json_array_append_new(columns, fan_page_column(name[k], NULL));
	for (size_t i = 0; i < ranks_of(ahead) && i < ROWS_MAX; i++) {
		json_t *row = json_array();
		for (unsigned k = 0; key[k]; k++)
			json_array_append_new(row, fan_report_field(rank_of(ahead, i), key[k]));
		json_array_append_new(rows, row);
	}
	return json_pack("{ss so so s[is]}", "kind", "table", "columns", columns, "rows", rows,
			 "sort", 1, "down");
}

/* ---- the ranks with the most of something -------------------------------------------- */

struct chosen {
	double amount;
	unsigned rank;
};

static int by_amount(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	if (x->amount != y->amount)
		return x->amount < y->amount ? 1 : -1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_rank(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Leave the `most` of them with the largest amounts, by rank, none of 0 unless `zeros`; how many
 * there are. */
static unsigned choose(struct chosen *c, unsigned count, unsigned most, bool zeros)
{
	qsort(c, count, sizeof *c, by_amount);
	count = count < most ? count : most;
	while (!zeros && count && !(c[count - 1].amount > 0))
		count--;
	qsort(c, count, sizeof *c, by_rank);
	return count;
}

/* ---- over time --------------------------------------------------------------------- */

static double sum_of(const json_t *list)
{
	double sum = 0;
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v)
		sum += json_number_value(v);
	return sum;
}

/* A line for each of the ranks that have the most of `key`. */
static json_t *plot(const json_t *series, const char *key, const char *title, const char *y_name)
{
	const json_t *list = json_object_get(series, key);
	unsigned ranks = (unsigned)json_array_size(list), lines, each;
	struct chosen c[FAN_RANKS_MAX];
	char text[TEXT_BYTES];
	double most = 0;
	if (ranks > FAN_RANKS_MAX)
		return NULL;
	for (unsigned r = 0; r < ranks; r++)
		c[r] = (struct chosen){sum_of(json_array_get(list, r)), r};
	lines = choose(c, ranks, LINES_MAX, true);
	for (unsigned k = 0; k < lines; k++)
		most = fmax(most, c[k].amount);
	if (most == 0 || json_array_size(json_array_get(list, c[0].rank)) < 2)
		return NULL;
	json_t *drawn = json_array();
	for (unsigned k = 0; k < lines; k++) {
		snprintf(text, sizeof text, "rank %u", c[k].rank);
		json_t *y = fan_report_samples(json_array_get(list, c[k].rank), 1, &each);
		json_array_append_new(drawn, json_pack("{ss sf sf so}", "name", text, "x0",
						       fan_report_real(series, "start_s"), "dx",
						       fan_report_real(series, "interval_s") * each,
						       "y", y));
	}
	snprintf(text, sizeof text, "%s%s", title,
		 lines < ranks ? ": the ranks with the most" : "");
	return json_pack("{ss ss ss ss so}", "kind", "curves", "title", text, "x_name", "seconds",
			 "y_name", y_name, "lines", drawn);
}

/* ---- who helps whom ------------------------------------------------------------------ */

struct map {
	const json_t *ahead;
	struct chosen helper[FAN_RANKS_MAX], helped[FAN_RANKS_MAX];
	unsigned helpers, helpeds;
};

static double parts_of(const json_t *ahead, unsigned helper, unsigned helped)
{
	char who[NAME_BYTES];
	snprintf(who, sizeof who, "%u", helped);
	double v = fan_report_real(json_object_get(rank_of(ahead, helper), "helps"), who);
	return isnan(v) ? 0 : v;
}

/* What of the late contributions of `rank` no rank was given. */
static double at_aggregator(const json_t *ahead, unsigned rank)
{
	double rest = fan_report_real(rank_of(ahead, rank), "deferred");
	for (size_t r = 0; r < ranks_of(ahead); r++)
		rest -= parts_of(ahead, (unsigned)r, rank);
	return rest > 0 ? rest : 0;
}

static void find_sides(struct map *m, const json_t *ahead)
{
	unsigned ranks = (unsigned)ranks_of(ahead);
	memset(m, 0, sizeof *m);
	m->ahead = ahead;
	if (ranks > FAN_RANKS_MAX)
		return;
	for (unsigned r = 0; r < ranks; r++) {
		m->helped[r] = (struct chosen){fan_report_real(rank_of(ahead, r), "deferred"), r};
		m->helper[r] = (struct chosen){0, r};
		for (unsigned k = 0; k < ranks; k++)
			m->helper[r].amount += parts_of(ahead, r, k);
	}
	m->helpers = choose(m->helper, ranks, SIDE_MAX, false);
	m->helpeds = choose(m->helped, ranks, SIDE_MAX, false);
}

static json_t *map_rows(const struct map *m)
{
	json_t *rows = json_array(), *cells;
	char name[NAME_BYTES];
	for (unsigned y = 0; y < m->helpers; y++) {
		snprintf(name, sizeof name, "rank %u", m->helper[y].rank);
		cells = json_array();
		for (unsigned x = 0; x < m->helpeds; x++)
			json_array_append_new(cells, json_real(parts_of(m->ahead, m->helper[y].rank,
									m->helped[x].rank)));
		json_array_append_new(rows, json_pack("{ss so}", "name", name, "cells", cells));
	}
	cells = json_array();
	for (unsigned x = 0; x < m->helpeds; x++)
		json_array_append_new(cells, json_real(at_aggregator(m->ahead, m->helped[x].rank)));
	json_array_append_new(
		rows, json_pack("{ss sb so}", "name", "the server", "apart", 1, "cells", cells));
	return rows;
}

static void map(json_t *page, const json_t *ahead)
{
	struct map m;
	char text[TEXT_BYTES];
	find_sides(&m, ahead);
	if (!m.helpeds) {
		fan_page_add(page, json_pack("{ss ss}", "kind", "text", "text",
					     "Nobody was so far behind that others had to keep a "
					     "sum."));
		return;
	}
	snprintf(
		text, sizeof text,
		"Parts are late that find no slot while their rank is %d fragments or more behind the "
		"furthest.  Whoever keeps the sum of the others gets them.",
		FAN_LAG_FRAGS);
	fan_page_add(page, json_pack("{ss ss}", "kind", "text", "text", text));
	bool all = m.helpeds < SIDE_MAX && m.helpers < SIDE_MAX;
	snprintf(text, sizeof text,
		 "Who helps whom: late contributions, by rank and by who got them%s",
		 all ? "" : " (the ranks with the most)");
	json_t *columns = json_array();
	for (unsigned x = 0; x < m.helpeds; x++)
		json_array_append_new(columns, json_sprintf("%u", m.helped[x].rank));
	fan_page_add(page,
		     json_pack("{ss ss ss ss so so}", "kind", "map", "title", text, "x_name",
			       "late contributions of rank", "what", "late contributions of rank",
			       "columns", columns, "rows", map_rows(&m)));
}

void fan_report_ahead(json_t *page, const json_t *job)
{
	const json_t *ahead = json_object_get(job, "ahead");
	const json_t *series = json_object_get(ahead, "series");
	double cache_frags = fan_report_real(ahead, "cache_frags");
	const char *name = json_string_value(json_object_get(job, "name"));
	char text[TEXT_BYTES];
	if (!ahead)
		return;
	snprintf(text, sizeof text, "Ranks of %s", name ? name : "");
	fan_page_add(page, json_pack("{ss ss}", "kind", "heading", "text", text));
	fan_page_add(page,
		     plot(series, "behind", "Fragments behind the furthest rank", "fragments"));
	if (cache_frags > 0)
		fan_page_add(page, plot(series, "cache_open", "Sums kept for others", "sums"));
	map(page, ahead);
	snprintf(
		text, sizeof text,
		"They may run %.0f fragments ahead of the slowest, and each keeps at most %.0f sums "
		"for others.",
		fan_report_real(ahead, "window"), cache_frags);
	fan_page_add(page, json_pack("{ss ss}", "kind", "text", "text", text));
	fan_page_add(page, table(ahead));
}
