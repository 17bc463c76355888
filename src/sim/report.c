/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "report_page.h"
#include "series.h"

#define ROWS_MAX	200 /* of a table or a time line; more would not be read */
#define TEXT_BYTES	256
#define PLOT_SERIES_MAX 4

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static void cell_seconds(FILE *f, double s)
{
	char t[TEXT_BYTES] = "–";
	if (!isnan(s))
		fan_plot_seconds(t, sizeof t, s);
	fprintf(f, "<td class=n>%s</td>", t);
}

static void cell_bytes(FILE *f, double bytes)
{
	char t[TEXT_BYTES];
	fan_plot_bytes(t, sizeof t, bytes);
	fprintf(f, "<td class=n>%s</td>", t);
}

static void cell_text(FILE *f, const char *s)
{
	fputs("<td>", f);
	fan_plot_text(f, s);
	fputs("</td>", f);
}

static void card(FILE *f, const char *name, double seconds)
{
	char t[TEXT_BYTES] = "–";
	if (!isnan(seconds))
		fan_plot_seconds(t, sizeof t, seconds);
	fprintf(f, "<div class=card><b>%s</b><span>%s</span></div>\n", t, name);
}

/* ---- jobs ----------------------------------------------------------------------- */

static void job_table(FILE *f, const json_t *jobs)
{
	size_t i;
	json_t *j;
	fputs("<table><tr><th>job<th>model<th>summed at<th>workers<th>iterations<th>completion"
	      "<th>communication<th>of it waiting<th>Gb/s a worker<th>resent<th></tr>\n",
	      f);
	json_array_foreach (jobs, i, j) {
		if (i == ROWS_MAX)
			break;
		fputs("<tr>", f);
		cell_text(f, text(j, "name"));
		cell_text(f, text(j, "model"));
		cell_text(f, text(j, "at"));
		fan_report_cell(f, fan_report_real(j, "workers"), "");
		fan_report_cell(f, fan_report_real(j, "iterations"), "");
		cell_seconds(f, fan_report_real(j, "jct_s"));
		cell_seconds(f, fan_report_real(j, "comm_s"));
		cell_seconds(f, fan_report_real(j, "wait_s"));
		fan_report_cell(f, fan_report_real(j, "throughput_gbps_per_worker"), "G");
		fan_report_cell(f, fan_report_real(j, "retransmissions"), "");
		fputs("<td class=bad>", f);
		fan_plot_text(f, text(j, "error"));
		fputs("</td></tr>\n", f);
	}
	fputs("</table>\n", f);
}

#define LANE_LEFT   150.0
#define LANE_WIDTH  600.0
#define LANE_HEIGHT 22.0

/* One job: from its arrival to its end, an iteration light, the next one dark. */
static void lane(FILE *f, const json_t *j, double y, double end_s)
{
	const json_t *ends = json_object_get(j, "iteration_ends_s");
	double scale = LANE_WIDTH / end_s, from = fan_report_real(j, "arrival_s");
	char t[TEXT_BYTES];
	fprintf(f, "<text x=%.1f y=%.1f class=tick text-anchor=end>", LANE_LEFT - 8, y + 14);
	fan_plot_text(f, text(j, "name"));
	fputs("</text>", f);
	double ready = fan_report_real(j, "ready_s");
	if (ready > from)
		fprintf(f,
			"<rect class=forming x=%.2f y=%.1f width=%.2f height=14><title>"
			"forming</title></rect>",
			LANE_LEFT + from * scale, y + 3, (ready - from) * scale);
	from = ready > from ? ready : from;
	size_t i;
	json_t *end;
	json_array_foreach (ends, i, end) {
		double to = json_number_value(end);
		fan_plot_seconds(t, sizeof t, to - from);
		fprintf(f,
			"<rect class=\"lane l%zu\" x=%.2f y=%.1f width=%.2f height=14><title>"
			"iteration %zu: %s</title></rect>",
			i % 2, LANE_LEFT + from * scale, y + 3, (to - from) * scale, i + 1, t);
		from = to;
	}
	double done = fan_report_real(j, "arrival_s") + fan_report_real(j, "jct_s");
	if (done > from) /* iterations beyond those that are listed */
		fprintf(f, "<rect class=\"lane l0\" x=%.2f y=%.1f width=%.2f height=14 />",
			LANE_LEFT + from * scale, y + 3, (done - from) * scale);
	fputc('\n', f);
}

