/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_set.c - changes one value of a scenario, for --set and --sweep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "scenario.h"

#define DEPTH_MAX 16

/* The path to a value in JSON, key by key. */
struct key_path {
	const char *part[DEPTH_MAX];
	unsigned parts;
	json_t *value;
	unsigned hits;
	const char *lost; /* the part of the path that matches nothing */
};

static void walk(struct key_path *w, json_t *at, unsigned depth);

static void walk_array(struct key_path *w, json_t *list, unsigned depth)
{
	const char *part = depth < w->parts ? w->part[depth] : "";
	uint64_t number, size = json_array_size(list);
	bool is_number = fan_csv_number(part, UINT32_MAX, &number);
	bool last = depth + 1 == w->parts, any = false;
	for (size_t i = 0; i < size; i++) {
		json_t *entry = json_array_get(list, i);
		const char *name = json_string_value(json_object_get(entry, "name"));
		bool mine = strcmp(part, "*") == 0 || (is_number && number == i) ||
			    (name && strcmp(name, part) == 0);
		if (!mine)
			continue;
		any = true;
		if (last) {
			json_array_set(list, i, w->value);
			w->hits++;
		} else {
			walk(w, entry, depth + 1);
		}
	}
	if (!any)
		w->lost = part;
}

static void walk(struct key_path *w, json_t *at, unsigned depth)
{
	const char *part = w->part[depth];
	if (json_is_array(at)) {
		walk_array(w, at, depth);
		return;
	}
	if (json_is_object(at) && depth + 1 == w->parts) {
		json_object_set(at, part, w->value);
		w->hits++;
		return;
	}
	json_t *next = json_object_get(at, part);
	if (next)
		walk(w, next, depth + 1);
	else
		w->lost = part;
}

int fan_scenario_set(json_t *root, const char *path, const char *text, char *why, size_t why_bytes)
{
	struct key_path w = {.parts = 0};
	char *copy = strdup(path), *save = NULL;
	char *p = copy ? strtok_r(copy, ".", &save) : NULL;
	for (; p && w.parts < DEPTH_MAX; p = strtok_r(NULL, ".", &save))
		w.part[w.parts++] = p;
	w.value = json_loads(text, JSON_DECODE_ANY, NULL);
	if (!w.value)
		w.value = json_string(text);
	if (w.parts && w.value && !p)
		walk(&w, root, 0);
	else
		w.lost = path;
	if (!w.hits)
		snprintf(why, why_bytes, "\"%s\": the scenario has nothing at \"%s\"", path,
			 w.lost ? w.lost : path);
	json_decref(w.value);
	free(copy);
	return w.hits ? 0 : -1;
}
