/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `fanin plan`: plans where gradients are summed, and on which paths. */
#include "plan.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/args.h"
#include "cmd/cmd.h"
#include "core/base/err.h"
#include "page/page.h"
#include "plan/algorithm.h"
#include "plan/install.h"
#include "plan/lp.h"
#include "plan/report.h"
#include "plan/steps.h"
#include "plan/topo_json.h"
#include "plan_load.h"

#define TEXT_BYTES     512
#define ALGORITHMS_MAX 16
#define BEST	       7     /* index in `algorithms` */
#define LINES_MAX      10000 /* assignments; JSON of larger plans is not indented */
#define EXIT_FAILED    1
#define EXIT_BAD       2

struct plan_args {
	int algorithm; /* index; the last one is "all" */
	int seed, paths, roundings, trees, sums_at, vertex, rounding;
	bool no_bound, no_link_limits, gradients_only, serve;
	char json[ARGS_TEXT_BYTES], topology[ARGS_TEXT_BYTES], from[ARGS_TEXT_BYTES];
	char attach[ARGS_TEXT_BYTES];
	char dot[ARGS_TEXT_BYTES], html[ARGS_TEXT_BYTES];
	char plan[ARGS_TEXT_BYTES], install[ARGS_TEXT_BYTES];
	int slots, first_route;
};

#define FAN_X(name, run, mend) #name,
static const char *const algorithms[] = {FAN_ALGORITHMS(FAN_X) "all", NULL};
#undef FAN_X
static const struct fan_algorithm given = {.name = "given"};  /* of a plan by --plan */
static const char *const vertices[] = {"short", "few", NULL}; /* fan_vertex */
static const char *const roundings[] = {"random", "search", "columns", NULL}; /* fan_rounding */
static const char *const readings[] = {"nearest", "rack", "two-level", NULL}; /* fan_sums_at */

