/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_models.c - a job's model: by name, from a table, of equal layers, or scaled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "model.h"
#include "scenario.h"

#define COUNT(a)  (sizeof(a) / sizeof *(a))
#define PARTS_MAX 1024 /* layers of a synthetic model */
#define MILLION	  UINT64_C(1000000)

struct synthetic_entry {
	uint64_t numel, forward_ns, backward_ns;
	uint32_t layers;
};

#define AT(field) offsetof(struct synthetic_entry, field)
static const struct fan_field synthetic_fields[] = {
	{"numel", FAN_FIELD_U64, AT(numel), 0, FAN_MODEL_NUMEL_MAX, NULL},
	{"layers", FAN_FIELD_U32, AT(layers), 1, PARTS_MAX, NULL},
	{"forward_ms", FAN_FIELD_MS, AT(forward_ns), 0, 3.6e6, NULL},
	{"backward_ms", FAN_FIELD_MS, AT(backward_ns), 0, 3.6e6, NULL},
};
#undef AT

struct scaled_entry {
	uint32_t scale, compute;
};

#define AT(field) offsetof(struct scaled_entry, field)
static const struct fan_field scaled_fields[] = {
	{"of", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"scale", FAN_FIELD_SHARE, AT(scale), 1e-6, 1, NULL},
	{"compute", FAN_FIELD_SHARE, AT(compute), 0, 1, NULL},
};
#undef AT

/* Make a model of equal layers with the given totals. */
static int make_synthetic(struct fan_model *m, const json_t *o, struct fan_reader *r)
{
	struct synthetic_entry e = {.layers = 1};
	memset(m, 0, sizeof *m);
	if (fan_fields_read(r, o, synthetic_fields, COUNT(synthetic_fields), &e))
		return -1;
	snprintf(m->name, sizeof m->name, "synthetic");
	for (uint64_t i = 0, n = e.layers; i < n; i++) {
		struct fan_layer l = {
			.numel = e.numel / n + (i < e.numel % n),
			.forward_ns = e.forward_ns / n,
			.backward_ns = e.backward_ns / n,
		};
		snprintf(l.name, sizeof l.name, "layer%u", (unsigned)i);
		if (!fan_model_add(m, &l))
			return fan_reader_fail(r, NULL, "out of memory");
	}
	return 0;
}

static int read_table(struct fan_model *m, const char *name, const char *key, struct fan_reader *r)
{
	char why[FAN_WHY_BYTES / 4];
	char *text = fan_scenario_file(r, key, name);
	if (!text)
		return -1;
	int e = fan_model_parse(m, text, why, sizeof why);
	free(text);
	if (e)
		return fan_reader_fail(r, key, "%s: %s", name, why);
	snprintf(m->name, sizeof m->name, "%.47s", name);
	return 0;
}

static int read_named(struct fan_model *m, const char *name, const char *key, struct fan_reader *r)
{
	size_t n = strlen(name);
	if (n > 4 && strcmp(name + n - 4, ".csv") == 0)
		return read_table(m, name, key, r);
	if (fan_model_make(m, name))
		return 0;
	char all[256];
	struct fan_text t = fan_text_in(all, sizeof all);
	for (unsigned i = 0; fan_model_names[i]; i++)
		fan_text_add(&t, " %s", fan_model_names[i]);
	return fan_reader_fail(r, key, "\"%.64s\": expected a file NAME.csv or one of%s", name,
			       all);
}

static uint64_t times(uint64_t n, uint32_t millionths)
{
	return (uint64_t)((unsigned __int128)n * millionths / MILLION);
}

/* Make a smaller version of a model: parameters and times are scaled by `scale`, times also by
 * `compute`.  A layer with parameters keeps at least one. */
static int make_scaled(struct fan_model *m, const json_t *o, struct fan_reader *r)
{
	struct scaled_entry e = {.scale = MILLION, .compute = MILLION};
	if (fan_fields_read(r, o, scaled_fields, COUNT(scaled_fields), &e))
		return -1;
	const char *name = json_string_value(json_object_get(o, "of"));
	if (!name)
		return fan_reader_fail(r, "of", "expected the name of a model or a CSV file");
	if (read_named(m, name, "of", r))
		return -1;
	for (uint32_t i = 0; i < m->layers; i++) {
		struct fan_layer *l = &m->layer[i];
		uint64_t numel = times(l->numel, e.scale);
		l->numel = l->numel && !numel ? 1 : numel;
		l->forward_ns = times(times(l->forward_ns, e.scale), e.compute);
		l->backward_ns = times(times(l->backward_ns, e.scale), e.compute);
	}
	return 0;
}

int fan_scenario_read_model(struct fan_model *m, const json_t *v, struct fan_reader *r)
{
	const char *name = json_string_value(v);
	if (name)
		return read_named(m, name, "model", r);
	if (!json_is_object(v))
		return fan_reader_fail(r, "model",
				       "expected the name of a model, a CSV file or an object");
	size_t back = fan_reader_enter(r, "model");
	if (json_object_get(v, "of") ? make_scaled(m, v, r) : make_synthetic(m, v, r))
		return -1;
	fan_reader_leave(r, back);
	return 0;
}
