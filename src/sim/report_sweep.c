/* SPDX-License-Identifier: Apache-2.0 */
/* report_sweep.c - curves over the values of a sweep.
 *
 * The key with the most different numbers is the horizontal axis; each combination of the
 * others' values is a curve. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "report_page.h"

#define POINTS_MAX 64
#define NAME_BYTES 160
#define SPREAD	   20 /* largest by smallest value: from here on the axis is logarithmic */

struct curve {
	char name[NAME_BYTES];
	double x[POINTS_MAX], y[POINTS_MAX];
	unsigned points;
};

struct curves {
	struct curve *at; /* FAN_PLOT_LINES_MAX */
	unsigned count;
};

static void value_text(const json_t *v, char *to, size_t bytes)
{
	if (json_is_string(v)) {
		snprintf(to, bytes, "%s", json_string_value(v));
		return;
	}
	char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	snprintf(to, bytes, "%s", s ? s : "");
	free(s);
}

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
		unsigned n = numbers_of(json_object_get(result, "runs"), json_string_value(key));
		if (n > most) {
			most = n;
			best = json_string_value(key);
		}
	}
	return best;
}

/* "reduce=ring slots=64": the values of all keys but `axis`, which may be NULL. */
static void name_of(const json_t *run, const char *axis, char *name)
{
	const char *key;
	json_t *v;
	name[0] = '\0';
	json_object_foreach (json_object_get(run, "set"), key, v) {
		char value[NAME_BYTES / 2];
		size_t n = strlen(name);
		if (axis && strcmp(key, axis) == 0)
			continue;
		const char *dot = strrchr(key, '.');
		value_text(v, value, sizeof value);
		snprintf(name + n, NAME_BYTES - n, "%s%.40s=%s", n ? ", " : "", dot ? dot + 1 : key,
			 value);
	}
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

static double avg_jct(const json_t *run)
{
	const json_t *v = json_object_get(run, "avg_jct_s");
	return json_is_number(v) ? json_number_value(v) : NAN;
}

static double avg_comm(const json_t *run)
{
	return mean_of(json_object_get(run, "jobs"), "comm_s");
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

static void plot(FILE *f, const json_t *result, const char *axis, const char *title,
		 const char *y_name, double (*figure)(const json_t *run))
{
	struct curves all = {malloc(FAN_PLOT_LINES_MAX * sizeof(struct curve)), 0};
	struct fan_plot_line line[FAN_PLOT_LINES_MAX];
	double low = INFINITY, high = -INFINITY;
	size_t i;
	json_t *run;
	if (!all.at)
		return;
	json_array_foreach (json_object_get(result, "runs"), i, run) {
		char name[NAME_BYTES];
		double x = json_number_value(json_object_get(json_object_get(run, "set"), axis));
		name_of(run, axis, name);
		struct curve *c = find_curve(&all, name[0] ? name : y_name);
		if (c)
			add_point(c, x, figure(run));
		low = x < low ? x : low;
		high = x > high ? x : high;
	}
	for (unsigned c = 0; c < all.count; c++)
		line[c] = (struct fan_plot_line){.name = all.at[c].name,
						 .x = all.at[c].x,
						 .y = all.at[c].y,
						 .points = all.at[c].points};
	const struct fan_plot p = {.title = title,
				   .x_name = axis,
				   .y_name = y_name,
				   .line = line,
				   .lines = all.count,
				   .log_x = low > 0 && high / low >= SPREAD,
				   .marks = true};
	fan_plot_write(f, &p);
	free(all.at);
}

static void run_table(FILE *f, const json_t *result)
{
	size_t i;
	json_t *run;
	fputs("<h2>Runs</h2><table><tr><th>set<th>mean completion<th>median<th>99th percentile"
	      "<th>communication<th>failed jobs</tr>\n",
	      f);
	json_array_foreach (json_object_get(result, "runs"), i, run) {
		static const char *const keys[3] = {"avg_jct_s", "p50_jct_s", "p99_jct_s"};
		char name[NAME_BYTES], t[32];
		name_of(run, NULL, name);
		fputs("<tr><td>", f);
		fan_plot_text(f, name);
		for (unsigned k = 0; k < 4; k++) {
			double s = k < 3 ? json_number_value(json_object_get(run, keys[k]))
					 : avg_comm(run);
			fan_plot_seconds(t, sizeof t, s);
			fprintf(f, "<td class=n>%s", t);
		}
		fprintf(f, "<td class=n>%.0f</tr>\n",
			json_number_value(json_object_get(run, "failed_jobs")));
	}
	fputs("</table>\n", f);
}

void fan_report_sweep(FILE *f, const json_t *result)
{
	const char *axis = axis_of(result);
	if (axis) {
		plot(f, result, axis, "Mean job completion time", "seconds", avg_jct);
		plot(f, result, axis, "Mean communication time of a job", "seconds", avg_comm);
		plot(f, result, axis, "Throughput of a worker while it communicates", "Gb/s",
		     avg_rate);
		plot(f, result, axis, "Contributions that switches added", "share", hit_rate);
		if (has_servers(result))
			plot(f, result, axis, "What servers received", "MB", server_bytes);
	}
	run_table(f, result);
}