#define AT(field) offsetof(struct plan_args, field)
static const struct fan_option options[] = {
	{"algorithm", 'a', ARGS_WORD, AT(algorithm), 0, 0, algorithms, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact, best (the default), or all to compare them"},
	{"seed", 0, ARGS_NUMBER, AT(seed), 0, INT32_MAX, NULL, "N", "of all that is random (1)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, FAN_TREES_MAX, NULL, "N",
	 "trees of a job on one server, and no more than can be installed; 1 as in the papers (64)"},
	{"paths", 0, ARGS_NUMBER, AT(paths), 1, FAN_PATHS_MAX, NULL, "N",
	 "candidate routes between two nodes (8)"},
	{"roundings", 0, ARGS_NUMBER, AT(roundings), 1, FAN_ROUNDINGS_MAX, NULL, "N",
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
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write the plan, or all of them, to FILE as JSON; - for the standard output, without the table"},
	{"install", 0, ARGS_TEXT, AT(install), 0, 0, NULL, "FILE",
	 "write what switches, servers and workers must know of the plan; - as for --json"},
	{"slots", 0, ARGS_NUMBER, AT(slots), 0, INT32_MAX, NULL, "N",
	 "of each switch, which --install shares out by the parts' shares (4096; 0: no quotas)"},
	{"first-route", 0, ARGS_NUMBER, AT(first_route), 1, UINT16_MAX, NULL, "N",
	 "the number of the first route of --install (1)"},
	{"dot", 0, ARGS_TEXT, AT(dot), 0, 0, NULL, "FILE", "draw the plan for graphviz"},
	{"html", 0, ARGS_TEXT, AT(html), 0, 0, NULL, "FILE", "draw the plan as a page with an SVG"},
	{"topology", 0, ARGS_TEXT, AT(topology), 0, 0, NULL, "FILE",
	 "write the topology to FILE, which is useful when it was made from numbers"},
	{"serve", 0, ARGS_FLAG, AT(serve), 0, 0, NULL, NULL,
	 "answer fanin controller's requests, lines of JSON on the standard input"},
};

static const struct args_command command = {
	"plan",
	"Plan where gradients are summed, by which routes they travel and how models are "
	"split over servers.  The topology comes first: TOPOLOGY.json, or one made from numbers, "
	"as fat-tree:k=8,workers=100,servers=1,programmable=0.2,seed=1 (or star, triangle, "
	"leaf-spine, dragonfly, rails).",
	options,
	sizeof options / sizeof options[0],
	NULL,
	NULL,
	NULL,
};

/* ---- input ---- */

/* Load the plan of --from or --plan, if there is one.  Returns 0, or the exit status. */
static int load_plan(struct fan_plan *old, const struct fan_topo *t, const struct plan_args *a,
		     struct fan_why *why)
{
	const char *from = a->plan[0] ? a->plan : a->from;
	struct fan_eval e;

	fan_plan_init(old);
	if (!from[0])
		return 0;
	const struct fan_algorithm *mends = fan_algorithm_find(algorithms[a->algorithm]);
	if ((a->plan[0] && (a->algorithm != BEST || a->from[0])) || !mends || !mends->mend) {
		fprintf(stderr, a->plan[0]
					? "fanin plan: --plan: there is no other plan to be made\n"
					: "fanin plan: --from: only best, grid and inart mend "
					  "a plan\n");
		return EXIT_BAD;
	}
	json_t *root = plan_read_json(from, why);
	int err = root ? fan_plan_from_json(old, t, root, !a->plan[0], why) : FAN_E_CONFIG;
	if (!err && a->plan[0]) {
		err = fan_eval(&e, t, old, why);
		fan_eval_free(&e);
	}
	if (err)
		fprintf(stderr, "%s: %s\n", from, why->text[0] ? why->text : fan_err_text(err));
	json_decref(root);
	return err ? EXIT_BAD : 0;
}

/* ---- plans ---- */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* CPU time: other processes may be busy */
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Can the plan be installed?  If not, r->refused says why. */
static void try_install(const struct fan_topo *t, struct plan_result *r)
{
	const struct fan_install_options o = {.first = 1};
	struct fan_install in;

	if (fan_install_make(&in, t, &r->plan, &o, &r->refused) == FAN_OK)
		r->refused.text[0] = '\0';
	fan_install_free(&in);
}

static struct fan_plan_options options_of(const struct plan_args *a)
{
	return (struct fan_plan_options){
		.seed = (uint64_t)a->seed,
		.paths = (uint32_t)a->paths,
		.roundings = (uint32_t)a->roundings,
		.trees = (uint32_t)a->trees,
		.nodes = fan_plan_defaults.nodes,
		.choices = fan_plan_defaults.choices,
		.sums_at = (enum fan_sums_at)a->sums_at,
		.vertex = (enum fan_vertex)a->vertex,
		.rounding = (enum fan_rounding)a->rounding,
	};
}

/* Make a plan.  `old`: the plan to mend (--from) or use (--plan), which is consumed; otherwise
 * empty.  `start`: a plan for `best` to start from, or NULL. */
static void make_plan(const struct fan_topo *t, const struct plan_args *a,
		      const struct fan_plan *start, struct fan_plan *old, struct plan_result *r)
{
	struct fan_plan_options o = options_of(a);
	struct fan_why why;

	o.start = start;
	fan_plan_move(&r->plan, old);
	double begin = seconds();
	if (a->from[0])
		r->err = r->algorithm->mend(t, &o, &r->plan, &r->how);
	else if (!a->plan[0])
		r->err = r->algorithm->run(t, &o, &r->plan, &r->how);
	r->seconds = seconds() - begin;
	if (!r->err)
		r->err = fan_eval(&r->eval, t, &r->plan, &why);
	if (!r->err)
		try_install(t, r);
}

static double find_bound(const struct fan_topo *t, bool levels)
{
	struct fan_cands_options few = {.paths = 1, .sums_max = 0};
	struct fan_cands c;
	double bound = 0;

	if (fan_cands_open(&c, t, &few) == FAN_OK) {
		bound = fan_bound(&c, levels);
		fan_cands_close(&c);
	}
	return bound;
}

/* Close `f` if it is open.  `bad`: writing has failed.  Returns the exit status. */
static int end_file(FILE *f, bool bad, const char *path, const char *flag)
{
	int lost = f ? cmd_output_done(f, "plan", flag, path) : -1;

	if (bad && !lost)
		fprintf(stderr, "fanin plan: --%s: %s: no memory\n", flag, path);
	return bad || lost ? EXIT_FAILED : 0;
}

static int write_json(const char *path, json_t *root, const char *flag)
{
	size_t dense = json_array_size(json_object_get(root, "assignments")) > LINES_MAX
			       ? JSON_COMPACT
			       : JSON_INDENT(2);
	FILE *f = cmd_output("plan", flag, path);
	bool bad = f && (!root || json_dumpf(root, f, dense) || fputc('\n', f) == EOF);

	json_decref(root);
	return end_file(f, bad, path, flag);
}

static json_t *result_json(const struct fan_topo *t, const struct plan_args *a,
			   const struct plan_result *r)
{
	struct fan_plan_about about = {r->algorithm->name, (uint64_t)a->seed, r->bound_gbps,
				       r->how.proven};

	if (r->err)
		return json_pack("{ss ss}", "algorithm", r->algorithm->name, "error",
				 fan_err_name(r->err));
	json_t *o = fan_report_json(t, &r->plan, &r->eval, &about);
	json_object_set_new(o, "installable", json_boolean(!r->refused.text[0]));
	if (r->refused.text[0])
		json_object_set_new(o, "refused", json_string(r->refused.text));
	if (r->how.drawings)
		json_object_set_new(o, "drawings",
				    json_pack("{si sf sf sf}", "count", (int)r->how.drawings,
					      "least_gbps", r->how.least_gbps, "mean_gbps",
					      r->how.mean_gbps, "most_gbps", r->how.most_gbps));
	return o;
}

/* Do --dot and --html for the last plan. */
static int draw(const struct fan_topo *t, const char *from, const struct plan_args *a,
		const struct plan_result *r)
{
	char sub[TEXT_BYTES];

	if (!a->dot[0] && !a->html[0])
		return 0;
	snprintf(sub, sizeof sub, "fanin plan %s, seed %d", from, a->seed);
	json_t *shown = json_pack("{ss so so}", "sub", sub, "topology", fan_topo_to_json(t), "plan",
				  result_json(t, a, r));
	int bad = a->dot[0] && fan_page_make("plan", "dot", a->dot, "dot", shown);
	if (!bad && a->html[0])
		bad = fan_page_make("plan", "html", a->html, "plan", shown);
	json_decref(shown);
	return bad ? EXIT_FAILED : 0;
}

/* Check that every job gets a rate, and at least what it demands. */
static int check_demands(const struct fan_topo *t, const char *from, const struct plan_result *r)
{
	char name[TEXT_BYTES] = "nothing";

	if (r->eval.binding != UINT32_MAX)
		fan_resource_text(t, r->eval.binding, name, sizeof name);
	if (!(r->eval.gbps > 0)) {
		fprintf(stderr, "%s: infeasible: %s has nothing left for %s's plan\n", from, name,
			r->algorithm->name);
		return EXIT_BAD;
	}
	for (uint32_t j = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		if (r->eval.job_gbps[j] >= job->demand_gbps)
			continue;
		fprintf(stderr,
			"%s: jobs[%u].demand_gbps: infeasible: job \"%s\" asks for %g Gb/s, and %s "
			"gives it %g, for %s is full",
			from, j, job->name, job->demand_gbps, r->algorithm->name,
			r->eval.job_gbps[j], name);
		if (r->bound_gbps > 0 && r->bound_gbps * job->weight < job->demand_gbps)
			fprintf(stderr, "; beside the others no plan gives it more than %g",
				r->bound_gbps * job->weight);
		fprintf(stderr, "\n");
		return EXIT_BAD;
	}
	return 0;
}

static int tell(const struct fan_topo *t, const char *from, const struct plan_args *a,
		struct plan_result *r, unsigned count)
{
	bool all = count > 1;
	json_t *list = json_array();
	int status = 0;

	for (unsigned i = 0; i < count && a->json[0]; i++)
		json_array_append_new(list, result_json(t, a, &r[i]));
	if (strcmp(a->json, "-") == 0 || strcmp(a->install, "-") == 0) {
		/* no table */
	} else if (all) {
		plan_print_all(r, count);
	} else if (!r->err) {
		plan_print(t, r);
	}
	fflush(stdout);
	if (!all && r->err) {
		fprintf(stderr, "%s: %s: %s\n", from, r->algorithm->name,
			r->err == FAN_E_BUSY ? "this instance is too large for it"
					     : fan_err_text(r->err));
		status = EXIT_FAILED;
	}
	if (a->json[0] && !status)
		status = write_json(a->json,
				    all ? json_pack("{sO}", "plans", list)
					: json_incref(json_array_get(list, 0)),
				    "json");
	json_decref(list);
	return status		  ? status
	       : r[count - 1].err ? EXIT_FAILED
				  : check_demands(t, from, &r[count - 1]);
}

/* Do --install for the last plan. */
static int install(const struct fan_topo *t, const char *from, const struct plan_args *a,
		   const struct plan_result *r)
{
	const struct fan_install_options o = {
		.first = (uint16_t)a->first_route,
		.slots = (uint32_t)a->slots,
	};
	struct fan_install in;
	struct fan_why why;

	if (!a->install[0])
		return 0;
	int err = fan_install_make(&in, t, &r->plan, &o, &why);
	if (err) {
		fprintf(stderr, "%s: --install: %s\n", a->plan[0] ? a->plan : from,
			why.text[0] ? why.text : fan_err_text(err));
		return EXIT_BAD;
	}
	int status = write_json(a->install, fan_install_json(&in), "install");
	fan_install_free(&in);
	return status;
}

static int run(const struct fan_topo *t, const char *from, const struct plan_args *a,
	       struct fan_plan *old)
{
	struct plan_result r[ALGORITHMS_MAX];
	bool all = strcmp(algorithms[a->algorithm], "all") == 0;
	unsigned count = all ? fan_algorithm_count : 1;
	double bound = a->no_bound ? 0 : find_bound(t, a->sums_at == FAN_SUMS_TWO_LEVELS);
	const struct fan_plan *start = NULL; /* the plan of exact, as a start for best */

	memset(r, 0, sizeof r);
	for (unsigned i = 0; i < count; i++) {
		r[i].algorithm = all	      ? &fan_algorithms[i]
				 : a->plan[0] ? &given
					      : fan_algorithm_find(algorithms[a->algorithm]);
		r[i].bound_gbps = bound;
		make_plan(t, a, start, old, &r[i]);
		if (r[i].algorithm->run == fan_exact && !r[i].err)
			start = &r[i].plan;
	}
	int status = tell(t, from, a, r, count);
	if (!status)
		status = draw(t, from, a, &r[count - 1]);
	if (!status)
		status = install(t, from, a, &r[count - 1]);
	for (unsigned i = 0; i < count; i++) {
		fan_plan_free(&r[i].plan);
		fan_eval_free(&r[i].eval);
	}
	return status;
}

static int serve(const struct plan_args *a)
{
	const struct fan_algorithm *algorithm = fan_algorithm_find(algorithms[a->algorithm]);
	const struct fan_plan_options o = options_of(a);

	if (algorithm)
		return plan_serve(algorithm, &o);
	fprintf(stderr, "fanin plan: --serve: expected one --algorithm\n");
	return EXIT_BAD;
}

int cmd_plan(int argc, char **argv)
{
	struct plan_args a = {
		.algorithm = BEST,
		.seed = (int)fan_plan_defaults.seed,
		.paths = (int)fan_plan_defaults.paths,
		.roundings = (int)fan_plan_defaults.roundings,
		.trees = (int)fan_plan_defaults.trees,
		.first_route = 1,
		.slots = 4096, /* the default of `fanin switch` */
	};
	struct fan_why why = {""};
	struct fan_topo t;
	struct fan_plan old;
	struct fan_attach attach;
	const char *from = plan_take_topology(&command, &argc, argv);

	args_parse(&command, &a, argc, argv);
	if (a.serve)
		return serve(&a);
	if (!from) {
		fprintf(stderr, "fanin plan: expected TOPOLOGY.json, or a topology to make\n"
				"Try `fanin plan --help`.\n");
		return EXIT_BAD;
	}
	if (!cmd_can_write("plan", "json", a.json) || !cmd_can_write("plan", "install", a.install))
		return EXIT_BAD;
	if (a.attach[0] && fan_attach_parse(&attach, a.attach, &why)) {
		fprintf(stderr, "fanin plan: --attach: %s\n", why.text);
		return EXIT_BAD;
	}
	int err = plan_load(&t, from, a.attach[0] ? &attach : NULL, &why);
	if (err) {
		fprintf(stderr, "%s: %s\n", from, why.text[0] ? why.text : fan_err_text(err));
		return EXIT_BAD;
	}
	if (a.no_link_limits)
		fan_topo_lift_limits(&t);
	t.results = !a.gradients_only;
	int status = load_plan(&old, &t, &a, &why);
	if (!status && a.topology[0])
		status = write_json(a.topology, fan_topo_to_json(&t), "topology");
	if (!status)
		status = run(&t, from, &a, &old);
	fan_plan_free(&old);
	fan_topo_free(&t);
	return status;
}
