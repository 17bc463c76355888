/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"
#include "report_blocks.h"

#define ROWS_MAX    200 /* of a table or a time line; more would not be read */
#define TEXT_BYTES  256
#define SAMPLES_MAX 256 /* of a curve: a page is that many pixels wide, three times */
#define PLOTS_MAX   6	/* switches whose slots are drawn over time */
#define LINK_ROWS   24

double fan_report_real(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

json_t *fan_report_field(const json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);
	return v ? json_incref(v) : json_null();
}

void fan_report_seconds(char *text, size_t bytes, double seconds)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
	unsigned u = 0;
	while (u < 3 && seconds < units[u].unit)
		u++;
	snprintf(text, bytes, "%.4g %s", seconds / units[u].unit, units[u].name);
}

json_t *fan_report_samples(const json_t *list, double scale, unsigned *each)
{
	size_t n = json_array_size(list);
	json_t *out = json_array();
	*each = (unsigned)((n + SAMPLES_MAX - 1) / SAMPLES_MAX);
	for (size_t i = 0; i < n; i += *each) {
		double sum = 0, counted = 0;
		for (size_t k = i; k < n && k < i + *each; k++) {
			const json_t *v = json_array_get(list, k);
			sum += json_number_value(v);
			counted += json_is_number(v);
		}
		json_array_append_new(out,
				      fan_page_real(counted > 0 ? sum / counted * scale : NAN));
	}
	return out;
}

/* ---- tables ---------------------------------------------------------------------- */

struct column {
	const char *key, *name, *unit; /* unit NULL: none */
};

/* A row for each of `list`, sorted by column `by`, the most first. */
static json_t *table(const json_t *list, const struct column *column, unsigned columns, int by)
{
	json_t *head = json_array(), *rows = json_array(), *o;
	size_t i;
	for (unsigned k = 0; k < columns; k++)
		json_array_append_new(head, fan_page_column(column[k].name, column[k].unit));
	json_array_foreach (list, i, o) {
		json_t *row = json_array();
		for (unsigned k = 0; k < columns; k++)
			json_array_append_new(row, fan_report_field(o, column[k].key));
		if (i < ROWS_MAX)
			json_array_append_new(rows, row);
		else
			json_decref(row);
	}
	return json_pack("{ss so so s[is]}", "kind", "table", "columns", head, "rows", rows, "sort",
			 by, "down");
}

#define COLUMNS(c) (c), sizeof(c) / sizeof *(c)

static json_t *heading(const char *text)
{
	return json_pack("{ss ss}", "kind", "heading", "text", text);
}

/* ---- jobs ----------------------------------------------------------------------- */

static json_t *job_table(const json_t *jobs)
{
	static const struct column c[] = {
		{"name", "job", NULL},
		{"model", "model", NULL},
		{"at", "summed at", NULL},
		{"workers", "workers", NULL},
		{"iterations", "iterations", NULL},
		{"jct_s", "completion", "s"},
		{"comm_s", "communication", "s"},
		{"wait_s", "of it waiting", "s"},
		{"throughput_gbps_per_worker", "a worker", "Gb/s"},
		{"retransmissions", "resent", NULL},
		{"error", "error", NULL},
	};
	return table(jobs, COLUMNS(c), 5);
}

static json_t *time_line(const json_t *run)
{
	json_t *lanes = json_array(), *j;
	size_t i;
	json_array_foreach (json_object_get(run, "jobs"), i, j) {
		double from = fan_report_real(j, "arrival_s");
		if (i == ROWS_MAX)
			break;
		json_array_append_new(
			lanes, json_pack("{so so so so so so}", "name", fan_report_field(j, "name"),
					 "arrival", fan_page_real(from), "ready",
					 fan_report_field(j, "ready_s"), "ends",
					 fan_report_field(j, "iteration_ends_s"), "done",
					 fan_page_real(from + fan_report_real(j, "jct_s")), "error",
					 fan_report_field(j, "error")));
	}
	return json_pack("{ss ss so}", "kind", "lanes", "title",
			 "Jobs over time, iteration by iteration", "lanes", lanes);
}

/* ---- switches and links ------------------------------------------------------------ */

struct line {
	const char *key, *name;
	bool area;
};

