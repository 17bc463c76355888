/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm.h"

#include <string.h>

#include "core/base/err.h"
#include "file/text.h"

#define NAMES_BYTES 256

const struct fan_plan_options fan_plan_defaults = {
	.seed = 1,
	.paths = FAN_PATHS_DEFAULT,
	.roundings = FAN_ROUNDINGS,
	.trees = FAN_TREES_DEFAULT,
	.nodes = FAN_EXACT_NODES_MAX,
	.choices = FAN_EXACT_CHOICES_MAX,
};

int fan_best_mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		  struct fan_planned *how)
{
	(void)how;
	return fan_replan(t, o, p);
}

const struct fan_algorithm fan_algorithms[] = {
#define FAN_X(name, run, mend) {#name, run, mend},
	FAN_ALGORITHMS(FAN_X)
#undef FAN_X
};

const uint32_t fan_algorithm_count = sizeof fan_algorithms / sizeof fan_algorithms[0];

const struct fan_algorithm *fan_algorithm_find(const char *name, struct fan_why *why)
{
	char names[NAMES_BYTES];
	struct fan_text t = fan_text_in(names, sizeof names);
	for (uint32_t i = 0; i < fan_algorithm_count; i++)
		if (strcmp(fan_algorithms[i].name, name) == 0)
			return &fan_algorithms[i];
	for (uint32_t i = 0; i < fan_algorithm_count; i++)
		fan_text_add(&t, "%s%s",
			     !i				   ? ""
			     : i + 1 < fan_algorithm_count ? ", "
							   : " or ",
			     fan_algorithms[i].name);
	fan_why_set(why, FAN_E_CONFIG, "--algorithm: expected %s, got \"%.40s\"", names, name);
	return NULL;
}
