/* SPDX-License-Identifier: Apache-2.0 */
/* python.c - subcommands that Python runs: `fanin controller` and `fanin top`
 * (python/fanin/operate), `fanin plan` (python/fanin/research/plan.py, which asks the program
 * fanin-planner). */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cmd.h"
#include "net/udp.h"

#define PLACE_BYTES 64 /* of a place, at most */

int find_installed(const char *const *places, char *self, char *found)
{
	char folder[PATH_MAX], path[PATH_MAX + PLACE_BYTES];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);

	folder[n > 0 ? n : 0] = '\0';
	memcpy(self, folder, n > 0 ? (size_t)n + 1 : 1);
	if (n <= 0)
		return -1;
	const char *dir = dirname(folder);
	for (; *places; places++) {
		snprintf(path, sizeof path, "%s/%s", dir, *places);
		if (realpath(path, found))
			return 0;
	}
	return -1;
}

/* ---- `fanin plan --serve` becomes the program fanin-planner ---- */

static const char *const places[] = {"fanin-planner", "../libexec/fanin/fanin-planner", NULL};

/* Find it; false, and a line on stderr: there is none. */
static bool find_planner(char *found)
{
	static char self[PATH_MAX];

	if (!find_installed(places, self, found))
		return true;
	fprintf(stderr,
		"fanin plan: this fanin was built without its planner: no %s or %s beside %s.\n"
		"On Debian it is the package fanin-planner.  A build needs CLP and CBC: as "
		"root \"sh tools/deps.sh plan\" (Debian:\n"
		"coinor-libclp-dev coinor-libcbc-dev zlib1g-dev), then\n"
		"\"meson setup --reconfigure build -Dplanner=enabled && ninja -C build\".\n",
		places[0], places[1], self);
	return false;
}

/* `fanin plan --serve`: become fanin-planner.  Returns the exit status, and a line on stderr, when
 * that fails. */
static int become_planner(char *path)
{
	char plan[] = "plan", serve[] = "--serve";
	char *const args[] = {path, plan, serve, NULL};

	execv(path, args);
	fprintf(stderr, "fanin plan: %s: %s\n", path, strerror(errno));
	return 1;
}

/* ---- what Python does: programs of python/fanin ---- */

#define SYSTEM_PYTHON "/usr/bin/python3"
#define PYTHON_MINOR  9 /* 3.9, at least */
#define PEER_BYTES    80
#define FIXED	      5 /* arguments before those of the subcommand */
#define MEMBER(as)    (*(const as *)((const char *)values + o->at))

/* In a build folder, an installed program, a wheel. */
static const char *const folders[] = {"python/fanin", "../libexec/fanin/python/fanin", "..", NULL};

static int find_script(const char *package, char *self, char *script)
{
	char path[PATH_MAX];

	for (unsigned i = 0; folders[i]; i++) {
		const char *const one[] = {path, NULL};
		snprintf(path, sizeof path, "%s/%s/__main__.py", folders[i], package);
		if (!find_installed(one, self, script))
			return 0;
	}
	return -1;
}

/* The interpreter: that of FANIN_PYTHON, which the `fanin` of a Python package sets to its own
 * environment's; else the system's for what needs the standard library alone, since the first of
 * the PATH may be a script that looks for one, which takes longer than `fanin ps`. */
static const char *python_for(const char *package)
{
	char path[PATH_MAX];
	unsigned minor;
	const char *given = getenv("FANIN_PYTHON");
	const bool is_standalone = !strcmp(package, "operate");

	if (given && *given)
		return given;
	if (is_standalone && realpath(SYSTEM_PYTHON, path) &&
	    sscanf(path, SYSTEM_PYTHON ".%u", &minor) == 1 && minor >= PYTHON_MINOR)
		return SYSTEM_PYTHON;
	return "python3";
}

/* Become `package`'s program `name`; its arguments begin at args[FIXED].  They are freed. */
static int become(const char *package, const char *name, char **args)
{
	static char self[PATH_MAX], script[PATH_MAX];
	const char *python = python_for(package);
	const char *const fixed[FIXED] = {python, "-I", "-S", script, name};

	if (!args) {
		fprintf(stderr, "fanin %s: out of memory\n", name);
		return 1;
	}
	if (find_script(package, self, script)) {
		fprintf(stderr, "fanin %s: no %s/%s beside %s, nor in %s\n", name, folders[0],
			package, self, folders[1]);
	} else {
		memcpy(args, fixed, sizeof fixed);
		setenv("FANIN", self, 1);
		setenv("FANIN_VERSION", FAN_BUILD_VERSION, 1);
		execvp(python, args);
		fprintf(stderr, "fanin %s: needs Python 3.9 or later: %s: %s\n", name, python,
			strerror(errno));
	}
	free(args);
	return 1;
}

static char *flag(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "--%s%s%s", name, value ? "=" : "", value ? value : "") >= 0)
		return text;
	fprintf(stderr, "fanin: out of memory\n");
	exit(1);
}

