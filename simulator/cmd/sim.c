/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `fanin sim`: flags, and what is written. */
#include "sim.h"

#include <argp.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "file/file.h"
#include "page/page.h"
#include "plan/network.h"
#include "sim/model.h"
#include "sim/outcome.h"

#define FAILED 1
#define WRONG  2

enum long_option {
	OPT_SET = 256,
	OPT_SWEEP,
	OPT_VARIANTS,
	OPT_JSON,
	OPT_REPORT,
	OPT_TRACE,
	OPT_PCAP,
	OPT_CHROME_TRACE,
	OPT_BESIDE,
	OPT_LAYERS,
	OPT_PLAN
};

static const struct argp_option options[] = {
	{"seed", 's', "S", 0, "random numbers of the run; instead of the scenario's", 0},
	{"set", OPT_SET, "KEY=VALUE", 0,
	 "change the scenario: jobs.0.window=64, topology.nodes.s0.slots=128, "
	 "topology.links.*.loss=0.01; may be repeated",
	 0},
	{"sweep", OPT_SWEEP, "KEY=A,B,C", 0,
	 "one run for each value; repeated: for each combination", 0},
	{"variants", OPT_VARIANTS, "FILE", 0,
	 "one run for each named group of settings in FILE, on the same jobs; with --sweep, for "
	 "each combination",
	 0},
	{"jobs", 'j', "J", 0, "runs of a sweep at a time (1)", 0},
	{"plan", OPT_PLAN, "FILE", 0,
	 "jobs follow this plan, as fanin plan --install has written it", 0},
	{"json", OPT_JSON, "FILE", 0, "write the result as JSON; - for standard output", 0},
	{"report", OPT_REPORT, "FILE", 0, "write the result as a page with plots", 0},
	{"trace", OPT_TRACE, "FILE", 0, "write a line for each packet", 0},
	{"pcap", OPT_PCAP, "FILE", 0, "write each packet for Wireshark", 0},
	{"chrome-trace", OPT_CHROME_TRACE, "FILE", 0,
	 "write operations, parts and stalls of each rank for Perfetto, as FANIN_TRACE does", 0},
	{"beside", OPT_BESIDE, "FILE", 0,
	 "lay them over this trace of real ranks, from its first operation on", 0},
	{"quiet", 'q', NULL, 0, "no progress, no table", 0},
	{"layers", OPT_LAYERS, "MODEL", 0, "print the model's layer table as CSV, and end", 0},
	{0},
};

/* "key=a,b,c", cut up where it lies. */
static void add_sweep(struct argp_state *state, struct sim_args *a, char *text)
{
	char *value = strchr(text, '='), *save = NULL;
	if (!value || value == text || !value[1])
		argp_error(state, "--sweep: \"%s\": expected KEY=A,B,C", text);
	assert(value); /* argp_error does not return */
	if (a->sweeps == SIM_SWEEPS_MAX)
		argp_error(state, "--sweep: more than %d keys", SIM_SWEEPS_MAX);
	*value++ = '\0';
	struct sim_sweep_key *k = &a->sweep[a->sweeps++];
	k->key = text;
	for (char *p = strtok_r(value, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (k->values == SIM_VALUES_MAX)
			argp_error(state, "--sweep: more than %d values", SIM_VALUES_MAX);
		k->value[k->values++] = p;
	}
	if (k->values == 0)
		argp_error(state, "--sweep: \"%s\": no values", text);
}

static unsigned number(struct argp_state *state, const char *name, const char *text, unsigned most)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || v < 1 || v > most)
		argp_error(state, "--%s: \"%s\": expected a number from 1 to %u", name, text, most);
	return (unsigned)v;
}

static void check_seed(struct argp_state *state, const char *text)
{
	size_t n = strspn(text, "0123456789");
	if (n == 0 || n > 15 || text[n])
		argp_error(state, "--seed: \"%s\": expected a whole number of at most 15 digits",
			   text);
}

