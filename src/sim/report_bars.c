/* SPDX-License-Identifier: Apache-2.0 */
/* report_bars.c - a bar for each variant, with the spread over its seeds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "outcome.h"
#include "plot.h"
#include "report_page.h"

#define WIDTH	 760.0
#define LABEL	 190.0 /* room for names... */
#define VALUE	 150.0 /* ...and for figures */
#define ROW	 30.0
#define BAR	 17.0
#define BARS_MAX 64 /* more would not be read */

static double length_of(double v, double most)
{
	return most > 0 ? v / most * (WIDTH - LABEL - VALUE) : 0;
}

/* "2 of 4 jobs failed 12.3 ms" */
static void value_text(FILE *f, const struct fan_outcome *g)
{
	char text[32];
	if (g->failed)
		fprintf(f, "<tspan class=failed>%u of %u jobs failed</tspan> ", g->failed, g->jobs);
	if (!g->counted)
		return;
	fan_plot_seconds(text, sizeof text, g->mean);
	fan_plot_text(f, text);
}

static void bar(FILE *f, const struct fan_outcome *g, unsigned row, double most)
{
	double top = ROW * row + (ROW - BAR) / 2, middle = ROW * row + ROW / 2, end = LABEL;
	fprintf(f, "<text x=%.1f y=%.1f class=name text-anchor=end>", LABEL - 8, middle + 4);
	fan_plot_text(f, g->name[0] ? g->name : "all seeds");
	fputs("</text>", f);
	if (g->counted) {
		double low = LABEL + length_of(g->low, most);
		end = LABEL + length_of(g->high, most);
		fprintf(f,
			"<rect class=\"dot c%u\" x=%.1f y=%.1f width=%.1f height=%.1f><title>%u runs, "
			"from %.6g to %.6g</title></rect>"
			"<path class=spread d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\" />",
			row % FAN_PLOT_COLOURS, LABEL, top, length_of(g->mean, most), BAR,
			g->counted, g->low, g->high, low, middle, end, low, middle - 4, end,
			middle - 4);
	}
	fprintf(f, "<text x=%.1f y=%.1f class=tick>", end + 8, middle + 4);
	value_text(f, g);
	fputs("</text>\n", f);
}

void fan_report_bars(FILE *f, const json_t *result, const char *title,
		     double (*figure)(const json_t *run))
{
	size_t count = 0;
	double most = 0;
	struct fan_outcome *group = fan_outcomes_make(result, NULL, figure, &count);
	if (!group)
		return;
	count = count < BARS_MAX ? count : BARS_MAX;
	for (size_t i = 0; i < count; i++)
		most = group[i].high > most ? group[i].high : most;
	fputs("<figure><figcaption>", f);
	fan_plot_text(f, title);
	fprintf(f, "</figcaption>\n<svg viewBox=\"0 0 %.0f %.0f\" role=img>\n", WIDTH,
		ROW * (double)count);
	for (size_t i = 0; i < count; i++)
		bar(f, &group[i], (unsigned)i, most);
	fputs("</svg></figure>\n", f);
	free(group);
}
