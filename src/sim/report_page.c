/* SPDX-License-Identifier: Apache-2.0 */
#include "report_page.h"

#include <math.h>
#include <string.h>

#include "plot.h"

/* share/report.css, as tools/c-string.py turns it into a string. */
static const char style[] =
#include "sim/report_css.inc"
	;

double fan_report_real(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

void fan_report_cell(FILE *f, double v, const char *format)
{
	char t[64] = "–";
	if (!isnan(v))
		snprintf(t, sizeof t, strcmp(format, "G") == 0 ? "%.4g" : "%.0f", v);
	fprintf(f, "<td class=n>%s</td>", t);
}

void fan_report_head(FILE *f, const char *title)
{
	fputs("<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
	      "<meta name=viewport content=\"width=device-width\">\n<title>",
	      f);
	fan_plot_text(f, title);
	fprintf(f, " – fanin sim</title>\n<style>\n%s", style);
	for (unsigned i = 0; i < FAN_PLOT_COLOURS; i++)
		fprintf(f,
			".line.c%u{stroke:var(--k%u)}.area.c%u,.dot.c%u{fill:var(--k%u)}"
			".legend .c%u{background:var(--k%u)}\n",
			i, i, i, i, i, i, i);
	fputs("</style></head><body><main>\n", f);
}