/* Some of what `sw` has over time, each times `scale`, on one plot; NULL: it has none. */
static json_t *series_plot(const json_t *sw, const char *title, const char *y_name, double y_max,
			   const struct line *line, unsigned lines, double scale)
{
	const json_t *s = json_object_get(sw, "series");
	double interval = fan_report_real(s, "interval_s");
	json_t *list = json_array();
	if (json_array_size(json_object_get(s, line[0].key)) < 2) {
		json_decref(list);
		return NULL;
	}
	for (unsigned k = 0; k < lines; k++) {
		unsigned each;
		json_t *y = fan_report_samples(json_object_get(s, line[k].key), scale, &each);
		json_array_append_new(list, json_pack("{ss sb sf sf so}", "name", line[k].name,
						      "area", line[k].area, "x0",
						      fan_report_real(s, "start_s") + interval,
						      "dx", interval * each, "y", y));
	}
	return json_pack("{ss ss ss ss so* so}", "kind", "curves", "title", title, "x_name",
			 "seconds", "y_name", y_name, "y_max", y_max > 0 ? json_real(y_max) : NULL,
			 "lines", list);
}

static void slot_plots(json_t *page, const json_t *sw)
{
	static const struct line use[] = {{"lent", "held by jobs", true},
					  {"occupancy", "summing", false},
					  {"hit_rate", "contributions added", false}};
	static const struct line contest[] = {{"collisions_per_s", "collisions", false},
					      {"preemptions_per_s", "preemptions", false},
					      {"evictions_per_s", "evictions", false},
					      {"flushes_per_s", "flushes", false}};
	const char *name = json_string_value(json_object_get(sw, "name"));
	char title[TEXT_BYTES];
	snprintf(title, sizeof title, "%s: share of its %.0f slots, and of contributions", name,
		 fan_report_real(sw, "slots"));
	fan_page_add(page, series_plot(sw, title, "share", 1.05, use, 3, 1));
	snprintf(title, sizeof title, "%s: contests for its slots", name);
	fan_page_add(page, series_plot(sw, title, "a millisecond", 0, contest, 4, 1e-3));
}

static const char *sort_key;

static int by_key(const void *a, const void *b)
{
	double x = fan_report_real(*(json_t *const *)a, sort_key),
	       y = fan_report_real(*(json_t *const *)b, sort_key);
	return (x < y) - (x > y);
}

/* A new list of those of `list` that have the most of `key`, at most `most`. */
static json_t *first_by(const json_t *list, const char *key, size_t most)
{
	size_t n = json_array_size(list);
	json_t **all = calloc(n + 1, sizeof(json_t *)), *out = json_array();
	for (size_t i = 0; all && i < n; i++)
		all[i] = json_array_get(list, i);
	sort_key = key;
	if (all)
		qsort(all, n, sizeof(json_t *), by_key);
	for (size_t i = 0; all && i < n && i < most; i++)
		json_array_append(out, all[i]);
	free(all);
	return out;
}

static void switches(json_t *page, const json_t *list)
{
	static const struct column c[] = {
		{"name", "name", NULL},
		{"policy", "policy", NULL},
		{"occupancy", "occupancy", "share"},
		{"hit_rate", "hit rate", "share"},
		{"slots", "slots", NULL},
		{"contributions", "contributions", NULL},
		{"results", "results", NULL},
		{"collisions", "collisions", NULL},
		{"preemptions", "preemptions", NULL},
		{"evictions", "evictions", NULL},
		{"flushes", "flushes", NULL},
		{"rx_bytes", "received", "bytes"},
		{"tx_bytes", "sent", "bytes"},
	};
	size_t n = json_array_size(list), i;
	char text[TEXT_BYTES];
	json_t *s;
	if (n == 0)
		return;
	fan_page_add(page, heading("Switches"));
	json_t *busiest = first_by(list, "contributions", PLOTS_MAX);
	json_array_foreach (busiest, i, s) {
		slot_plots(page, s);
	}
	json_decref(busiest);
	snprintf(text, sizeof text, "Drawn are the %d of %zu switches with the most contributions.",
		 PLOTS_MAX, n);
	if (n > PLOTS_MAX)
		fan_page_add(page, json_pack("{ss ss}", "kind", "text", "text", text));
	fan_page_add(page, table(list, COLUMNS(c), 5));
}

