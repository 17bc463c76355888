/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `fanin plan`: its options.  Python does the rest (python/fanin/research/plan.py), and
 * asks `fanin plan --serve`, the program fanin-planner. */
#include <stddef.h>
#include <stdint.h>

#include "args.h"
#include "cmd.h"

#define PATH_BYTES    4096
#define SLOTS	      4096 /* the default of `fanin switch` */
#define TREES	      64
#define TREES_MAX     1024
#define PATHS	      8
#define PATHS_MAX     64
#define ROUNDINGS     64
#define ROUNDINGS_MAX 100000

struct plan_args {
	int seed, paths, roundings, trees, sums_at, vertex, rounding;
	int slots;
	bool no_bound, no_link_limits, gradients_only, serve;
	char network[PATH_BYTES], attach[ARGS_TEXT_BYTES], rate[ARGS_TEXT_BYTES];
	char algorithm[ARGS_TEXT_BYTES], json[ARGS_TEXT_BYTES], topology[ARGS_TEXT_BYTES],
		from[ARGS_TEXT_BYTES];
	char html[ARGS_TEXT_BYTES];
	char plan[ARGS_TEXT_BYTES], install[ARGS_TEXT_BYTES];
};

static const char *const vertices[] = {"short", "few", NULL};
static const char *const roundings[] = {"random", "search", "columns", NULL};
static const char *const readings[] = {"nearest", "rack", "two-level", NULL};

#define AT(field) offsetof(struct plan_args, field)
static const struct fan_option options[] = {
	{"network", 0, ARGS_OPERAND, AT(network), 0, PATH_BYTES - 1, NULL, "TOPOLOGY",
	 "a file, or numbers to make one from"},
	{"algorithm", 'a', ARGS_TEXT, AT(algorithm), 0, 0, NULL, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact, best (the default), or all to compare them"},
	{"seed", 0, ARGS_NUMBER, AT(seed), 0, INT32_MAX, NULL, "N", "of all that is random (1)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, TREES_MAX, NULL, "N",
	 "trees of a job on one server, and no more than can be installed; 1 as in the papers (64)"},
	{"paths", 0, ARGS_NUMBER, AT(paths), 1, PATHS_MAX, NULL, "N",
	 "candidate routes between two nodes (8)"},
	{"roundings", 0, ARGS_NUMBER, AT(roundings), 1, ROUNDINGS_MAX, NULL, "N",
	 "of a relaxed plan, of which the best is taken; 1 as in the papers (64)"},
	{"rounding", 0, ARGS_WORD, AT(rounding), 0, 0, roundings, "NAME",
	 "how grid and inart come from volumes to whole flows: random, as published (the default); "
	 "search, by local search after each drawing; "
	 "columns, by a program over all drawings"},
	{"vertex", 0, ARGS_WORD, AT(vertex), 0, 0, vertices, "NAME",
	 "which solution of their program, of many with one rate: short routes (short, the default), or "
	 "few switches, the most able first (few)"},
	{"sums-at", 0, ARGS_WORD, AT(sums_at), 0, 0, readings, "READING",
	 "which switch sums for a host under switchml and atp: the nearest that can (nearest, the "
	 "default), its rack's if that can (rack), or the nearest to the worker and then that to the "
	 "server (two-level: then all plans may sum twice)"},
	{"from", 0, ARGS_TEXT, AT(from), 0, 0, NULL, "PLAN.json",
	 "mend this plan, that was made before something changed, instead of making a new one"},
	{"plan", 0, ARGS_TEXT, AT(plan), 0, 0, NULL, "PLAN.json",
	 "take this plan as it is, instead of making one"},
	{"no-bound", 0, ARGS_FLAG, AT(no_bound), 0, 0, NULL, NULL,
	 "do not look for the rate that no plan exceeds"},
	{"no-link-limits", 0, ARGS_FLAG, AT(no_link_limits), 0, 0, NULL, NULL,
	 "links between switches carry whatever is asked, as in GRID's published program"},
	{"gradients-only", 0, ARGS_FLAG, AT(gradients_only), 0, 0, NULL, NULL,
	 "results, which come back over the same links, do not count: the papers' objective, not what a "
	 "network gives"},
	{"attach", 0, ARGS_TEXT, AT(attach), 0, 0, NULL, "NAME=NUMBER,...",
	 "put hosts on a network that has none: workers servers link server seed, and switch "
	 "switch_max programmable for what its switches sum"},
	{"rate", 0, ARGS_TEXT, AT(rate), 0, 0, NULL, "GBPS|ATTRIBUTE=UNIT",
	 "Gb/s of links without a rate, or which attribute of links is their rate, as capacity=Mb/s"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write the plan, or all of them, to FILE as JSON; - for the standard output, without the table"},
	{"install", 0, ARGS_TEXT, AT(install), 0, 0, NULL, "FILE",
	 "write what switches, servers and workers must know of the plan; - as for --json"},
	{"slots", 0, ARGS_NUMBER, AT(slots), 0, INT32_MAX, NULL, "N",
	 "of each switch, which --install shares out by the parts' shares (4096; 0: no quotas)"},
	{"html", 0, ARGS_TEXT, AT(html), 0, 0, NULL, "FILE", "draw the plan as a page with an SVG"},
	{"topology", 0, ARGS_TEXT, AT(topology), 0, 0, NULL, "FILE",
	 "write the topology to FILE, which is useful when it was made from numbers"},
	{"serve", 0, ARGS_FLAG, AT(serve), 0, 0, NULL, NULL,
	 "answer fanin controller's requests, lines of JSON on the standard input"},
};

static const struct args_command command = {
	.name = "plan",
	.help = "Plan where gradients are summed, by which routes they travel and how models are "
		"split over servers.  The topology comes first: TOPOLOGY.json, or one made from numbers, "
		"as fat-tree:k=8,workers=100,servers=1,programmable=0.2,seed=1 (or star, triangle, "
		"leaf-spine, dragonfly, rails).",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

int cmd_plan(int argc, char **argv)
{
	static struct plan_args a = {
		.algorithm = "best",
		.seed = 1,
		.paths = PATHS,
		.roundings = ROUNDINGS,
		.trees = TREES,
		.slots = SLOTS,
	};

	args_parse(&command, &a, argc, argv);
	if (a.serve)
		return cmd_planner();
	return cmd_has_planner() ? cmd_python("research", &command, &a) : 1;
}
