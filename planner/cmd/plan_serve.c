/* SPDX-License-Identifier: Apache-2.0 */
/* plan_serve.c - `fanin plan --serve`: plans for `fanin controller`, which is its parent.
 *
 * Each line of standard input is a request, one JSON object, and gets one line of answer:
 *
 *     {"network": FROM}         a network's file, or its description: {"topology"}
 *     {"topology"}              the same with all defaults filled in: {"topology"}
 *     {"topology", "plan", "slots"}                   the plan as it is: {"plan", "install"}
 *     {"topology", "keep", "worth", "look", "slots"}  a plan for jobs of which some run
 *
 * "topology" is what is there, with the load of others as background; "keep" has "trees" and
 * "assignments" of jobs that run.  These keep servers and shares, and their paths where nothing
 * has failed.  "look" asks for better paths as well, if they give "worth" times the rate.  Jobs
 * without trees are planned beside them.  An error is answered by {"error": TEXT}. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/base/err.h"
#include "plan.h"
#include "plan/install.h"
#include "plan/report.h"
#include "plan/topo_json.h"
#include "plan_load.h"

#define LINE_BYTES_MAX (256u << 20)

/* A request for a plan. */
struct request {
	const json_t *root;
	const struct fan_algorithm *algorithm;
	const struct fan_plan_options *options;
	struct fan_topo t;
	struct fan_plan p;
	struct fan_why why;
};

static bool has_trees(const struct fan_plan *p, uint32_t job)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (p->tree[i].job == job)
			return true;
	return false;
}

/* Take the trees of one job from another plan. */
static int take_trees(struct request *r, const struct fan_plan *from, uint32_t job)
{
	for (uint32_t i = 0; i < from->trees; i++) {
		const struct fan_tree *f = &from->tree[i];
		if (f->job == job && !fan_plan_add_like(&r->p, &r->t, f))
			return FAN_E_NOMEM;
	}
	return FAN_OK;
}

/* Plan jobs without trees, beside those that keep theirs. */
static int plan_others(struct request *r)
{
	struct fan_planned how;
	struct fan_plan q;
	int err;

	if (!r->p.trees)
		return r->algorithm->run(&r->t, r->options, &r->p, &how);
	if (r->algorithm->run == fan_best) {
		err = fan_plan_copy(&q, &r->p);
		err = err ? err : fan_replan(&r->t, r->options, &q);
	} else {
		err = r->algorithm->run(&r->t, r->options, &q, &how);
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
static int make_plan(struct request *r)
{
	const json_t *worth = json_object_get(r->root, "worth");
	bool look = json_is_true(json_object_get(r->root, "look")), others = false;
	int err = fan_plan_from_json(&r->p, &r->t, json_object_get(r->root, "keep"), true, &r->why);

	r->t.results = true;
	if (!err)
		err = fan_replan_paths(&r->t, r->options, &r->p,
				       json_is_number(worth) ? json_number_value(worth) : 1, look);
	for (uint32_t i = 0; i < r->t.jobs; i++)
		others |= !err && !has_trees(&r->p, i);
	if (others)
		err = plan_others(r);
	r->t.results = false;
	return err;
}

/* The plan and its installation, as an answer; NULL with `r->why` or `*err`. */
static json_t *tell(struct request *r, int *err)
{
	const json_int_t slots = json_integer_value(json_object_get(r->root, "slots"));
	const struct fan_install_options o = {
		.first = 1, .slots = slots > 0 && slots <= UINT32_MAX ? (uint32_t)slots : 0};
	const struct fan_plan_about about = {r->algorithm->name, r->options->seed, 0, false};
	struct fan_install in;
	struct fan_eval e;
	json_t *answer = NULL;

	*err = fan_eval(&e, &r->t, &r->p, &r->why);
	if (*err)
		return NULL;
	*err = fan_install_make(&in, &r->t, &r->p, &o, &r->why);
	if (!*err)
		answer = json_pack("{so so}", "plan", fan_report_json(&r->t, &r->p, &e, &about),
				   "install", fan_install_json(&in));
	fan_install_free(&in);
	fan_eval_free(&e);
	return answer;
}

static json_t *answer_plan(struct request *r, int *err)
{
	const json_t *plan = json_object_get(r->root, "plan");
	json_t *answer = NULL;

	if (!plan && !json_object_get(r->root, "keep"))
		return json_pack("{so}", "topology", fan_topo_to_json(&r->t));
	fan_plan_init(&r->p);
	*err = plan ? fan_plan_from_json(&r->p, &r->t, plan, false, &r->why) : make_plan(r);
	if (!*err)
		answer = tell(r, err);
	fan_plan_free(&r->p);
	return answer;
}

static json_t *answer(struct request *r)
{
	const char *from = json_string_value(json_object_get(r->root, "network"));
	json_t *said = NULL;
	int err = from ? plan_load(&r->t, from, NULL, &r->why)
		       : fan_topo_from_json(&r->t, json_object_get(r->root, "topology"), &r->why);

	if (!err) {
		said = answer_plan(r, &err);
		fan_topo_free(&r->t);
	}
	if (said)
		return said;
	const char *why = r->why.text[0] ? r->why.text : fan_err_text(err ? err : FAN_E_NOMEM);
	said = json_pack("{ss}", "error", why);
	return said ? said : json_pack("{ss}", "error", "text that is no UTF-8");
}

int plan_serve(const struct fan_algorithm *algorithm, const struct fan_plan_options *options)
{
	size_t room = 0;
	char *line = NULL;
	ssize_t bytes;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* of no use without its controller */
	while ((bytes = getline(&line, &room, stdin)) > 0 && bytes < LINE_BYTES_MAX) {
		struct request r = {.algorithm = algorithm, .options = options};
		json_t *root = json_loadb(line, (size_t)bytes, JSON_REJECT_DUPLICATES, NULL);
		r.root = root;
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
