/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm.h"

#include <string.h>

#include "replan.h"

const struct fan_plan_options fan_plan_defaults = {
	.seed = 1,
	.paths = FAN_PATHS_DEFAULT,
	.roundings = FAN_ROUNDINGS,
	.trees = FAN_TREES_DEFAULT,
	.nodes = FAN_EXACT_NODES_MAX,
	.choices = FAN_EXACT_CHOICES_MAX,
};

static int mend(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		struct fan_planned *how)
{
	(void)how;
	return fan_replan(t, o, p);
}

const struct fan_algorithm fan_algorithms[] = {
	{"geryon", "no aggregation; equal split", fan_geryon, NULL},
	{"lbmm", "no aggregation; split by what servers can take in", fan_lbmm, NULL},
	{"switchml", "the switch near the worker sums, whatever it can", fan_round_outcome, NULL},
	{"atp", "that while it can, then that near the server, then the server", fan_atp, NULL},
	{"grid", "linear program, randomized rounding; equal split", fan_grid, fan_grid_mend},
	{"inart", "split by linear program, then place and route by another", fan_inart,
	 fan_inart_mend},
	{"exact", "column generation to its end; with one tree, branch and bound; small instances",
	 fan_exact, NULL},
	{"best", "all of these, consolidation, local search, and several trees", fan_best, mend},
};

const uint32_t fan_algorithm_count = sizeof fan_algorithms / sizeof fan_algorithms[0];

const struct fan_algorithm *fan_algorithm_find(const char *name)
{
	for (uint32_t i = 0; i < fan_algorithm_count; i++)
		if (strcmp(fan_algorithms[i].name, name) == 0)
			return &fan_algorithms[i];
	return NULL;
}