static void servers(json_t *page, const json_t *list)
{
	static const struct column c[] = {
		{"name", "name", NULL},
		{"policy", "policy", NULL},
		{"occupancy", "occupancy", "share"},
		{"hit_rate", "hit rate", "share"},
		{"slots", "slots", NULL},
		{"contributions", "contributions", NULL},
		{"results", "results", NULL},
		{"partials", "partial sums", NULL},
		{"replays", "replays", NULL},
		{"needs", "asked for", NULL},
		{"reminders", "reminders", NULL},
		{"rx_bytes", "received", "bytes"},
		{"tx_bytes", "sent", "bytes"},
	};
	static const struct line line[] = {{"rx_bytes_per_s", "received", false}};
	char title[TEXT_BYTES];
	size_t i;
	json_t *s;
	if (json_array_size(list) == 0)
		return;
	fan_page_add(page, heading("Servers"));
	json_t *busiest = first_by(list, "rx_bytes", PLOTS_MAX);
	json_array_foreach (busiest, i, s) {
		snprintf(title, sizeof title, "%s: what it receives",
			 json_string_value(json_object_get(s, "name")));
		fan_page_add(page, series_plot(s, title, "Gb/s", 0, line, 1, 8e-9));
	}
	json_decref(busiest);
	fan_page_add(page, table(list, COLUMNS(c), 11));
}

static void links(json_t *page, const json_t *list)
{
	static const struct column c[] = {
		{"from", "from", NULL},		  {"to", "to", NULL},
		{"use", "use", "share"},	  {"bytes", "carried", "bytes"},
		{"packets", "packets", NULL},	  {"queue_max_bytes", "longest queue", "bytes"},
		{"overflows", "overflows", NULL}, {"lost", "lost", NULL},
		{"ecn_marked", "ECN", NULL},
	};
	size_t n = json_array_size(list);
	char text[TEXT_BYTES];
	json_t *busiest = first_by(list, "use", LINK_ROWS);
	snprintf(text, sizeof text, "Links: the %zu busiest of %zu directions",
		 n < LINK_ROWS ? n : LINK_ROWS, n);
	fan_page_add(page, heading(text));
	json_t *t = table(busiest, COLUMNS(c), 2);
	json_object_set_new(json_array_get(json_object_get(t, "columns"), 2), "bar", json_true());
	fan_page_add(page, t);
	json_decref(busiest);
}

/* ---- the page ---------------------------------------------------------------------- */

static json_t *cards(const json_t *run)
{
	char hops[TEXT_BYTES];
	snprintf(hops, sizeof hops, "%.4g M", fan_report_real(run, "fragment_hops") * 1e-6);
	return json_pack("{ss s[{ss so ss},{ss so ss},{ss so ss},{ss so ss},{ss ss}]}", "kind",
			 "cards", "items", "name", "mean job completion", "value",
			 fan_report_field(run, "avg_jct_s"), "unit", "s", "name", "median", "value",
			 fan_report_field(run, "p50_jct_s"), "unit", "s", "name", "99th percentile",
			 "value", fan_report_field(run, "p99_jct_s"), "unit", "s", "name",
			 "virtual time", "value", fan_report_field(run, "end_s"), "unit", "s",
			 "name", "fragment-hops", "value", hops);
}

static json_t *one_run(const json_t *run, const char *name)
{
	double failed = fan_report_real(run, "failed_jobs");
	size_t jobs = json_array_size(json_object_get(run, "jobs")), i;
	char title[TEXT_BYTES], sub[TEXT_BYTES], mean[32];
	json_t *job;
	fan_report_seconds(mean, sizeof mean, fan_report_real(run, "avg_jct_s"));
	if (failed > 0)
		snprintf(title, sizeof title, "%s: %.0f of %zu jobs failed", name, failed, jobs);
	else if (jobs == 1)
		snprintf(title, sizeof title, "%s: the job completes in %s", name, mean);
	else
		snprintf(title, sizeof title, "%s: %zu jobs complete in %s on average", name, jobs,
			 mean);
	snprintf(sub, sizeof sub, "fanin sim, seed %.0f, virtual time",
		 fan_report_real(run, "seed"));
	json_t *page = fan_page_make("fanin sim", title, sub);
	fan_page_add(page, time_line(run));
	fan_page_add(page, cards(run));
	fan_page_add(page, job_table(json_object_get(run, "jobs")));
	json_array_foreach (json_object_get(run, "jobs"), i, job) {
		if (i < PLOTS_MAX)
			fan_report_ahead(page, job);
	}
	switches(page, json_object_get(run, "switches"));
	servers(page, json_object_get(run, "servers"));
	links(page, json_object_get(run, "links"));
	return page;
}

int fan_report_write(FILE *f, const json_t *result)
{
	const json_t *runs = json_object_get(result, "runs");
	const json_t *first = runs ? json_array_get(runs, 0) : result;
	const char *name = json_string_value(json_object_get(first, "name"));
	if (!name || !name[0])
		name = "simulation";
	json_t *page = runs ? fan_report_sweep(result, name) : one_run(result, name);
	int bad = fan_page_write(f, page);
	json_decref(page);
	return bad;
}
