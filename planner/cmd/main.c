/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - fanin-planner, the optimiser, which needs the solvers.  `fanin plan` and `fanin
 * controller` run `fanin-planner plan --serve` as a child.
 *
 * Each line of standard input is a request, one JSON object, and gets one line of answer:
 *
 *     {"topology"}                            is it one?  {}
 *     {"topology", "plan"}                    the plan as it is, see below
 *     {"topology", "keep", "worth", "look"}   a plan for jobs of which some run, likewise
 *     {"topology", "algorithms", "results", "bound", "from", "plan", "wants_install"}
 *                                             a plan by each: {"plans", "install" or "refused"}
 *
 * "topology" is as plan/topo.h has it, with the load of others as background; "options" may stand
 * beside it: "algorithm", and the table below.  "keep" has "trees" and "assignments" of jobs that
 * run.  These keep servers and shares, and their paths where nothing has failed.  "look" asks for
 * better paths as well, if they give "worth" times the rate.  Jobs without trees are planned beside
 * them.
 *
 * Before the answer {"feasible_gbps", "binding"} to these two, each element of the lists "jobs",
 * "trees" and "assignments" of the plan, and "parts", "workers" and "switches" of the installation
 * has a line of its own, {"more": [LIST, ELEMENT]}: a reader need not stop others for long.
 *
 * "algorithms" are names, or "all" alone; "given" takes "plan" as it is, and the others mend
 * "from", if there is one.  Each of "plans" is as plan/plan_json.h has it, with "installable",
 * "refused", "drawings" and "seconds"; or {"algorithm", "error", "text"}.
 *
 * An error is answered by {"error": TEXT}, and "of_plan": true where it is about a plan. */
#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "core/base/err.h"
#include "plan/algorithm.h"
#include "plan/eval.h"
#include "plan/install.h"
#include "plan/plan_json.h"
#include "plan/steps.h"
#include "plan/topo.h"

struct plan_request {
	const json_t *root;
	const struct fan_algorithm *algorithm; /* of "options" */
	struct fan_plan_options options;
	uint32_t slots; /* of each switch; 0: no quotas */
	struct fan_topo t;
	struct fan_plan p; /* of the request, or being made */
	struct fan_why why;
	bool is_of_plan; /* `why` is about a plan in the request, not the topology */
};

/* ---- a plan by each of several algorithms ---- */

#define ALGORITHMS_MAX 16

/* One algorithm's plan. */
struct result {
	const struct fan_algorithm *algorithm;
	int err; /* of making it; the rest is unset then */
	struct fan_plan plan;
	struct fan_eval eval;
	struct fan_planned how;
	double seconds;
	struct fan_why refused; /* why it cannot be installed; empty: it can be */
};

/* Of a plan in the request, which is taken as it is. */
static const struct fan_algorithm given = {.name = "given"};

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* CPU time: other processes may be busy */
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Can the plan be installed?  If not, u->refused says why. */
static void try_install(const struct fan_topo *t, struct result *u)
{
	struct fan_install in;
	if (fan_install_make(&in, t, &u->plan, 0, &u->refused) == FAN_OK)
		u->refused.text[0] = '\0';
	fan_install_free(&in);
}

/* Read the plan of "from" or "plan", which all algorithms but `given` mend, into `r->p`. */
static int read_plan(struct plan_request *r)
{
	const json_t *plan = json_object_get(r->root, "plan");
	const json_t *from = json_object_get(r->root, "from");
	struct fan_eval e;
	if (!plan && !from)
		return FAN_OK;
	r->is_of_plan = true;
	int err = fan_plan_from_json(&r->p, &r->t, plan ? plan : from, !plan, &r->why);
	if (!err && plan) {
		err = fan_eval(&e, &r->t, &r->p, &r->why);
		fan_eval_free(&e);
	}
	r->is_of_plan = err != FAN_OK;
	return err;
}

/* Make a plan.  `start`: a plan for `best` to start from, or NULL. */
static void make(struct plan_request *r, const struct fan_plan *start, struct result *u)
{
	const bool mends = json_object_get(r->root, "from") && u->algorithm->mend;
	double begin = seconds();
	r->options.start = start;
	if (mends || !u->algorithm->run)
		fan_plan_move(&u->plan, &r->p);
	if (mends)
		u->err = u->algorithm->mend(&r->t, &r->options, &u->plan, &u->how);
	else if (u->algorithm->run)
		u->err = u->algorithm->run(&r->t, &r->options, &u->plan, &u->how);
	u->seconds = seconds() - begin;
	if (!u->err)
		u->err = fan_eval(&u->eval, &r->t, &u->plan, &r->why);
	r->why.text[0] = '\0';
	if (!u->err)
		try_install(&r->t, u);
}

