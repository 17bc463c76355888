/* SPDX-License-Identifier: Apache-2.0 */
/* report_sweep.c - curves over the values of a sweep.
 *
 * The key with the most different numbers is the horizontal axis; each combination of the
 * others' values is a curve, the mean of its seeds.  Without such a key variants are bars. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"
#include "page/page.h"
#include "report_blocks.h"

#define POINTS_MAX  64
#define LINES_MAX   64
#define TITLE_BYTES 512
#define SPREAD	    20 /* largest by smallest value: from here on the axis is logarithmic */

/* Different numbers that the key takes; 0: some are no numbers. */
static unsigned numbers_of(const json_t *runs, const char *key)
{
	double seen[POINTS_MAX] = {0};
	unsigned n = 0;
	size_t i;
	json_t *run;
	json_array_foreach (runs, i, run) {
		const json_t *v = json_object_get(json_object_get(run, "set"), key);
		unsigned k = 0;
		if (!json_is_number(v))
			return 0;
		while (k < n && seen[k] != json_number_value(v))
			k++;
		if (k == n && n < POINTS_MAX)
			seen[n++] = json_number_value(v);
	}
	return n;
}

static const char *axis_of(const json_t *result)
{
	const char *best = NULL;
	unsigned most = 1;
	size_t i;
	json_t *key;
	json_array_foreach (json_object_get(result, "sweep"), i, key) {
		if (strcmp(json_string_value(key), "seed") == 0)
			continue;
		unsigned n = numbers_of(json_object_get(result, "runs"), json_string_value(key));
		if (n > most) {
			most = n;
			best = json_string_value(key);
		}
	}
	return best;
}

static double mean_of(const json_t *list, const char *key)
{
	double sum = 0;
	size_t i;
	json_t *v;
	json_array_foreach (list, i, v) {
		sum += json_number_value(json_object_get(v, key));
	}
	return i ? sum / (double)i : NAN;
}

static double avg_comm(const json_t *run)
{
	return mean_of(json_object_get(run, "jobs"), "comm_s");
}

static double p99_jct(const json_t *run)
{
	return fan_report_real(run, "p99_jct_s");
}

static double avg_rate(const json_t *run)
{
	return mean_of(json_object_get(run, "jobs"), "throughput_gbps_per_worker");
}

static double hit_rate(const json_t *run)
{
	return mean_of(json_object_get(run, "switches"), "hit_rate");
}

static double server_bytes(const json_t *run)
{
	double sum = 0;
	size_t i;
	json_t *v;
	json_array_foreach (json_object_get(run, "servers"), i, v) {
		sum += json_number_value(json_object_get(v, "rx_bytes"));
	}
	return i ? sum * 1e-6 : NAN;
}

/* Does any run have servers? */
static bool has_servers(const json_t *result)
{
	size_t i;
	json_t *run;
	json_array_foreach (json_object_get(result, "runs"), i, run) {
		if (json_array_size(json_object_get(run, "servers")))
			return true;
	}
	return false;
}

/* "2 of 4 jobs failed", or nothing. */
static json_t *failed_text(const struct fan_outcome *g)
{
	char text[64];
	if (!g->failed)
		return NULL;
	snprintf(text, sizeof text, "%u of %u jobs failed", g->failed, g->jobs);
	return json_string(text);
}

/* The line of that name, made when it is not there yet. */
static json_t *find_line(json_t *lines, const char *name)
{
	size_t i;
	json_t *line;
	json_array_foreach (lines, i, line) {
		if (strcmp(json_string_value(json_object_get(line, "name")), name) == 0)
			return line;
	}
	line = json_pack("{ss s[] s[] s[]}", "name", name, "x", "y", "failed");
	json_array_append_new(lines, line);
	return line;
}

/* By rising x, as a curve is drawn. */
static void add_point(json_t *line, const struct fan_outcome *g)
{
	json_t *x = json_object_get(line, "x"), *y = json_object_get(line, "y");
	size_t at = json_array_size(x);
	while (at && json_number_value(json_array_get(x, at - 1)) > g->x)
		at--;
	json_array_insert_new(x, at, json_real(g->x));
	json_array_insert_new(y, at, fan_page_real(g->mean));
	if (g->failed)
		json_array_append_new(json_object_get(line, "failed"),
				      json_pack("[fo]", g->x, failed_text(g)));
}

static double edge(const json_t *lines, bool last)
{
	double found = last ? -INFINITY : INFINITY;
	size_t i;
	json_t *line;
	json_array_foreach (lines, i, line) {
		const json_t *x = json_object_get(line, "x");
		double v = json_number_value(json_array_get(x, last ? json_array_size(x) - 1 : 0));
		found = last ? fmax(found, v) : fmin(found, v);
	}
	return found;
}

static void curves(json_t *page, const json_t *result, const char *axis, const char *title,
		   const char *y_name, double (*figure)(const json_t *run))
{
	json_t *lines = json_array();
	size_t count = 0;
	struct fan_outcome *group = fan_outcomes_make(result, axis, figure, &count);
	for (size_t i = 0; i < count; i++)
		if (json_array_size(lines) < LINES_MAX || group[i].name[0])
			add_point(find_line(lines, group[i].name[0] ? group[i].name : y_name),
				  &group[i]);
	double low = edge(lines, false), high = edge(lines, true);
	fan_page_add(page, json_pack("{ss ss ss ss sb sb so}", "kind", "curves", "title", title,
				     "x_name", axis, "y_name", y_name, "log_x",
				     low > 0 && high / low >= SPREAD, "marks", 1, "lines", lines));
	free(group);
}

