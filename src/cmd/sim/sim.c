/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `fanin sim`: flags, and what is written. */
#include "sim.h"

#include <argp.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/args_list.h"
#include "cmd/cmd.h"
#include "sim/model.h"
#include "sim/report.h"

#define FAILED 1
#define WRONG  2

enum long_option {
	OPT_SET = 256,
	OPT_SWEEP,
	OPT_JSON,
	OPT_REPORT,
	OPT_TRACE,
	OPT_PCAP,
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
	{"jobs", 'j', "J", 0, "runs of a sweep at a time (1)", 0},
	{"plan", OPT_PLAN, "FILE", 0,
	 "jobs follow this plan, as fanin plan --install has written it", 0},
	{"json", OPT_JSON, "FILE", 0, "write the result as JSON; - for standard output", 0},
	{"report", OPT_REPORT, "FILE", 0, "write the result as a page with plots", 0},
	{"trace", OPT_TRACE, "FILE", 0, "write a line for each packet", 0},
	{"pcap", OPT_PCAP, "FILE", 0, "write each packet for Wireshark", 0},
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
	case OPT_PLAN: a->plan = arg; break;
	case OPT_JSON: a->json = arg; break;
	case OPT_REPORT: a->report = arg; break;
	case OPT_TRACE: a->trace = arg; break;
	case OPT_PCAP: a->pcap = arg; break;
	case OPT_LAYERS: a->layers = arg; break;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "expected one scenario, got \"%s\" as well", arg);
		a->file = arg;
		break;
	case ARGP_KEY_END:
		if (!a->file && !a->layers)
			argp_error(state, "expected a scenario: fanin sim SCENARIO.json");
		if (a->sweeps && (a->trace || a->pcap))
			argp_error(state, "--trace and --pcap: of one run, not of a sweep");
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = take,
	.args_doc = "SCENARIO.json",
	.doc = "Run a scenario in virtual time, with the same protocol objects as the daemons.\v"
	       "doc/sim.md describes scenarios and results.",
};

static json_t *load(const char *file, char *why)
{
	json_error_t e;
	json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &e);
	if (root)
		return root;
	if (e.line > 0)
		snprintf(why, SIM_WHY_BYTES, "%s:%d:%d: %s", file, e.line, e.column, e.text);
	else
		snprintf(why, SIM_WHY_BYTES, "%s: %s", file, strerror(errno ? errno : EIO));
	return NULL;
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

static void print_sweep(const json_t *root)
{
	size_t i;
	json_t *run, *value;
	const char *key;
	printf("%-40s %12s %12s %12s %8s\n", "set", "avg jct (s)", "p99 jct (s)", "end (s)",
	       "failed");
	json_array_foreach (json_object_get(root, "runs"), i, run) {
		char text[256] = "";
		json_object_foreach (json_object_get(run, "set"), key, value) {
			char *v = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
			size_t n = strlen(text);
			snprintf(text + n, sizeof text - n, "%s%s=%s", n ? " " : "", key,
				 v ? v : "");
			free(v);
		}
		printf("%-40s %12.6f %12.6f %12.6f %8.0f\n", text, real(run, "avg_jct_s"),
		       real(run, "p99_jct_s"), real(run, "end_s"), real(run, "failed_jobs"));
	}
}

static int write_json(const char *file, const json_t *result)
{
	size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(15);
	bool out = strcmp(file, "-") == 0;
	FILE *f = out ? stdout : fopen(file, "w");
	int bad = !f || json_dumpf(result, f, flags) || fputc('\n', f) == EOF;
	if (f && !out)
		bad |= fclose(f) != 0;
	if (bad)
		fprintf(stderr, "fanin sim: %s: %s\n", file, strerror(errno));
	return bad ? FAILED : 0;
}

static int write_report(const char *file, const json_t *result)
{
	FILE *f = fopen(file, "w");
	int bad = !f || fan_report_write(f, result);
	if (f)
		bad |= fclose(f) != 0;
	if (bad)
		fprintf(stderr, "fanin sim: %s: %s\n", file, strerror(errno));
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
	errno = 0;
	json_t *root = load(a.file, why), *result = NULL;
	json_t *plan = root && a.plan ? load(a.plan, why) : NULL;
	bool whole = root && (plan || !a.plan);
	if (plan)
		json_object_set_new(root, "plan", plan);
	if (whole)
		result = sim_sweep(&a, root, &wrong, why);
	json_decref(root);
	if (!result) {
		fprintf(stderr, "fanin sim: %s\n", why);
		return wrong ? WRONG : FAILED;
	}
	int status = any_failed(result) ? FAILED : 0;
	if (!a.quiet && !(a.json && strcmp(a.json, "-") == 0)) {
		if (a.sweeps)
			print_sweep(result);
		else
			print_jobs(result);
	}
	if (a.json && write_json(a.json, result))
		status = FAILED;
	if (a.report && write_report(a.report, result))
		status = FAILED;
	json_decref(result);
	return status;
}