static double find_bound(const struct plan_request *r)
{
	struct fan_cands_options few = {.paths = 1, .sums_max = 0};
	struct fan_cands c;
	double bound = 0;
	if (json_is_true(json_object_get(r->root, "bound")) &&
	    fan_cands_open(&c, &r->t, &few) == FAN_OK) {
		bound = fan_bound(&c, fan_plan_levels(&r->options));
		fan_cands_close(&c);
	}
	return bound;
}

static json_t *result_json(const struct plan_request *r, const struct result *u, double bound)
{
	struct fan_plan_about about = {u->algorithm->name, r->options.seed, bound, u->how.proven};
	if (u->err)
		return json_pack("{ss ss ss}", "algorithm", u->algorithm->name, "error",
				 fan_err_name(u->err), "text",
				 u->err == FAN_E_BUSY ? "this instance is too large for it"
						      : fan_err_text(u->err));
	json_t *o = fan_report_json(&r->t, &u->plan, &u->eval, &about);
	json_object_set_new(o, "installable", json_boolean(!u->refused.text[0]));
	if (u->refused.text[0])
		json_object_set_new(o, "refused", json_string(u->refused.text));
	if (u->how.drawings)
		json_object_set_new(o, "drawings",
				    json_pack("{si sf sf sf}", "count", (int)u->how.drawings,
					      "least_gbps", u->how.least_gbps, "mean_gbps",
					      u->how.mean_gbps, "most_gbps", u->how.most_gbps));
	json_object_set_new(o, "seconds", json_real(u->seconds));
	return o;
}

/* The installation of a plan, or why there is none, as part of the answer. */
static void add_install(const struct plan_request *r, const struct result *u, json_t *answer)
{
	struct fan_install in;
	struct fan_why why = {""};
	if (u->err || !json_is_true(json_object_get(r->root, "wants_install")))
		return;
	int err = fan_install_make(&in, &r->t, &u->plan, r->slots, &why);
	if (err)
		json_object_set_new(answer, "refused",
				    json_string(why.text[0] ? why.text : fan_err_text(err)));
	else
		json_object_set_new(answer, "install", fan_install_json(&in));
	fan_install_free(&in);
}

/* The algorithm of a name, which "from" must be able to mend with. */
static const struct fan_algorithm *named(struct plan_request *r, const json_t *name)
{
	const char *text = json_string_value(name);
	bool is_given = text && strcmp(text, given.name) == 0 && json_object_get(r->root, "plan");
	return is_given ? &given : fan_algorithm_find(text ? text : "", &r->why);
}

static bool is_all(const json_t *names)
{
	const char *name = json_string_value(json_array_get(names, 0));
	return json_array_size(names) == 1 && name && strcmp(name, "all") == 0;
}

/* Make a plan with each of "algorithms", and the installation of the last.  NULL: an error, in
 * `*err` or `r->why`. */
static json_t *plan_by_all(struct plan_request *r, int *err)
{
	const json_t *names = json_object_get(r->root, "algorithms");
	const bool all = is_all(names);
	const size_t count = all ? fan_algorithm_count : json_array_size(names);
	struct result u[ALGORITHMS_MAX];
	const struct fan_plan *start = NULL; /* the plan of exact, as a start for best */
	json_t *plans = json_array(), *answer = json_pack("{so}", "plans", plans);
	memset(u, 0, sizeof u);
	*err = count && count <= ALGORITHMS_MAX && answer ? read_plan(r) : FAN_E_INVALID;
	for (size_t i = 0; i < count && !*err; i++)
		if (!(u[i].algorithm =
			      all ? &fan_algorithms[i] : named(r, json_array_get(names, i))))
			*err = FAN_E_CONFIG;
	double bound = *err ? 0 : find_bound(r);
	for (size_t i = 0; i < count && !*err; i++) {
		make(r, start, &u[i]);
		if (u[i].algorithm->run == fan_exact && !u[i].err)
			start = &u[i].plan;
		json_array_append_new(plans, result_json(r, &u[i], bound));
	}
	if (!*err)
		add_install(r, &u[count - 1], answer);
	for (size_t i = 0; i < count && i < ALGORITHMS_MAX; i++) {
		fan_plan_free(&u[i].plan);
		fan_eval_free(&u[i].eval);
	}
	if (!*err)
		return answer;
	json_decref(answer);
	return NULL;
}

