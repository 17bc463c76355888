/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - `fanin top` and `fanin ps`: their options.  Python does the rest:
 * python/fanin/operate/top. */
#include "args.h"
#include "cmd.h"

#define INTERVAL_MAX_S 3600

struct top_args {
	char switches[ARGS_TEXT_BYTES], controller[ARGS_TEXT_BYTES], job[ARGS_TEXT_BYTES];
	char json[ARGS_TEXT_BYTES], prometheus[ARGS_TEXT_BYTES], page[ARGS_TEXT_BYTES];
	int interval_s, pid;
	bool here, once, all_hosts, line, merge;
};

#define AT(field) offsetof(struct top_args, field)
#define ROWS	  (sizeof options / sizeof options[0])
#define OF_PS	  2 /* rows */
#define OF_BOTH	  3
/* The first are of `top` alone, the last of `ps`, and those between are of both. */
static const struct fan_option options[] = {
	{"switch", 's', ARGS_TEXT, AT(switches), 0, 0, NULL, "ADDR:PORT[,...]",
	 "the switch to ask; with several, also the share of a job that each has (none: the ranks of "
	 "this host)"},
	{"controller", 'c', ARGS_TEXT, AT(controller), 0, 0, NULL, "PATH",
	 "the --socket of a controller to ask instead: nodes, jobs, and the trees that sum them"},
	{"here", 'H', ARGS_FLAG, AT(here), 0, 0, NULL, NULL,
	 "the ranks of this host, also beside a switch"},
	{"once", '1', ARGS_FLAG, AT(once), 0, 0, NULL, NULL, "print once and exit"},
	{"interval", 'i', ARGS_NUMBER, AT(interval_s), 1, INTERVAL_MAX_S, NULL, "SECONDS",
	 "between two tables (1)"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write what is shown to FILE as JSON; - for the standard output, without the table"},
	{"page", 0, ARGS_TEXT, AT(page), 0, 0, NULL, "FILE", "write what is shown to FILE as HTML"},
	{"prometheus", 0, ARGS_TEXT, AT(prometheus), 0, 0, NULL, "FILE",
	 "write the jobs to FILE as metrics, for node_exporter's textfile collector"},
	{"job", 'j', ARGS_TEXT, AT(job), 0, 0, NULL, "JOB", "only ranks of this job"},
	{"pid", 'p', ARGS_NUMBER, AT(pid), 1, INT32_MAX, NULL, "PID", "only ranks of this process"},
	{"all-hosts", 'a', ARGS_FLAG, AT(all_hosts), 0, 0, NULL, NULL,
	 "with --job: ask its aggregators on all hosts, too, for whom they wait"},
	{"json", 0, ARGS_FLAG, AT(line), 0, 0, NULL, NULL,
	 "print one line of JSON, all that is known"},
	{"merge", 'm', ARGS_FLAG, AT(merge), 0, 0, NULL, NULL,
	 "read lines of --json from standard input, of other hosts, in place of asking this one"},
};

static const struct args_command top = {
	.name = "top",
	.help = "Show what ranks here, or the jobs of a switch do, and for whom they wait.",
	.options = options,
	.count = ROWS - OF_PS,
};

static const struct args_command ps = {
	.name = "ps",
	.help = "Show what the ranks of this host do, for whom they wait, and how long.",
	.options = &options[ROWS - OF_PS - OF_BOTH],
	.count = OF_BOTH + OF_PS,
};

static int run(const struct args_command *c, int argc, char **argv)
{
	struct top_args a = {.interval_s = 1};

	args_parse(c, &a, argc, argv);
	if (!cmd_can_write(c->name, "json", a.json) || !cmd_can_write(c->name, "page", a.page))
		return 2;
	return cmd_python("operate", c, &a);
}

int cmd_top(int argc, char **argv)
{
	return run(&top, argc, argv);
}

int cmd_ps(int argc, char **argv)
{
	return run(&ps, argc, argv);
}
