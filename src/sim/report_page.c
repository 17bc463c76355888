/* SPDX-License-Identifier: Apache-2.0 */
#include "report_page.h"

#include <math.h>
#include <string.h>

#include "plot.h"

static const char style[] =
	":root{--bg:#fbfaf8;--fg:#1d2129;--soft:#6b7280;--grid:#e3e0da;--card:#fff;--line:#d9d5cc;"
	"--k0:#2f6fb0;--k1:#d9822b;--k2:#3a8f5c;--k3:#b5413f;--k4:#7a58a8;--k5:#8a6d3b;"
	"--k6:#c05a96;--k7:#4a9aa5}\n"
	"@media(prefers-color-scheme:dark){:root{--bg:#16191f;--fg:#e6e7ea;--soft:#9aa1ad;"
	"--grid:#2b303a;--card:#1d2129;--line:#353b47;--k0:#6ea8e0;--k1:#f0a860;--k2:#6cc08c;"
	"--k3:#e57f7c;--k4:#ab8fd6;--k5:#c8a86a;--k6:#e291c2;--k7:#7cc7d1}}\n"
	"body{margin:0;background:var(--bg);color:var(--fg);"
	"font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}\n"
	"main{max-width:1000px;margin:0 auto;padding:32px 20px 64px}\n"
	"h1{font-size:28px;margin:0}h2{font-size:19px;margin:38px 0 10px}\n"
	".sub,.legend{color:var(--soft);margin:2px 0 18px}\n"
	".cards{display:flex;flex-wrap:wrap;gap:12px}\n"
	".card{background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"padding:12px 18px;min-width:120px}\n"
	".card b{display:block;font-size:21px;font-variant-numeric:tabular-nums}\n"
	".card span{color:var(--soft);font-size:13px}\n"
	"figure{margin:14px 0;background:var(--card);border:1px solid var(--line);"
	"border-radius:8px;padding:14px 16px}\n"
	"figcaption{font-weight:600;margin-bottom:4px}svg{width:100%;height:auto;display:block}\n"
	"table{border-collapse:collapse;width:100%;font-size:13.5px;display:block;overflow-x:auto}\n"
	"th{text-align:left;color:var(--soft);font-weight:500;white-space:nowrap}\n"
	"th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--grid)}\n"
	"td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
	".bad{color:var(--k3)}.grid{stroke:var(--grid)}.tickmark{stroke:var(--soft)}\n"
	".tick,.name{fill:var(--soft);font-size:12px}.failed{fill:var(--k3);font-weight:600}\n"
	".spread{fill:none;stroke:var(--fg);stroke-width:1.4}\n"
	".line{fill:none;stroke-width:2;stroke-linejoin:round}.area{stroke:none;opacity:.18}\n"
	".forming{fill:var(--grid)}.lane{fill:var(--k0)}.l1{opacity:.62}\n"
	".cell{fill:var(--k0)}.cell.server{fill:var(--k1)}.in{fill:var(--fg);font-size:11px}\n"
	".bar{background:var(--grid);border-radius:3px;height:8px;width:120px}\n"
	".bar i{display:block;height:8px;border-radius:3px;background:var(--k0)}\n"
	".legend span{margin-right:14px;white-space:nowrap;font-size:13px}\n"
	".legend i{display:inline-block;width:11px;height:11px;border-radius:3px;"
	"margin-right:6px}\n";

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
