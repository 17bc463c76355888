/* SPDX-License-Identifier: Apache-2.0 */
/* report_sweep.c - curves over the values of a sweep.
 *
 * The key with the most different numbers is the horizontal axis; each combination of the
 * others' values is a curve, the mean of its seeds.  Without such a key variants are bars. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outcome.h"
#include "plot.h"
#include "report_page.h"

#define POINTS_MAX 64
#define SPREAD	   20 /* largest by smallest value: from here on the axis is logarithmic */

struct curve {
	char name[FAN_OUTCOME_NAME_BYTES];
	double x[POINTS_MAX], y[POINTS_MAX];
	unsigned points;
};

struct curves {
	struct curve *at; /* FAN_PLOT_LINES_MAX */
	unsigned count;
};

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

static void add_point(struct curve *c, double x, double y)
{
	unsigned at = c->points;
	if (at == POINTS_MAX)
		return;
	for (; at && c->x[at - 1] > x; at--) {
		c->x[at] = c->x[at - 1];
		c->y[at] = c->y[at - 1];
	}
	c->x[at] = x;
	c->y[at] = y;
	c->points++;
}

static struct curve *find_curve(struct curves *all, const char *name)
{
	for (unsigned i = 0; i < all->count; i++)
		if (strcmp(all->at[i].name, name) == 0)
			return &all->at[i];
	if (all->count == FAN_PLOT_LINES_MAX)
		return NULL;
	struct curve *c = &all->at[all->count++];
	memset(c, 0, sizeof *c);
	snprintf(c->name, sizeof c->name, "%s", name);
	return c;
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

static void draw(FILE *f, const struct curves *all, struct fan_plot p)
{
	struct fan_plot_line line[FAN_PLOT_LINES_MAX];
	double low = INFINITY, high = -INFINITY;
	for (unsigned c = 0; c < all->count; c++) {
		const struct curve *v = &all->at[c];
		line[c] = (struct fan_plot_line){
			.name = v->name, .x = v->x, .y = v->y, .points = v->points};
		low = v->x[0] < low ? v->x[0] : low;
		high = v->x[v->points - 1] > high ? v->x[v->points - 1] : high;
	}
	p.line = line;
	p.lines = all->count;
	p.log_x = low > 0 && high / low >= SPREAD;
	fan_plot_write(f, &p);
}

static void plot(FILE *f, const json_t *result, const char *axis, const char *title,
		 const char *y_name, double (*figure)(const json_t *run))
{
	struct curves all = {malloc(FAN_PLOT_LINES_MAX * sizeof(struct curve)), 0};
	struct fan_plot p = {.title = title, .x_name = axis, .y_name = y_name, .marks = true};
	size_t count = 0;
	struct fan_outcome *group = fan_outcomes_make(result, axis, figure, &count);
	for (size_t i = 0; all.at && i < count; i++) {
		struct curve *c = find_curve(&all, group[i].name[0] ? group[i].name : y_name);
		if (c)
			add_point(c, group[i].x, group[i].mean);
	}
	if (all.at && group)
		draw(f, &all, p);
	free(group);
	free(all.at);
}

static void cell_seconds(FILE *f, double s)
{
	char t[32] = "–";
	if (!isnan(s))
		fan_plot_seconds(t, sizeof t, s);
	fprintf(f, "<td class=n>%s", t);
}

static void run_table(FILE *f, const json_t *result)
{
	size_t count = 0;
	struct fan_outcome *jct = fan_outcomes_make(result, NULL, fan_outcome_jct, &count);
	struct fan_outcome *p99 = fan_outcomes_make(result, NULL, p99_jct, &count);
	struct fan_outcome *comm = fan_outcomes_make(result, NULL, avg_comm, &count);
	fputs("<h2>Runs</h2><table><tr><th>set<th>runs<th>mean completion<th>least<th>most"
	      "<th>99th percentile<th>communication<th>failed jobs</tr>\n",
	      f);
	for (size_t i = 0; jct && p99 && comm && i < count; i++) {
		fputs("<tr><td>", f);
		fan_plot_text(f, jct[i].name);
		fprintf(f, "<td class=n>%u", jct[i].runs);
		cell_seconds(f, jct[i].mean);
		cell_seconds(f, jct[i].low);
		cell_seconds(f, jct[i].high);
		cell_seconds(f, p99[i].mean);
		cell_seconds(f, comm[i].mean);
		fprintf(f, "<td class=\"n%s\">%u</tr>\n", jct[i].failed ? " bad" : "",
			jct[i].failed);
	}
	fputs("</table>\n", f);
	free(jct);
	free(p99);
	free(comm);
}

void fan_report_sweep(FILE *f, const json_t *result)
{
	const char *axis = axis_of(result);
	if (axis) {
		plot(f, result, axis, "Mean job completion time", "seconds", fan_outcome_jct);
		plot(f, result, axis, "Mean communication time of a job", "seconds", avg_comm);
		plot(f, result, axis, "Throughput of a worker while it communicates", "Gb/s",
		     avg_rate);
		plot(f, result, axis, "Contributions that switches added", "share", hit_rate);
		if (has_servers(result))
			plot(f, result, axis, "What servers received", "MB", server_bytes);
	} else if (fan_outcomes_wanted(result)) {
		fan_report_bars(f, result, "Mean job completion time", fan_outcome_jct);
		fan_report_bars(f, result, "Mean communication time of a job", avg_comm);
	}
	run_table(f, result);
}
