/* SPDX-License-Identifier: Apache-2.0 */
/* sim_variants.c - reads named settings from a file: {"ring": {"jobs.*.reduce": "ring"}, ...}. */
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"
#include "sim/scenario.h"

static int wrong(const struct sim_args *a, const char *name, const char *text, char *why)
{
	snprintf(why, SIM_WHY_BYTES, "%s: %s%s%s", a->variants, name, *name ? ": " : "", text);
	return -1;
}

int sim_variants_read(struct sim_args *a, char *why)
{
	const char *name;
	json_t *sets;
	if (!a->variants)
		return 0;
	a->variant = sim_load(a->variants, why);
	if (!a->variant)
		return -1;
	if (!json_is_object(a->variant) || json_object_size(a->variant) == 0)
		return wrong(a, "", "expected an object of settings by name", why);
	if (json_object_size(a->variant) > SIM_VALUES_MAX)
		return wrong(a, "", "more than 64 variants", why);
	json_object_foreach (a->variant, name, sets) {
		if (!*name || !json_is_object(sets))
			return wrong(a, name, "expected an object of values by key", why);
	}
	return 0;
}

const char *sim_variant_name(const struct sim_args *a, unsigned i)
{
	void *at = json_object_iter(a->variant);
	while (i--)
		at = json_object_iter_next(a->variant, at);
	return json_object_iter_key(at);
}

int sim_variant_apply(const struct sim_args *a, unsigned i, json_t *root, char *why)
{
	const char *name = sim_variant_name(a, i), *key;
	json_t *value;
	json_object_foreach (json_object_get(a->variant, name), key, value) {
		char *text = json_dumps(value, JSON_ENCODE_ANY),
		     said[SIM_WHY_BYTES / 2] = "out of memory";
		int bad = text ? fan_scenario_set(root, key, text, said, sizeof said) : -1;
		free(text);
		if (bad)
			return wrong(a, name, said, why);
	}
	return 0;
}