/* Add option `o`, where it is set, to the flags at `to`.  Returns how many these are. */
static unsigned add(char **to, const struct fan_option *o, const void *values)
{
	char number[24], at[PEER_BYTES];

	switch (o->kind) {
	case ARGS_FLAG:
		if (MEMBER(bool))
			to[0] = flag(o->name, NULL);
		return MEMBER(bool);
	case ARGS_NUMBER:
		snprintf(number, sizeof number, "%d", MEMBER(int));
		to[0] = flag(o->name, number);
		return 1;
	case ARGS_SIZE:
		snprintf(number, sizeof number, "%" PRIu64, MEMBER(uint64_t));
		to[0] = flag(o->name, number);
		return 1;
	case ARGS_WORD: to[0] = flag(o->name, o->words[MEMBER(int)]); return 1;
	case ARGS_PEER:
		if (fan_peer_is_none(&MEMBER(fan_peer)))
			return 0;
		to[0] = flag(o->name, fan_peer_text(&MEMBER(fan_peer), at, sizeof at));
		return 1;
	case ARGS_MANY:
		for (unsigned i = 0; i < MEMBER(struct args_many).count; i++)
			to[i] = flag(o->name, MEMBER(struct args_many).text[i]);
		return MEMBER(struct args_many).count;
	default:
		if (MEMBER(char))
			to[0] = flag(o->name, &MEMBER(char));
		return MEMBER(char) != '\0';
	}
}

int cmd_python(const char *package, const struct args_command *c, const void *values)
{
	char **args = calloc(FIXED + (size_t)c->count * ARGS_MANY_MAX + 1, sizeof *args);
	unsigned n = FIXED;

	for (unsigned i = 0; args && i < c->count; i++)
		n += add(&args[n], &c->options[i], values);
	return become(package, c->name, args);
}

#define TREES_MAX 1024 /* of one plan */

static const char *const readings[] = {"nearest", "rack", "two-level", NULL};

/* ---- fanin controller ---- */

#define WAIT_MAX_S 3600

struct controller_args {
	fan_peer listen, metrics;
	int sums_at, trees, wait_s;
	char topology[ARGS_TEXT_BYTES], plan[ARGS_TEXT_BYTES], socket[ARGS_TEXT_BYTES];
	char ask[ARGS_TEXT_BYTES], state[ARGS_TEXT_BYTES], key[ARGS_TEXT_BYTES];
	char algorithm[ARGS_TEXT_BYTES], json[ARGS_TEXT_BYTES];
	bool quiet;
};

#define AT(field) offsetof(struct controller_args, field)
static const struct fan_option controller_options[] = {
	{"listen", 'l', ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT",
	 "where daemons and workers find it: a TCP port of a management network"},
	{"algorithm", 'a', ARGS_TEXT, AT(algorithm), 0, 0, NULL, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact or best (the default)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, TREES_MAX, NULL, "N",
	 "trees of a job on one server that best may use (4); each is a part of its own"},
	{"sums-at", 0, ARGS_WORD, AT(sums_at), 0, 0, readings, "READING",
	 "which switch sums for a host under switchml and atp: nearest (the default), rack or "
	 "two-level, by which all plans may sum twice"},
	{"plan", 0, ARGS_TEXT, AT(plan), 0, 0, NULL, "PLAN.json",
	 "begin with this plan, as fanin plan --json writes it, instead of making one"},
	{"wait", 0, ARGS_NUMBER, AT(wait_s), 0, WAIT_MAX_S, NULL, "SECONDS",
	 "for all daemons, before it plans with those that are there (5)"},
	{"socket", 0, ARGS_TEXT, AT(socket), 0, 0, NULL, "PATH",
	 "a Unix socket that answers: status, status json, plan json, why JOB, replan, admit JSON, "
	 "end JOB, load JSON, install PLAN.json"},
	{"ask", 0, ARGS_TEXT, AT(ask), 0, 0, NULL, "LINE",
	 "ask the controller of --socket, and print its answer"},
	{"state", 0, ARGS_TEXT, AT(state), 0, 0, NULL, "FILE",
	 "keep there what the next controller must know so that running jobs stay in its care, and "
	 "read it at the start"},
	{"key", 'k', ARGS_TEXT, AT(key), 0, 0, NULL, "FILE",
	 "the key that lines of daemons and workers are signed with (none: they are not)"},
	{"metrics", 0, ARGS_PEER, AT(metrics), 0, 0, NULL, "ADDR:PORT",
	 "serve metrics there by HTTP, for Prometheus; a management network (nowhere)"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write its status there when something has happened, four times a second at most"},
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "do not log what happens"},
	{"topology", 0, ARGS_OPERAND, AT(topology), 0, 0, NULL, "TOPOLOGY.json",
	 "a network and its jobs, as fanin plan takes them"},
};