#define LINE_BYTES_MAX (256u << 20)

/* ---- options ---- */

static const char *const readings[] = {"nearest", "rack", "two-level", NULL}; /* fan_sums_at */
static const char *const vertices[] = {"short", "few", NULL};		      /* fan_vertex */
static const char *const roundings[] = {"random", "search", "columns", NULL}; /* fan_rounding */

/* A key: a whole number within bounds, or one of several words, by number. */
struct option {
	const char *key;
	uint32_t *to; /* has the default */
	uint32_t least, most;
	const char *const *words;
};

static int read_option(const json_t *from, const struct option *o, struct fan_why *why)
{
	const json_t *value = json_object_get(from, o->key);
	const char *word = json_string_value(value);
	json_int_t number = json_is_integer(value) && !o->words ? json_integer_value(value) : -1;
	for (uint32_t i = 0; word && o->words && o->words[i]; i++)
		if (strcmp(word, o->words[i]) == 0)
			number = i;
	if (!value)
		return FAN_OK;
	if (number < o->least || number > o->most)
		return o->words ? fan_why_set(why, FAN_E_CONFIG, "options.%s: no such word", o->key)
				: fan_why_set(why, FAN_E_CONFIG,
					      "options.%s: expected a number from %u to %u", o->key,
					      o->least, o->most);
	*o->to = (uint32_t)number;
	return FAN_OK;
}

static int read_options(struct plan_request *r)
{
	const json_t *from = json_object_get(r->root, "options");
	const char *name = json_string_value(json_object_get(from, "algorithm"));
	uint32_t seed = 1, reading = 0, vertex = 0, rounding = 0;
	struct fan_plan_options *o = &r->options;
	const struct option options[] = {
		{"seed", &seed, 0, INT32_MAX, NULL},
		{"roundings", &o->roundings, 1, FAN_ROUNDINGS_MAX, NULL},
		{"trees", &o->trees, 1, FAN_TREES_MAX, NULL},
		{"sums_at", &reading, 0, 2, readings},
		{"vertex", &vertex, 0, 1, vertices},
		{"rounding", &rounding, 0, 2, roundings},
		{"slots", &r->slots, 0, INT32_MAX, NULL},
	};
	int err = FAN_OK;
	*o = fan_plan_defaults;
	for (unsigned i = 0; i < sizeof options / sizeof *options && !err; i++)
		err = read_option(from, &options[i], &r->why);
	o->seed = seed;
	o->sums_at = (enum fan_sums_at)reading;
	o->vertex = (enum fan_vertex)vertex;
	o->rounding = (enum fan_rounding)rounding;
	r->algorithm = fan_algorithm_find(name ? name : "best", &r->why);
	return err || r->algorithm ? err : FAN_E_CONFIG;
}

/* ---- plans for jobs of which some run ---- */

static bool has_trees(const struct fan_plan *p, uint32_t job)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (p->tree[i].job == job)
			return true;
	return false;
}

/* Take the trees of one job from another plan. */
static int take_trees(struct plan_request *r, const struct fan_plan *from, uint32_t job)
{
	for (uint32_t i = 0; i < from->trees; i++) {
		const struct fan_tree *f = &from->tree[i];
		if (f->job == job && !fan_plan_add_like(&r->p, &r->t, f))
			return FAN_E_NOMEM;
	}
	return FAN_OK;
}

/* Plan jobs without trees, beside those that keep theirs. */
static int plan_others(struct plan_request *r)
{
	struct fan_planned how;
	struct fan_plan q;
	int err;
	if (!r->p.trees)
		return r->algorithm->run(&r->t, &r->options, &r->p, &how);
	if (r->algorithm->run == fan_best) {
		err = fan_plan_copy(&q, &r->p);
		err = err ? err : fan_replan(&r->t, &r->options, &q);
	} else {
		err = r->algorithm->run(&r->t, &r->options, &q, &how);
	}
	if (err)
		return err;
	for (uint32_t j = 0; j < r->t.jobs && !err; j++)
		if (!has_trees(&r->p, j))
			err = take_trees(r, &q, j);
	fan_plan_free(&q);
	return err;
}

/* Mend what is kept, and plan the other jobs beside it. */
static int make_plan(struct plan_request *r)
{
	const json_t *worth = json_object_get(r->root, "worth");
	bool look = json_is_true(json_object_get(r->root, "look")), others = false;
	int err = fan_plan_from_json(&r->p, &r->t, json_object_get(r->root, "keep"), true, &r->why);
	r->t.results = true;
	if (!err)
		err = fan_replan_paths(&r->t, &r->options, &r->p,
				       json_is_number(worth) ? json_number_value(worth) : 1, look);
	for (uint32_t i = 0; i < r->t.jobs; i++)
		others |= !err && !has_trees(&r->p, i);
	if (others)
		err = plan_others(r);
	r->t.results = false;
	return err;
}

