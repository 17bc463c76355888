/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - `fanin sim`: its flags and its output. */
#include "sim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "file/file.h"
#include "file/text.h"
#include "page/page.h"
#include "plan/network.h"
#include "sim/model.h"
#include "sim/outcome.h"

#define FAILED 1
#define WRONG  2

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

#define JSON	  (JSON_INDENT(1) | JSON_REAL_PRECISION(15))
#define AT(field) offsetof(struct flags, field)
static const struct fan_option options[] = {
	{"scenario", 0, ARGS_OPERAND, AT(file), 0, 0, NULL, "SCENARIO.json|TOPOLOGY",
	 "what to run"},
	{"seed", 's', ARGS_TEXT, AT(seed), 0, 0, NULL, "S",
	 "random numbers of the run; instead of the scenario's"},
	{"set", 0, ARGS_MANY, AT(set), 0, SIM_SETS_MAX, NULL, "KEY=VALUE",
	 "change the scenario: jobs.0.window=64, topology.nodes.s0.slots=128, "
	 "topology.links.*.loss=0.01; may be repeated"},
	{"sweep", 0, ARGS_MANY, AT(sweep), 0, SIM_SWEEPS_MAX, NULL, "KEY=A,B,C",
	 "one run for each value; repeated: for each combination"},
	{"variants", 0, ARGS_TEXT, AT(variants), 0, 0, NULL, "FILE",
	 "one run for each named group of settings in FILE, on the same jobs; with --sweep, for "
	 "each combination"},
	{"jobs", 'j', ARGS_NUMBER, AT(jobs), 1, SIM_JOBS_MAX, NULL, "J",
	 "runs of a sweep at a time (1)"},
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

/* Add "key=a,b,c", which is cut up in place. */
static void add_sweep(struct sim_args *a, char *text)
{
	char *value = strchr(text, '='), *save = NULL;
	if (!value || value == text || !value[1])
		args_wrong("sim", "--sweep: \"%s\": expected KEY=A,B,C", text);
	*value++ = '\0';
	struct sim_sweep_key *k = &a->sweep[a->sweeps++];
	k->key = text;
	for (char *p = strtok_r(value, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (k->values == SIM_VALUES_MAX)
			args_wrong("sim", "--sweep: more than %d values", SIM_VALUES_MAX);
		k->value[k->values++] = p;
	}
	if (k->values == 0)
		args_wrong("sim", "--sweep: \"%s\": no values", text);
}

static void check_seed(const char *text)
{
	size_t n = strspn(text, "0123456789");
	if (*text && (n == 0 || n > 15 || text[n]))
		args_wrong("sim", "--seed: \"%s\": expected a whole number of at most 15 digits",
			   text);
}

/* Cut "FILE:NODE" in place.  Returns the node, or NULL. */
static const char *cut_node(char *text)
{
	char *colon = strrchr(text, ':');
	if (!colon || strchr(colon, '/'))
		return NULL;
	if (colon == text || !colon[1])
		args_wrong("sim", "--pcap: \"%s\": expected FILE or FILE:NODE", text);
	*colon = '\0';
	return colon + 1;
}

static const char *given(const char *text)
{
	return *text ? text : NULL;
}

/* Read and check the flags.  Their texts stay in place. */
static struct sim_args read_args(int argc, char **argv)
{
	static struct flags f; /* static, as the lists of repeated flags are never freed */
	f = (struct flags){.jobs = 1};
	args_parse(&command, &f, argc, argv);
	const char *pcap_node = cut_node(f.pcap);
	struct sim_args a = {
		.file = given(f.file),
		.seed = given(f.seed),
		.jobs = (unsigned)f.jobs,
		.plan = given(f.plan),
		.variants = given(f.variants),
		.json = given(f.json),
		.report = given(f.report),
		.trace = given(f.trace),
		.pcap = given(f.pcap),
		.pcap_node = pcap_node,
		.chrome_trace = given(f.chrome_trace),
		.beside = given(f.beside),
		.layers = given(f.layers),
		.calibrate = given(f.calibrate),
		.quiet = f.quiet,
	};
	check_seed(f.seed);
	for (unsigned i = 0; i < f.set.count; i++) {
		char *text = a.set[a.sets++] = f.set.text[i];
		if (!strchr(text, '=') || text[0] == '=')
			args_wrong("sim", "--set: \"%s\": expected KEY=VALUE", text);
	}
	for (unsigned i = 0; i < f.sweep.count; i++)
		add_sweep(&a, f.sweep.text[i]);
	if (!a.file && !a.layers && !a.calibrate)
		args_wrong("sim", "expected a scenario: fanin sim SCENARIO.json, or a network: "
				  "fanin sim fat-tree:k=4,workers=16");
	if ((a.sweeps || a.variants) && (a.trace || a.pcap || a.chrome_trace))
		args_wrong("sim", "--trace, --pcap and --chrome-trace: of one run, not of several");
	if (a.beside && !a.chrome_trace)
		args_wrong("sim", "--beside: only with --chrome-trace");
	return a;
}

json_t *sim_load(const char *file, char *why)
{
	json_error_t e;
	FILE *f = fan_file_stream(file, FAN_FILE_INPUT, why, SIM_WHY_BYTES);
	if (!f)
		return NULL;
	json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &e);
	fclose(f);
	if (!root)
		snprintf(why, SIM_WHY_BYTES, "%s:%d:%d: %s%s", file, e.line, e.column, e.text,
			 strncmp(e.text, "'[' or '{' expected", 19)
				 ? ""
				 : "; scenarios are read as JSON, networks as JSON or GraphML");
	fan_text_plain(why);
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

/* Load a scenario, or a network that fanin plan takes; that gets one job of all its workers. */
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

/* Print a row for each group of runs that differ only in their seed; means relative to the
 * first. */
static void print_sweep(const json_t *root)
{
	size_t count = 0;
	struct fan_outcome *g = fan_outcomes_make(root, &count);
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

static int print_calibrated(const char *file)
{
	char why[SIM_WHY_BYTES] = "";
	json_t *scenario = sim_calibrate(file, why);
	if (!scenario) {
		fprintf(stderr, "fanin sim: --calibrate: %s\n", *why ? why : "out of memory");
		return WRONG;
	}
	return cmd_write_json("sim", "-", scenario, JSON) ? FAILED : 0;
}

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
	struct sim_args a = read_args(argc, argv);
	char why[SIM_WHY_BYTES] = "";
	bool wrong = true;
	if (a.layers)
		return print_layers(a.layers);
	if (a.calibrate)
		return print_calibrated(a.calibrate);
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
	if (a.json && cmd_write_json("sim", a.json, json_incref(result), JSON))
		status = FAILED;
	if (a.report && fan_page_make("sim", "report", a.report, "sim", result))
		status = FAILED;
	json_decref(result);
	return status;
}
