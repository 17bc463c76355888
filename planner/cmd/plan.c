/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - a plan by each of several algorithms, for `fanin plan`. */
#include "plan.h"

#include <string.h>
#include <time.h>

#include "core/base/err.h"
#include "plan/eval.h"
#include "plan/report.h"
#include "plan/steps.h"

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
	const struct fan_install_options o = {.first = 1};
	struct fan_install in;

	if (fan_install_make(&in, t, &u->plan, &o, &u->refused) == FAN_OK)
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
	int err = fan_install_make(&in, &r->t, &u->plan, &r->install, &why);
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
	const struct fan_algorithm *found = is_given ? &given
					    : text   ? fan_algorithm_find(text)
						     : NULL;

	if (!found)
		fan_algorithm_unknown(&r->why, text ? text : "");
	return found;
}

static bool is_all(const json_t *names)
{
	const char *name = json_string_value(json_array_get(names, 0));

	return json_array_size(names) == 1 && name && strcmp(name, "all") == 0;
}

json_t *plan_by_all(struct plan_request *r, int *err)
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
