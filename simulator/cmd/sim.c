/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `fanin sim`: its flags.  Python does the rest (python/fanin/research/sim.py), and runs
 * `fanin sim --engine` for each simulation (sim_engine.c). */
#include <stddef.h>
#include <string.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "sim_engine.h"

#define SETS_MAX   64
#define SWEEPS_MAX 4
#define JOBS_MAX   64

/* What the table's rows are read into. */
struct flags {
	char file[ARGS_TEXT_BYTES], variants[ARGS_TEXT_BYTES], plan[ARGS_TEXT_BYTES];
	char json[ARGS_TEXT_BYTES], report[ARGS_TEXT_BYTES];
	char trace[ARGS_TEXT_BYTES], pcap[ARGS_TEXT_BYTES];
	char chrome_trace[ARGS_TEXT_BYTES], beside[ARGS_TEXT_BYTES], layers[ARGS_TEXT_BYTES];
	char calibrate[ARGS_TEXT_BYTES];
	char seed[ARGS_TEXT_BYTES];
	struct args_many set, sweep;
	int jobs;
	bool quiet;
};

#define AT(field) offsetof(struct flags, field)
static const struct fan_option options[] = {
	{"scenario", 0, ARGS_OPERAND, AT(file), 0, 0, NULL, "SCENARIO.json|TOPOLOGY",
	 "what to run"},
	{"seed", 's', ARGS_TEXT, AT(seed), 0, 0, NULL, "S",
	 "random numbers of the run; instead of the scenario's"},
	{"set", 0, ARGS_MANY, AT(set), 0, SETS_MAX, NULL, "KEY=VALUE",
	 "change the scenario: jobs.0.window=64, topology.nodes.s0.slots=128, "
	 "topology.links.*.loss=0.01; may be repeated"},
	{"sweep", 0, ARGS_MANY, AT(sweep), 0, SWEEPS_MAX, NULL, "KEY=A,B,C",
	 "one run for each value; repeated: for each combination"},
	{"variants", 0, ARGS_TEXT, AT(variants), 0, 0, NULL, "FILE",
	 "one run for each named group of settings in FILE, on the same jobs; with --sweep, for "
	 "each combination"},
	{"jobs", 'j', ARGS_NUMBER, AT(jobs), 1, JOBS_MAX, NULL, "J",
	 "runs of a sweep at a time (one a processor)"},
	{"plan", 0, ARGS_TEXT, AT(plan), 0, 0, NULL, "FILE",
	 "jobs follow this plan, as fanin plan --install has written it"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write the result as JSON; - for standard output"},
	{"report", 0, ARGS_TEXT, AT(report), 0, 0, NULL, "FILE",
	 "write the result as a page with plots"},
	{"trace", 0, ARGS_TEXT, AT(trace), 0, 0, NULL, "FILE", "write a line for each packet"},
	{"pcap", 0, ARGS_TEXT, AT(pcap), 0, 0, NULL, "FILE[:NODE]",
	 "write headers of all packets, or of those from and for NODE, for Wireshark"},
	{"chrome-trace", 0, ARGS_TEXT, AT(chrome_trace), 0, 0, NULL, "FILE",
	 "write operations, parts and stalls of each rank for Perfetto, as FANIN_TRACE does"},
	{"beside", 0, ARGS_TEXT, AT(beside), 0, 0, NULL, "FILE",
	 "lay them over this trace of real ranks, from its first operation on"},
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "no progress, no table"},
	{"layers", 0, ARGS_TEXT, AT(layers), 0, 0, NULL, "MODEL",
	 "print the model's layer table as CSV, and end"},
	{"calibrate", 0, ARGS_TEXT, AT(calibrate), 0, 0, NULL, "TRACE",
	 "print a scenario whose links and computing take as long as in this trace of real ranks "
	 "(FANIN_TRACE), and end"},
};

static const struct args_command command = {
	.name = "sim",
	.help = "Run a scenario in virtual time, with the same protocol objects as the daemons.\v"
		"doc/sim.md describes scenarios and results.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

int cmd_sim(int argc, char **argv)
{
	static struct flags f; /* static, as the lists of repeated flags are never freed */

	if (argc == 2 && !strcmp(argv[1], "--engine"))
		return sim_engine();
	args_parse(&command, &f, argc, argv);
	return cmd_python("research", &command, &f);
}