static const struct args_command controller = {
	.name = "controller",
	.help = "Plan jobs on the switches and servers of TOPOLOGY.json that are there, install the "
		"routes on them, assign parts to workers, and mend plans after failures.\v"
		"Daemons: fanin switch --controller ADDR:PORT --name NODE, and fanin server "
		"likewise.  Workers: FANIN_CONTROLLER=ADDR:PORT.  SIGINT, SIGTERM: stop; daemons "
		"and jobs go on.",
	.options = controller_options,
	.count = sizeof controller_options / sizeof controller_options[0],
};

int cmd_controller(int argc, char **argv)
{
	struct controller_args a = {.algorithm = "best", .trees = 4, .wait_s = 5};

	args_parse(&controller, &a, argc, argv);
	if (a.ask[0] && !a.socket[0])
		args_wrong(controller.name, "--ask: expected with --socket PATH");
	if (a.ask[0])
		return cmd_python("operate", &controller, &a);
	if (!a.topology[0])
		args_wrong(controller.name, "expected TOPOLOGY.json, or a topology to make");
	if (fan_peer_is_none(&a.listen))
		args_wrong(controller.name, "--listen: expected ADDR:PORT, for instance --listen "
					    "10.8.0.1:7700");
	if (args_need_key(controller.name, "key", a.key, "FANIN_CONTROLLER_KEY_FILE"))
		return 2;
	return cmd_python("operate", &controller, &a);
}

/* ---- fanin top, fanin ps ---- */

#define INTERVAL_MAX_S 3600

struct top_args {
	char switches[ARGS_TEXT_BYTES], controller[ARGS_TEXT_BYTES], job[ARGS_TEXT_BYTES];
	char json[ARGS_TEXT_BYTES], page[ARGS_TEXT_BYTES];
	int interval_s, pid;
	bool here, once, all_hosts, line, merge;
};

#undef AT
#define AT(field) offsetof(struct top_args, field)
#define ROWS	  (sizeof top_options / sizeof top_options[0])
#define OF_PS	  2 /* rows */
#define OF_BOTH	  3
/* The first are of `top` alone, the last of `ps`, and those between are of both. */
static const struct fan_option top_options[] = {
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
	.options = top_options,
	.count = ROWS - OF_PS,
};

static const struct args_command ps = {
	.name = "ps",
	.help = "Show what the ranks of this host do, for whom they wait, and how long.",
	.options = &top_options[ROWS - OF_PS - OF_BOTH],
	.count = OF_BOTH + OF_PS,
};

int cmd_top(int argc, char **argv)
{
	const struct args_command *c = !strcmp(argv[0], "fanin ps") ? &ps : &top;
	struct top_args a = {.interval_s = 1};

	args_parse(c, &a, argc, argv);
	if (!cmd_can_write(c->name, "json", a.json) || !cmd_can_write(c->name, "page", a.page))
		return 2;
	return cmd_python("operate", c, &a);
}

/* ---- fanin plan ---- */

#define PATH_BYTES    4096
#define SLOTS	      4096 /* the default of `fanin switch` */
#define TREES	      64
#define ROUNDINGS     64
#define ROUNDINGS_MAX 100000

struct plan_args {
	int seed, roundings, trees, sums_at, vertex, rounding;
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

#undef AT
#define AT(field) offsetof(struct plan_args, field)
static const struct fan_option plan_options[] = {
	{"network", 0, ARGS_OPERAND, AT(network), 0, PATH_BYTES - 1, NULL, "TOPOLOGY",
	 "a file, or numbers to make one from"},
	{"algorithm", 'a', ARGS_TEXT, AT(algorithm), 0, 0, NULL, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact, best (the default), or all to compare them"},
	{"seed", 0, ARGS_NUMBER, AT(seed), 0, INT32_MAX, NULL, "N", "of all that is random (1)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, TREES_MAX, NULL, "N",
	 "trees of a job on one server, and no more than can be installed; 1 as in the papers (64)"},
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

static const struct args_command plan = {
	.name = "plan",
	.help = "Plan where gradients are summed, by which routes they travel and how models are "
		"split over servers.  The topology comes first: TOPOLOGY.json, or one made from numbers, "
		"as fat-tree:k=8,workers=100,servers=1,programmable=0.2,seed=1 (or star, triangle, "
		"leaf-spine, dragonfly, rails).",
	.options = plan_options,
	.count = sizeof plan_options / sizeof plan_options[0],
};

int cmd_plan(int argc, char **argv)
{
	static struct plan_args a = {
		.algorithm = "best",
		.seed = 1,
		.roundings = ROUNDINGS,
		.trees = TREES,
		.slots = SLOTS,
	};

	static char path[PATH_MAX];

	args_parse(&plan, &a, argc, argv);
	if (!find_planner(path))
		return 1;
	return a.serve ? become_planner(path) : cmd_python("research", &plan, &a);
}