static error_t take(int key, char *arg, struct argp_state *state)
{
	struct sim_args *a = state->input;
	switch (key) {
	case 's':
		check_seed(state, arg);
		a->seed = arg;
		break;
	case 'j': a->jobs = number(state, "jobs", arg, SIM_JOBS_MAX); break;
	case 'q': a->quiet = true; break;
	case OPT_SET:
		if (!strchr(arg, '=') || arg[0] == '=')
			argp_error(state, "--set: \"%s\": expected KEY=VALUE", arg);
		if (a->sets == SIM_SETS_MAX)
			argp_error(state, "--set: more than %d", SIM_SETS_MAX);
		a->set[a->sets++] = arg;
		break;
	case OPT_SWEEP: add_sweep(state, a, arg); break;
	case OPT_VARIANTS: a->variants = arg; break;
	case OPT_PLAN: a->plan = arg; break;
	case OPT_JSON: a->json = arg; break;
	case OPT_REPORT: a->report = arg; break;
	case OPT_TRACE: a->trace = arg; break;
	case OPT_PCAP: a->pcap = arg; break;
	case OPT_CHROME_TRACE: a->chrome_trace = arg; break;
	case OPT_BESIDE: a->beside = arg; break;
	case OPT_LAYERS: a->layers = arg; break;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "expected one scenario, got \"%s\" as well", arg);
		a->file = arg;
		break;
	case ARGP_KEY_END:
		if (!a->file && !a->layers)
			argp_error(state, "expected a scenario: fanin sim SCENARIO.json, or a "
					  "network: fanin sim fat-tree:k=4,workers=16");
		if ((a->sweeps || a->variants) && (a->trace || a->pcap || a->chrome_trace))
			argp_error(
				state,
				"--trace, --pcap and --chrome-trace: of one run, not of several");
		if (a->beside && !a->chrome_trace)
			argp_error(state, "--beside: only with --chrome-trace");
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = take,
	.args_doc = "SCENARIO.json|TOPOLOGY",
	.doc = "Run a scenario in virtual time, with the same protocol objects as the daemons.\v"
	       "doc/sim.md describes scenarios and results.",
};

json_t *sim_load(const char *file, char *why)
{
	json_error_t e;
	FILE *f = fan_file_stream(file, FAN_FILE_INPUT, why, SIM_WHY_BYTES);
	if (!f)
		return NULL;
	json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	fclose(f);
	if (!root)
		snprintf(why, SIM_WHY_BYTES, "%s:%d:%d: %s", file, e.line, e.column, e.text);
	return root;
}

/* Does the file begin as XML does? */
static bool is_xml(const char *file)
{
	FILE *f = fan_file_stream(file, FAN_FILE_INPUT, (char[SIM_WHY_BYTES]){0}, SIM_WHY_BYTES);
	int c = f ? fgetc(f) : EOF;

	while (f && (c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == 0xef || c == 0xbb ||
		     c == 0xbf))
		c = fgetc(f);
	if (f)
		fclose(f);
	return c == '<';
}

/* A scenario; or a network, as fanin plan takes it, for which there is one job of all its workers.
 */
static json_t *load_scenario(const char *file, char *why)
{
	const char *slash = strrchr(file, '/'), *from = slash ? slash + 1 : file;
	bool made = fan_network_is_made(file);
	json_t *root = made || is_xml(file) ? NULL : sim_load(file, why);

	if (!made && !root && *why)
		return NULL;
	if (root && (!json_object_get(root, "nodes") || json_object_get(root, "topology")))
		return root;
	json_decref(root);
	return json_pack("{s:{s:s, s:{}, s:{}, s:{}, s:{}}, s:[{s:s}]}", "topology", "from",
			 made ? file : from, "workers", "switches", "servers", "links", "jobs",
			 "model", "resnet50");
}

static double real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void print_jobs(const json_t *run)
{
	size_t i;
	json_t *job;
	printf("%-20s %-12s %-10s %7s %10s %10s %10s %9s %8s\n", "job", "model", "at", "workers",
	       "jct (s)", "comm (s)", "wait (s)", "Gb/s", "resent");
	json_array_foreach (json_object_get(run, "jobs"), i, job) {
		const char *error = json_string_value(json_object_get(job, "error"));
		printf("%-20s %-12s %-10s %7.0f ", json_string_value(json_object_get(job, "name")),
		       json_string_value(json_object_get(job, "model")),
		       json_string_value(json_object_get(job, "at")), real(job, "workers"));
		if (error)
			printf("%10s ", "-");
		else
			printf("%10.6f ", real(job, "jct_s"));
		printf("%10.6f %10.6f %9.3f %8.0f%s%s\n", real(job, "comm_s"), real(job, "wait_s"),
		       real(job, "throughput_gbps_per_worker"), real(job, "retransmissions"),
		       error ? "  " : "", error ? error : "");
	}
}

