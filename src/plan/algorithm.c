/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm.h"

#include <string.h>

const struct fan_plan_options fan_plan_defaults = {
	.seed = 1,
	.paths = FAN_PATHS_DEFAULT,
	.roundings = FAN_ROUNDINGS,
	.trees = FAN_TREES_DEFAULT,
	.nodes = FAN_EXACT_NODES_MAX,
	.choices = FAN_EXACT_CHOICES_MAX,
};

const struct fan_algorithm fan_algorithms[] = {
	{"geryon", "no aggregation; equal split", fan_geryon},
	{"lbmm", "no aggregation; split by what servers can take in", fan_lbmm},
	{"switchml", "the worker's rack switch sums, whatever it can", fan_round_outcome},
	{"atp", "rack switch while it can, then the server's, then the server", fan_atp},
	{"grid", "linear program, randomized rounding; equal split", fan_grid},
	{"inart", "split by linear program, then place and route by another", fan_inart},
	{"exact", "branch and bound, one tree on each server; small instances", fan_exact},
	{"best", "all of these, consolidation, local search, and several trees", fan_best},
};

const uint32_t fan_algorithm_count = sizeof fan_algorithms / sizeof fan_algorithms[0];

const struct fan_algorithm *fan_algorithm_find(const char *name)
{
	for (uint32_t i = 0; i < fan_algorithm_count; i++)
		if (strcmp(fan_algorithms[i].name, name) == 0)
			return &fan_algorithms[i];
	return NULL;
}