/* A bar for each variant, with the spread over its seeds. */
static void bars(json_t *page, const json_t *result, const char *title,
		 double (*figure)(const json_t *run))
{
	json_t *rows = json_array();
	size_t count = 0;
	struct fan_outcome *group = fan_outcomes_make(result, NULL, figure, &count);
	for (size_t i = 0; i < count; i++) {
		const struct fan_outcome *g = &group[i];
		json_array_append_new(
			rows,
			json_pack("{ss s[o] so so so*}", "name", g->name[0] ? g->name : "all seeds",
				  "values", fan_page_real(g->mean), "low", fan_page_real(g->low),
				  "high", fan_page_real(g->high), "failed", failed_text(g)));
	}
	fan_page_add(page, json_pack("{ss ss ss sb s[{so}]}", "kind", "bars", "title", title,
				     "unit", "s", "sort", 1, "panels", "rows", rows));
	free(group);
}

static json_t *run_table(const json_t *result)
{
	size_t count = 0;
	struct fan_outcome *jct = fan_outcomes_make(result, NULL, fan_outcome_jct, &count);
	struct fan_outcome *p99 = fan_outcomes_make(result, NULL, p99_jct, &count);
	struct fan_outcome *comm = fan_outcomes_make(result, NULL, avg_comm, &count);
	json_t *rows = json_array();
	for (size_t i = 0; jct && p99 && comm && i < count; i++) {
		const struct fan_outcome *g = &jct[i];
		json_t *failed = json_pack("{si ss sb sb}", "by", (int)g->failed, "text", "0",
					   "bad", g->failed > 0, "n", 1);
		if (g->failed)
			json_object_set_new(failed, "text", failed_text(g));
		json_array_append_new(rows,
				      json_pack("[sioooooo]", g->name, (int)g->runs,
						fan_page_real(g->mean), fan_page_real(g->low),
						fan_page_real(g->high), fan_page_real(p99[i].mean),
						fan_page_real(comm[i].mean), failed));
	}
	free(jct);
	free(p99);
	free(comm);
	return json_pack("{ss s[oooooooo] so s[is]}", "kind", "table", "columns",
			 fan_page_column("set", NULL), fan_page_column("runs", NULL),
			 fan_page_column("mean completion", "s"), fan_page_column("least", "s"),
			 fan_page_column("most", "s"), fan_page_column("99th percentile", "s"),
			 fan_page_column("communication", "s"),
			 fan_page_column("failed jobs", NULL), "rows", rows, "sort", 2, "up");
}

/* Which values are best, and by how much. */
static void finding(char *text, size_t bytes, const json_t *result, const char *name)
{
	size_t count = 0, best = 0, worst = 0;
	unsigned failed = 0;
	char time[32];
	struct fan_outcome *g = fan_outcomes_make(result, NULL, fan_outcome_jct, &count);
	for (size_t i = 0; i < count; i++) {
		failed += g[i].failed;
		if (isnan(g[best].mean) || g[i].mean < g[best].mean)
			best = i;
		if (isnan(g[worst].mean) || g[i].mean > g[worst].mean)
			worst = i;
	}
	snprintf(text, bytes, "%s: no job completed", name);
	if (count && !isnan(g[best].mean)) {
		fan_report_seconds(time, sizeof time, g[best].mean);
		int n = snprintf(text, bytes, "%s: %s", name, time);
		if (g[best].name[0] && g[worst].mean > g[best].mean)
			n = snprintf(text, bytes,
				     "%s: soonest with %s, %s; %.3g times that with %s", name,
				     g[best].name, time, g[worst].mean / g[best].mean,
				     g[worst].name);
		if (failed && n > 0 && (size_t)n < bytes)
			snprintf(text + n, bytes - (size_t)n, "; %u jobs failed", failed);
	}
	free(g);
}

json_t *fan_report_sweep(const json_t *result, const char *name)
{
	const char *axis = axis_of(result);
	char title[TITLE_BYTES], sub[64];
	finding(title, sizeof title, result, name);
	snprintf(sub, sizeof sub, "fanin sim, a sweep of %zu runs, virtual time",
		 json_array_size(json_object_get(result, "runs")));
	json_t *page = fan_page_make("fanin sim", title, sub);
	if (axis) {
		curves(page, result, axis, "Mean job completion time", "seconds", fan_outcome_jct);
		curves(page, result, axis, "Mean communication time of a job", "seconds", avg_comm);
		curves(page, result, axis, "Throughput of a worker while it communicates", "Gb/s",
		       avg_rate);
		curves(page, result, axis, "Contributions that switches added", "share", hit_rate);
		if (has_servers(result))
			curves(page, result, axis, "What servers received", "MB", server_bytes);
	} else {
		bars(page, result, "Mean job completion time", fan_outcome_jct);
		bars(page, result, "Mean communication time of a job", avg_comm);
	}
	fan_page_add(page, json_pack("{ss ss}", "kind", "heading", "text", "Runs"));
	fan_page_add(page, run_table(result));
	return page;
}
