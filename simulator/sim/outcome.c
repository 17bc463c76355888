/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

#define SEED	"seed"
#define VARIANT "variant"

static void add_value(char *name, const char *key, const json_t *v)
{
	size_t n = strlen(name);
	const char *dot = strrchr(key, '.');
	char *text = json_is_string(v) ? strdup(json_string_value(v))
				       : json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	const char *value = text ? text : "";
	if (strcmp(key, VARIANT) == 0) /* needs no key before it */
		snprintf(name + n, FAN_OUTCOME_NAME_BYTES - n, "%s%.60s", n ? ", " : "", value);
	else
		snprintf(name + n, FAN_OUTCOME_NAME_BYTES - n, "%s%.40s=%.60s", n ? ", " : "",
			 dot ? dot + 1 : key, value);
	free(text);
}

static void name_of(const json_t *set, char *name)
{
	const char *key;
	json_t *v;
	name[0] = '\0';
	json_object_foreach ((json_t *)set, key, v) {
		if (strcmp(key, SEED) != 0)
			add_value(name, key, v);
	}
	fan_text_plain(name);
}

static struct fan_outcome *find(struct fan_outcome *g, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(g[i].name, name) == 0)
			return &g[i];
	return NULL;
}

static void add_run(struct fan_outcome *g, const json_t *run)
{
	const json_t *mean = json_object_get(run, "avg_jct_s");
	unsigned failed = (unsigned)json_integer_value(json_object_get(run, "failed_jobs"));
	double v = failed || !json_is_number(mean) ? NAN : json_number_value(mean);
	size_t i;
	json_t *job;
	json_array_foreach (json_object_get(run, "jobs"), i, job) {
		const char *error = json_string_value(json_object_get(job, "error"));
		if (error && !g->why) {
			g->job = json_string_value(json_object_get(job, "name"));
			g->why = error;
		}
	}
	g->runs++;
	g->failed += failed;
	g->jobs += (unsigned)json_array_size(json_object_get(run, "jobs"));
	if (isnan(v))
		return;
	g->counted++;
	g->low = g->counted == 1 || v < g->low ? v : g->low;
	g->high = g->counted == 1 || v > g->high ? v : g->high;
	g->mean = g->counted == 1 ? v : g->mean + (v - g->mean) / g->counted;
}

struct fan_outcome *fan_outcomes_make(const json_t *result, size_t *count)
{
	const json_t *runs = json_object_get(result, "runs");
	struct fan_outcome *all = calloc(json_array_size(runs) + 1, sizeof *all);
	size_t i;
	json_t *run;
	*count = 0;
	if (!all)
		return NULL;
	json_array_foreach (runs, i, run) {
		struct fan_outcome like = {.mean = NAN, .low = NAN, .high = NAN};
		name_of(json_object_get(run, "set"), like.name);
		struct fan_outcome *g = find(all, *count, like.name);
		if (!g) {
			g = &all[(*count)++];
			*g = like;
		}
		add_run(g, run);
	}
	return all;
}
