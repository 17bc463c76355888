/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `fanin sim`: its flags.  Python does the rest (python/fanin/research/sim.py), and runs
 * `fanin sim --engine` for each simulation. */
#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "file/file.h"
#include "sim/experiment.h"
#include "sim/trace.h"

/* ---- `fanin sim --engine`, for fanin.research.engine ----
 *
 * Reads requests as JSON, {"scenario"} or {"words"}, and prints each result as JSON.  A request for
 * a run may name files that the run writes ("trace", "pcap" of "pcap_node"), and ask for lines
 * about its "progress". */

#define WHY_BYTES 2048
#define FAILED	  1
#define TELL_NS	  UINT64_C(500000000)	/* between two lines of progress on a terminal */
#define LOG_NS	  UINT64_C(10000000000) /* and in a log */
#define JSON	  (JSON_INDENT(1) | JSON_REAL_PRECISION(15) | JSON_ENSURE_ASCII)

struct run {
	const json_t *request;
	struct fan_scenario scenario;
	FILE *trace, *pcap; /* NULL: not asked for */
	uint64_t told_ns;   /* of the last line of progress */
	char why[WHY_BYTES];
};

static const char *text_of(const struct run *r, const char *key)
{
	return json_string_value(json_object_get(r->request, key));
}

static uint64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool tell(void *arg, uint64_t now_ns, uint64_t done, uint64_t all)
{
	struct run *r = arg;
	bool terminal = isatty(STDERR_FILENO);
	uint64_t wall = wall_ns();
	if (wall < r->told_ns + (terminal ? TELL_NS : LOG_NS))
		return true;
	r->told_ns = wall;
	fprintf(stderr, "%s%llu of %llu iterations, %.3f s of virtual time%s",
		terminal ? "\r\033[K" : "", (unsigned long long)done, (unsigned long long)all,
		(double)now_ns * 1e-9, terminal ? "" : "\n");
	return true;
}

static const char *const outputs[] = {"trace", "pcap"};
#define OUTPUTS (sizeof outputs / sizeof *outputs)

static bool open_files(struct run *r)
{
	FILE **const f[OUTPUTS] = {&r->trace, &r->pcap};
	for (unsigned i = 0; i < OUTPUTS; i++) {
		const char *name = text_of(r, outputs[i]);
		if (name &&
		    !(*f[i] = fan_file_stream(name, FAN_FILE_OUTPUT, r->why, sizeof r->why)))
			return false;
	}
	return true;
}

/* Close the files.  False: some of the output is lost, and r->why says why. */
static bool close_files(struct run *r)
{
	FILE *const f[OUTPUTS] = {r->trace, r->pcap};
	bool whole = true;
	for (unsigned i = 0; i < OUTPUTS; i++)
		if (f[i] && fan_file_done(f[i], text_of(r, outputs[i]), r->why, sizeof r->why))
			whole = false;
	return whole;
}

/* Report that the capture has reached its bound. */
static void tell_missed(const struct run *r, const struct fan_trace *t)
{
	bool one = json_object_get(r->request, "pcap_node");
	fprintf(stderr,
		"fanin sim: --pcap: %s has the first %llu packets, until %.6f s; it has no room for "
		"%llu more%s\n",
		text_of(r, "pcap"), (unsigned long long)t->captured, (double)t->until_ns * 1e-9,
		(unsigned long long)t->missed, one ? "" : ": capture one node's with FILE:NODE");
}

/* Run `e`, which has begun, with the records that the request asks for. */
static json_t *run_experiment(struct run *r, struct fan_experiment *e)
{
	struct fan_experiment_progress progress = {tell, r};
	struct fan_trace trace = {.missed = 0};
	const json_t *node = json_object_get(r->request, "pcap_node");
	json_t *result = NULL;
	if (r->trace || r->pcap)
		fan_trace_begin(&trace, e, r->trace, r->pcap,
				node ? (uint32_t)json_integer_value(node) : FAN_SIM_NONE);
	bool quiet = !json_is_true(json_object_get(r->request, "progress"));
	if (fan_experiment_run(e, quiet ? NULL : &progress))
		result = fan_experiment_result(e);
	if (!quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	if (result && trace.missed)
		tell_missed(r, &trace);
	return result;
}

static json_t *run(struct run *r)
{
	struct fan_experiment *e = calloc(1, sizeof *e);
	json_t *result = NULL;
	bool open = open_files(r);
	if (open && e && fan_experiment_begin(e, &r->scenario)) {
		result = run_experiment(r, e);
		fan_experiment_end(e);
	}
	if (!close_files(r)) {
		json_decref(result);
		result = NULL;
	}
	free(e);
	return result;
}

/* The words of a key that a build may add some to. */
static json_t *words(const char *key)
{
	const char *const *known = key && strcmp(key, "policy") == 0 ? fan_scenario_policies
								     : fan_scenario_congestions;
	json_t *list = json_array();
	for (; *known; known++)
		json_array_append_new(list, json_string(*known));
	return json_pack("{s:o}", "words", list);
}

static json_t *answer(const json_t *request, char *why, bool *wrong)
{
	struct run r = {.request = request, .told_ns = wall_ns()};
	*wrong = true;
	if (json_object_get(request, "words"))
		return words(text_of(&r, "words"));
	struct fan_reader reader;
	if (fan_scenario_read(&r.scenario, json_object_get(request, "scenario"), &reader)) {
		snprintf(why, WHY_BYTES, "%s", reader.why);
		return NULL;
	}
	*wrong = false;
	json_t *result = run(&r);
	fan_scenario_free(&r.scenario);
	snprintf(why, WHY_BYTES, "%s", r.why[0] ? r.why : "out of memory");
	return result;
}

/* Is there another request? */
static bool more(void)
{
	int c = getchar();
	while (c == ' ' || c == '\n')
		c = getchar();
	return c != EOF && ungetc(c, stdin) != EOF;
}

/* Answer the requests on standard input.  Returns the exit status: 1 if one is no JSON or an answer
 * cannot be written. */
static int engine(void)
{
	int lost = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody reads the answer once the parent is gone */
	while (!lost && more()) {
		char why[WHY_BYTES] = "no request";
		bool wrong = true;
		json_error_t e;
		json_t *request = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &e);
		json_t *result = request ? answer(request, why, &wrong) : NULL;
		if (!result)
			result = json_pack("{s:s, s:b}", "error", why, "wrong", wrong);
		lost = !request || !result || json_dumpf(result, stdout, JSON) ||
		       fputs("\n", stdout) == EOF || putchar('\0') == EOF || fflush(stdout);
		json_decref(result);
		json_decref(request);
	}
	return lost ? FAILED : 0;
}

/* ---- flags ---- */

#define SETS_MAX   64
#define SWEEPS_MAX 4
#define JOBS_MAX   64

/* What the table's rows are read into. */
struct flags {
	char file[ARGS_TEXT_BYTES], variants[ARGS_TEXT_BYTES], plan[ARGS_TEXT_BYTES];
	char json[ARGS_TEXT_BYTES], report[ARGS_TEXT_BYTES];
	char trace[ARGS_TEXT_BYTES], pcap[ARGS_TEXT_BYTES];
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
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "no progress, no table"},
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
		return engine();
	args_parse(&command, &f, argc, argv);
	return cmd_python("research", &command, &f);
}