static void time_line(FILE *f, const json_t *run)
{
	const json_t *jobs = json_object_get(run, "jobs");
	size_t rows = json_array_size(jobs) < ROWS_MAX ? json_array_size(jobs) : ROWS_MAX, i;
	double end_s = fan_report_real(run, "end_s"), high = (double)rows * LANE_HEIGHT;
	if (!(end_s > 0))
		return;
	fprintf(f,
		"<figure><figcaption>Jobs over time, iteration by iteration</figcaption>"
		"<svg viewBox=\"0 0 760 %.0f\" role=img>\n",
		high + 40);
	double step = fan_plot_step(end_s, 8);
	for (unsigned n = 0; n * step <= end_s * 1.0001; n++) {
		double v = n * step, x = LANE_LEFT + v / end_s * LANE_WIDTH;
		fprintf(f,
			"<line class=grid x1=%.1f x2=%.1f y1=0 y2=%.1f />"
			"<text x=%.1f y=%.1f class=tick text-anchor=middle>%.5g</text>",
			x, x, high, x, high + 16, v);
	}
	for (i = 0; i < rows; i++)
		lane(f, json_array_get(jobs, i), (double)i * LANE_HEIGHT, end_s);
	fprintf(f, "<text class=name x=%.1f y=%.1f text-anchor=end>seconds</text></svg></figure>\n",
		LANE_LEFT + LANE_WIDTH, high + 34);
}

/* ---- switches and links ------------------------------------------------------------ */

static unsigned samples(const json_t *list, double scale, double *y)
{
	unsigned n = 0;
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v) {
		if (n < FAN_SERIES_MAX)
			y[n++] = json_is_number(v) ? json_number_value(v) * scale : NAN;
	}
	return n;
}

/* Some of what `sw` has over time, each times `scale`, on one plot. */
static void series_plot(FILE *f, const json_t *sw, struct fan_plot *plot, const char *const *key,
			double scale)
{
	const json_t *s = json_object_get(sw, "series");
	struct fan_plot_line line[PLOT_SERIES_MAX];
	double *y = malloc((plot->lines + 1) * sizeof(double[FAN_SERIES_MAX]));
	if (!y)
		return;
	double *x = y + (size_t)plot->lines * FAN_SERIES_MAX;
	for (unsigned i = 0; i < FAN_SERIES_MAX; i++)
		x[i] = fan_report_real(s, "start_s") + (i + 1) * fan_report_real(s, "interval_s");
	for (unsigned k = 0; k < plot->lines; k++) {
		double *mine = y + (size_t)k * FAN_SERIES_MAX;
		line[k] = (struct fan_plot_line){.name = plot->line[k].name, .x = x, .y = mine};
		line[k].points = samples(json_object_get(s, key[k]), scale, mine);
		line[k].area = plot->line[k].area;
	}
	plot->line = line;
	plot->x_name = "seconds";
	if (line[0].points > 1)
		fan_plot_write(f, plot);
	free(y);
}

static void slot_plots(FILE *f, const json_t *sw)
{
	static const char *const key[3] = {"lent", "occupancy", "hit_rate"};
	static const struct fan_plot_line line[3] = {
		{.name = "held by jobs", .area = true},
		{.name = "summing"},
		{.name = "contributions added"},
	};
	char title[TEXT_BYTES];
	snprintf(title, sizeof title, "%s: share of its %.0f slots, and of contributions",
		 text(sw, "name"), fan_report_real(sw, "slots"));
	struct fan_plot plot = {
		.title = title, .y_name = "share", .line = line, .lines = 3, .y_max = 1.05};
	series_plot(f, sw, &plot, key, 1);
}