/* A row for each group of runs that differ in their seed alone; its mean by the first one's. */
static void print_sweep(const json_t *root)
{
	size_t count = 0;
	struct fan_outcome *g = fan_outcomes_make(root, NULL, fan_outcome_jct, &count);
	printf("%-40s %5s %12s %12s %12s %9s %8s\n", "set", "runs", "avg jct (s)", "least (s)",
	       "most (s)", "by first", "failed");
	for (size_t i = 0; g && i < count; i++) {
		printf("%-40s %5u ", g[i].name, g[i].runs);
		if (g[i].counted)
			printf("%12.6f %12.6f %12.6f ", g[i].mean, g[i].low, g[i].high);
		else
			printf("%12s %12s %12s ", "-", "-", "-");
		if (g[i].counted && g[0].counted)
			printf("%9.3f ", g[i].mean / g[0].mean);
		else
			printf("%9s ", "-");
		printf("%8u", g[i].failed);
		if (g[i].why)
			printf("  %s: %s", g[i].job ? g[i].job : "a job", g[i].why);
		putchar('\n');
	}
	free(g);
}

static int write_json(const char *file, const json_t *result)
{
	size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(15);
	FILE *f = cmd_output("sim", "json", file);
	int bad = !f || json_dumpf(result, f, flags) || fputc('\n', f) == EOF;
	if (f)
		bad |= cmd_output_done(f, "sim", "json", file);
	return bad ? FAILED : 0;
}

static int print_layers(const char *name)
{
	struct fan_model m;
	if (!fan_model_make(&m, name)) {
		fprintf(stderr, "fanin sim: --layers: no model \"%s\"; there are:", name);
		for (unsigned i = 0; fan_model_names[i]; i++)
			fprintf(stderr, " %s", fan_model_names[i]);
		fputc('\n', stderr);
		return WRONG;
	}
	printf("layer,numel,forward_ns,backward_ns\n");
	for (uint32_t i = 0; i < m.layers; i++) {
		const struct fan_layer *l = &m.layer[i];
		printf("%s,%llu,%llu,%llu\n", l->name, (unsigned long long)l->numel,
		       (unsigned long long)l->forward_ns, (unsigned long long)l->backward_ns);
	}
	fan_model_free(&m);
	return 0;
}

/* Did some job of some run fail? */
static bool any_failed(const json_t *result)
{
	size_t i;
	json_t *run;
	bool failed = real(result, "failed_jobs") > 0;
	json_array_foreach (json_object_get(result, "runs"), i, run) {
		failed |= real(run, "failed_jobs") > 0;
	}
	return failed;
}

int cmd_sim(int argc, char **argv)
{
	struct sim_args a = {.jobs = 1};
	char why[SIM_WHY_BYTES] = "";
	bool wrong = true;
	if (args_list_is_wanted(argc, argv)) {
		args_list_argp(options);
		return 0;
	}
	argp_err_exit_status = WRONG;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (a.layers)
		return print_layers(a.layers);
	if (!cmd_can_write("sim", "json", a.json ? a.json : "") ||
	    !cmd_can_write("sim", "report", a.report ? a.report : ""))
		return WRONG;
	errno = 0;
	json_t *root = load_scenario(a.file, why), *result = NULL;
	json_t *plan = root && a.plan ? sim_load(a.plan, why) : NULL;
	bool whole = root && (plan || !a.plan) && sim_variants_read(&a, why) == 0;
	if (plan)
		json_object_set_new(root, "plan", plan);
	if (whole)
		result = sim_sweep(&a, root, &wrong, why);
	json_decref(root);
	json_decref(a.variant);
	if (!result) {
		fprintf(stderr, "fanin sim: %s\n", why);
		return wrong ? WRONG : FAILED;
	}
	int status = any_failed(result) ? FAILED : 0;
	if (!a.quiet && !(a.json && strcmp(a.json, "-") == 0)) {
		if (a.sweeps || a.variants)
			print_sweep(result);
		else
			print_jobs(result);
	}
	if (a.json && write_json(a.json, result))
		status = FAILED;
	if (a.report && fan_page_make("sim", "report", a.report, "sim", result))
		status = FAILED;
	json_decref(result);
	return status;
}