/* Print each element of these lists of `of` on a line of its own.  Returns 0 or FAN_E_NOMEM. */
static int print_lists(const json_t *of, const char *const *keys)
{
	for (; *keys; keys++) {
		const json_t *list = json_object_get(of, *keys);
		for (size_t i = 0; i < json_array_size(list); i++) {
			json_t *line = json_pack("{s[sO]}", "more", *keys, json_array_get(list, i));
			int err = json_dumpf(line, stdout, JSON_COMPACT);
			json_decref(line);
			if (err || putchar('\n') == EOF)
				return FAN_E_NOMEM;
		}
	}
	return FAN_OK;
}

/* Print the lists of the plan and of its installation.  Returns the end of the answer; NULL with
 * `r->why` or `*err`. */
static json_t *tell(struct plan_request *r, int *err)
{
	static const char *const of_plan[] = {"jobs", "trees", "assignments", NULL};
	static const char *const of_install[] = {"parts", "workers", "switches", NULL};
	const struct fan_plan_about about = {r->algorithm->name, r->options.seed, 0, false};
	struct fan_install in;
	struct fan_eval e;
	json_t *answer = NULL;
	*err = fan_eval(&e, &r->t, &r->p, &r->why);
	if (*err)
		return NULL;
	*err = fan_install_make(&in, &r->t, &r->p, r->slots, &r->why);
	if (!*err) {
		json_t *plan = fan_report_json(&r->t, &r->p, &e, &about);
		json_t *install = fan_install_json(&in);
		*err = print_lists(plan, of_plan);
		*err = *err ? *err : print_lists(install, of_install);
		if (!*err)
			answer = json_pack("{sO sO}", "feasible_gbps",
					   json_object_get(plan, "feasible_gbps"), "binding",
					   json_object_get(plan, "binding"));
		json_decref(plan);
		json_decref(install);
	}
	fan_install_free(&in);
	fan_eval_free(&e);
	return answer;
}

static json_t *answer_plan(struct plan_request *r, int *err)
{
	const json_t *plan = json_object_get(r->root, "plan");
	json_t *answer = NULL;
	if (json_object_get(r->root, "algorithms")) {
		r->t.results = json_is_true(json_object_get(r->root, "results"));
		return plan_by_all(r, err);
	}
	if (!plan && !json_object_get(r->root, "keep"))
		return json_object();
	*err = plan ? fan_plan_from_json(&r->p, &r->t, plan, false, &r->why) : make_plan(r);
	if (!*err)
		answer = tell(r, err);
	return answer;
}

static json_t *answer(struct plan_request *r)
{
	json_t *said = NULL;
	int err = read_options(r);
	if (!err)
		err = fan_topo_from_json(&r->t, json_object_get(r->root, "topology"), &r->why);
	if (!err) {
		r->p = (struct fan_plan){0};
		said = answer_plan(r, &err);
		fan_plan_free(&r->p);
		fan_topo_free(&r->t);
	}
	if (said)
		return said;
	const char *why = r->why.text[0] ? r->why.text : fan_err_text(err ? err : FAN_E_NOMEM);
	said = json_pack("{ss sb}", "error", why, "of_plan", r->is_of_plan);
	return said ? said : json_pack("{ss}", "error", "text that is no UTF-8");
}

/* Answer requests until the input ends.  Returns the exit status. */
static int serve(void)
{
	size_t room = 0;
	char *line = NULL;
	ssize_t bytes;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* of no use without its parent */
	while ((bytes = getline(&line, &room, stdin)) > 0 && bytes < LINE_BYTES_MAX) {
		json_t *root = json_loadb(line, (size_t)bytes, JSON_REJECT_DUPLICATES, NULL);
		struct plan_request r = {.root = root};
		json_t *said = answer(&r);
		bool lost = !said || json_dumpf(said, stdout, JSON_COMPACT) ||
			    putchar('\n') == EOF || fflush(stdout);
		json_decref(said);
		json_decref(root);
		if (lost)
			break;
	}
	free(line);
	return feof(stdin) ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "plan") == 0 && strcmp(argv[2], "--serve") == 0)
		return serve();
	fprintf(stderr, "fanin-planner: a part of fanin: run `fanin plan`\n");
	return 2;
}