/* What happened to shared slots. */
static void contest_plot(FILE *f, const json_t *sw)
{
	static const char *const key[4] = {"collisions_per_s", "preemptions_per_s",
					   "evictions_per_s", "flushes_per_s"};
	static const struct fan_plot_line line[4] = {{.name = "collisions"},
						     {.name = "preemptions"},
						     {.name = "evictions"},
						     {.name = "flushes"}};
	char title[TEXT_BYTES];
	if (!json_object_get(json_object_get(sw, "series"), key[0]))
		return;
	snprintf(title, sizeof title, "%s: contests for its slots", text(sw, "name"));
	struct fan_plot plot = {
		.title = title, .y_name = "a millisecond", .line = line, .lines = 4};
	series_plot(f, sw, &plot, key, 1e-3);
}

static void server_plot(FILE *f, const json_t *server)
{
	static const char *const key[1] = {"rx_bytes_per_s"};
	static const struct fan_plot_line line[1] = {{.name = "received"}};
	char title[TEXT_BYTES];
	snprintf(title, sizeof title, "%s: what it receives", text(server, "name"));
	struct fan_plot plot = {.title = title, .y_name = "Gb/s", .line = line, .lines = 1};
	series_plot(f, server, &plot, key, 8e-9);
}

/* A table of some of their numbers, and what they have received and sent. */
static void switch_table(FILE *f, const json_t *list, const char *const *key,
			 const char *const *name)
{
	size_t i;
	json_t *s;
	fputs("<table><tr><th>name<th>policy", f);
	for (unsigned k = 0; key[k]; k++)
		fprintf(f, "<th>%s", name[k]);
	fputs("<th>received<th>sent</tr>\n", f);
	json_array_foreach (list, i, s) {
		fputs("<tr>", f);
		cell_text(f, text(s, "name"));
		cell_text(f, text(s, "policy"));
		for (unsigned k = 0; key[k]; k++)
			fan_report_cell(f, fan_report_real(s, key[k]), k < 2 ? "G" : "");
		cell_bytes(f, fan_report_real(s, "rx_bytes"));
		cell_bytes(f, fan_report_real(s, "tx_bytes"));
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
}

static void switches(FILE *f, const json_t *list)
{
	static const char *const key[] = {"occupancy", "hit_rate",   "slots",	    "contributions",
					  "results",   "collisions", "preemptions", "evictions",
					  "flushes",   NULL};
	static const char *const name[] = {"occupancy",	    "hit rate",	 "slots",
					   "contributions", "results",	 "collisions",
					   "preemptions",   "evictions", "flushes"};
	size_t i;
	json_t *s;
	if (json_array_size(list) == 0)
		return;
	fputs("<h2>Switches</h2>\n", f);
	switch_table(f, list, key, name);
	json_array_foreach (list, i, s) {
		slot_plots(f, s);
		contest_plot(f, s);
	}
}

static void servers(FILE *f, const json_t *list)
{
	static const char *const key[] = {"occupancy", "hit_rate", "slots",   "contributions",
					  "results",   "partials", "replays", "needs",
					  "reminders", NULL};
	static const char *const name[] = {"occupancy",	    "hit rate",	 "slots",
					   "contributions", "results",	 "partial sums",
					   "replays",	    "asked for", "reminders"};
	size_t i;
	json_t *s;
	if (json_array_size(list) == 0)
		return;
	fputs("<h2>Servers</h2>\n", f);
	switch_table(f, list, key, name);
	json_array_foreach (list, i, s) {
		server_plot(f, s);
	}
}

static int by_use(const void *a, const void *b)
{
	double x = fan_report_real(*(json_t *const *)a, "use"),
	       y = fan_report_real(*(json_t *const *)b, "use");
	return (x < y) - (x > y);
}

#define LINK_ROWS 24

static void links(FILE *f, const json_t *list)
{
	size_t n = json_array_size(list);
	json_t **link = malloc((n + 1) * sizeof(json_t *));
	if (!link)
		return;
	for (size_t i = 0; i < n; i++)
		link[i] = json_array_get(list, i);
	qsort(link, n, sizeof(json_t *), by_use);
	fprintf(f, "<h2>Links</h2><p>The %zu busiest of %zu directions.</p>\n",
		n < LINK_ROWS ? n : LINK_ROWS, n);
	fputs("<table><tr><th>from<th>to<th>use<th><th>carried<th>packets<th>longest queue"
	      "<th>overflows<th>lost<th>ECN</tr>\n",
	      f);
	for (size_t i = 0; i < n && i < LINK_ROWS; i++) {
		double use = fan_report_real(link[i], "use");
		fputs("<tr>", f);
		cell_text(f, text(link[i], "from"));
		cell_text(f, text(link[i], "to"));
		fprintf(f,
			"<td class=n>%.1f %%</td><td><div class=bar><i style=\"width:%.1f%%\"></i>"
			"</div></td>",
			use * 100, (use < 1 ? use : 1) * 100);
		cell_bytes(f, fan_report_real(link[i], "bytes"));
		fan_report_cell(f, fan_report_real(link[i], "packets"), "");
		cell_bytes(f, fan_report_real(link[i], "queue_max_bytes"));
		fan_report_cell(f, fan_report_real(link[i], "overflows"), "");
		fan_report_cell(f, fan_report_real(link[i], "lost"), "");
		fan_report_cell(f, fan_report_real(link[i], "ecn_marked"), "");
		fputs("</tr>\n", f);
	}
	fputs("</table>\n", f);
	free(link);
}

static void one_run(FILE *f, const json_t *run)
{
	fputs("<div class=cards>", f);
	card(f, "mean job completion", fan_report_real(run, "avg_jct_s"));
	card(f, "median", fan_report_real(run, "p50_jct_s"));
	card(f, "99th percentile", fan_report_real(run, "p99_jct_s"));
	card(f, "virtual time", fan_report_real(run, "end_s"));
	fprintf(f, "<div class=card><b>%.4g M</b><span>fragment-hops</span></div></div>\n",
		fan_report_real(run, "fragment_hops") * 1e-6);
	if (fan_report_real(run, "failed_jobs") > 0)
		fprintf(f, "<p class=bad>%.0f jobs have failed.</p>\n",
			fan_report_real(run, "failed_jobs"));
	fputs("<h2>Jobs</h2>\n", f);
	time_line(f, run);
	job_table(f, json_object_get(run, "jobs"));
	size_t i;
	json_t *job;
	json_array_foreach (json_object_get(run, "jobs"), i, job) {
		if (i < ROWS_MAX)
			fan_report_ahead(f, job);
	}
	switches(f, json_object_get(run, "switches"));
	servers(f, json_object_get(run, "servers"));
	links(f, json_object_get(run, "links"));
}

int fan_report_write(FILE *f, const json_t *result)
{
	const json_t *runs = json_object_get(result, "runs");
	const json_t *first = runs ? json_array_get(runs, 0) : result;
	const char *name = text(first, "name")[0] ? text(first, "name") : "simulation";
	fan_report_head(f, name);
	fputs("<h1>", f);
	fan_plot_text(f, name);
	if (runs)
		fprintf(f, "</h1><p class=sub>fanin sim, a sweep of %zu runs</p>\n",
			json_array_size(runs));
	else
		fprintf(f, "</h1><p class=sub>fanin sim, seed %.0f</p>\n",
			fan_report_real(result, "seed"));
	if (runs)
		fan_report_sweep(f, result);
	else
		one_run(f, result);
	fputs("</main></body></html>\n", f);
	return fflush(f) || ferror(f) ? -1 : 0;
}
