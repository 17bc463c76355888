/* SPDX-License-Identifier: Apache-2.0 */
/* report_ahead.c - the ranks of a job that run ahead of each other: who was behind when, who
 * kept how much, and for whom. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "report_page.h"
#include "standing.h"

#define ROWS_MAX   200 /* of a table */
#define LINES_MAX  FAN_PLOT_COLOURS
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

static void table(FILE *f, const json_t *ahead)
{
	static const char *const key[] = {"lag_mean",	"lag_max",     "lent",	     "deferred",
					  "cache_peak", "cache_parts", "cache_done", "cache_early",
					  "cache_over", NULL};
	fputs("<table><tr><th>rank<th>behind, mean<th>behind, most"
	      "<th>given to keep<th>late contributions<th>kept at most<th>contributions kept<th>sums finished"
	      "<th>asked for<th>no room</tr>\n",
	      f);
	for (size_t i = 0; i < ranks_of(ahead) && i < ROWS_MAX; i++) {
		fputs("<tr>", f);
		fan_report_cell(f, fan_report_real(rank_of(ahead, i), "rank"), "");
		for (unsigned k = 0; key[k]; k++)
			fan_report_cell(f, fan_report_real(rank_of(ahead, i), key[k]), "");
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
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

static unsigned values(const json_t *list, double *y)
{
	unsigned n = 0;
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v)
		if (n < FAN_STANDING_MAX)
			y[n++] = json_is_number(v) ? json_number_value(v) : NAN;
	return n;
}

/* A line for each of the ranks that have the most of `key`. */
static void plot(FILE *f, const json_t *series, const char *key, const char *title,
		 const char *y_name)
{
	double x[FAN_STANDING_MAX], y[LINES_MAX][FAN_STANDING_MAX];
	char name[LINES_MAX][NAME_BYTES];
	const json_t *list = json_object_get(series, key);
	unsigned ranks = (unsigned)json_array_size(list), lines;
	struct fan_plot_line line[LINES_MAX];
	struct chosen c[FAN_RANKS_MAX];
	char text[TEXT_BYTES];
	double most = 0;
	if (ranks > FAN_RANKS_MAX)
		return;
	for (unsigned i = 0; i < FAN_STANDING_MAX; i++)
		x[i] = fan_report_real(series, "start_s") +
		       i * fan_report_real(series, "interval_s");
	for (unsigned r = 0; r < ranks; r++)
		c[r] = (struct chosen){sum_of(json_array_get(list, r)), r};
	lines = choose(c, ranks, LINES_MAX, true);
	for (unsigned k = 0; k < lines; k++) {
		snprintf(name[k], sizeof name[k], "rank %u", c[k].rank);
		line[k] = (struct fan_plot_line){.name = name[k], .x = x, .y = y[k]};
		most = fmax(most, c[k].amount);
		line[k].points = values(json_array_get(list, c[k].rank), y[k]);
	}
	if (most == 0 || line[0].points < 2)
		return;
	snprintf(text, sizeof text, "%s%s", title,
		 lines < ranks ? ": the ranks with the most" : "");
	const struct fan_plot p = {
		.title = text, .x_name = "seconds", .y_name = y_name, .line = line, .lines = lines};
	fan_plot_write(f, &p);
}

/* ---- who helps whom ------------------------------------------------------------------ */

#define MAP_LEFT  86.0
#define MAP_TOP	  40.0
#define MAP_WIDTH 660.0
#define CELL_WIDE 64.0 /* at most */
#define CELL_HIGH 28.0
#define CELL_TEXT 26.0 /* from this width on there is room for a number */

struct map {
	const json_t *ahead;
	struct chosen helper[FAN_RANKS_MAX], helped[FAN_RANKS_MAX];
	unsigned helpers, helpeds;
	double most, most_aggregator; /* in one cell of a rank's, and of the server's */
	double wide, high;	      /* a cell */
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
	for (unsigned x = 0; x < m->helpeds; x++) {
		for (unsigned y = 0; y < m->helpers; y++)
			m->most = fmax(m->most,
				       parts_of(ahead, m->helper[y].rank, m->helped[x].rank));
		m->most_aggregator =
			fmax(m->most_aggregator, at_aggregator(ahead, m->helped[x].rank));
	}
	m->wide = fmin(CELL_WIDE, MAP_WIDTH / (m->helpeds ? m->helpeds : 1));
	m->high = fmin(CELL_HIGH, m->wide);
}

/* The cell in column x, row y: how many contributions of rank `helped`, and who has got them. */
static void cell(FILE *f, const struct map *m, unsigned x, unsigned y, double parts,
		 bool aggregator)
{
	unsigned helped = m->helped[x].rank;
	char text[NAME_BYTES];
	double left = MAP_LEFT + x * m->wide, top = MAP_TOP + y * m->high;
	if (!(parts > 0))
		return;
	fprintf(f,
		"<rect class=\"cell%s\" x=%.1f y=%.1f width=%.1f height=%.1f fill-opacity=%.2f>"
		"<title>",
		aggregator ? " server" : "", left + 1, top + 1, m->wide - 2, m->high - 2,
		0.08 + 0.55 * parts / (aggregator ? m->most_aggregator : m->most));
	if (aggregator)
		fputs("the server", f);
	else
		fprintf(f, "rank %u", m->helper[y].rank);
	fprintf(f, " got %.0f late contributions of rank %u</title></rect>", parts, helped);
	snprintf(text, sizeof text, parts < 10000 ? "%.0f" : "%.1fk",
		 parts < 10000 ? parts : parts / 1000);
	if (m->wide >= CELL_TEXT)
		fprintf(f, "<text class=in x=%.1f y=%.1f text-anchor=middle>%s</text>",
			left + m->wide / 2, top + m->high / 2 + 4, text);
	fputc('\n', f);
}

static void row_name(FILE *f, const struct map *m, unsigned y, const char *name)
{
	fprintf(f, "<text class=tick x=%.1f y=%.1f text-anchor=end>%s</text>\n", MAP_LEFT - 8,
		MAP_TOP + (y + 0.5) * m->high + 4, name);
}

static void map_rows(FILE *f, const struct map *m)
{
	char name[NAME_BYTES];
	for (unsigned x = 0; x < m->helpeds; x++)
		fprintf(f, "<text class=tick x=%.1f y=%.1f text-anchor=middle>%u</text>\n",
			MAP_LEFT + (x + 0.5) * m->wide, MAP_TOP - 8, m->helped[x].rank);
	for (unsigned y = 0; y < m->helpers; y++) {
		snprintf(name, sizeof name, "rank %u", m->helper[y].rank);
		row_name(f, m, y, name);
		for (unsigned x = 0; x < m->helpeds; x++)
			cell(f, m, x, y, parts_of(m->ahead, m->helper[y].rank, m->helped[x].rank),
			     false);
	}
	row_name(f, m, m->helpers, "the server");
	for (unsigned x = 0; x < m->helpeds; x++)
		cell(f, m, x, m->helpers, at_aggregator(m->ahead, m->helped[x].rank), true);
}

static void map(FILE *f, const json_t *ahead)
{
	struct map m;
	find_sides(&m, ahead);
	if (!m.helpeds) {
		fputs("<p>Nobody was so far behind that others had to keep a sum.</p>\n", f);
		return;
	}
	bool all = m.helpeds < SIDE_MAX && m.helpers < SIDE_MAX;
	fprintf(f,
		"<p>Parts are late that find no slot while their rank is %d fragments or more "
		"behind the furthest.  Whoever keeps the sum of the others gets them.</p>\n"
		"<figure><figcaption>Who helps whom: late contributions, by rank and by who got them%s"
		"</figcaption><svg viewBox=\"0 0 760 %.0f\" role=img>\n",
		FAN_LAG_FRAGS, all ? "" : " (the ranks with the most)",
		MAP_TOP + (m.helpers + 1) * m.high + 8);
	fprintf(f, "<text class=name x=%.1f y=14>late contributions of rank</text>\n", MAP_LEFT);
	map_rows(f, &m);
	fputs("</svg></figure>\n", f);
}

void fan_report_ahead(FILE *f, const json_t *job)
{
	const json_t *ahead = json_object_get(job, "ahead");
	const json_t *series = json_object_get(ahead, "series");
	double cache_frags = fan_report_real(ahead, "cache_frags");
	const char *name = json_string_value(json_object_get(job, "name"));
	if (!ahead)
		return;
	fputs("<h2>Ranks of ", f);
	fan_plot_text(f, name ? name : "");
	fprintf(f,
		"</h2><p>They may run %.0f fragments ahead of the slowest, and each keeps at most "
		"%.0f sums for others.</p>\n",
		fan_report_real(ahead, "window"), cache_frags);
	table(f, ahead);
	plot(f, series, "behind", "Fragments behind the furthest rank", "fragments");
	if (cache_frags > 0)
		plot(f, series, "cache_open", "Sums kept for others", "sums");
	map(f, ahead);
}
