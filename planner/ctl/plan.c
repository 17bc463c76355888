/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - plans: made from the present state, and turned into routes.
 *
 * Planning reads the controller and returns an answer as JSON; taking the answer changes it:
 *
 *     {"jobs": [NAME], "trees", "assignments", "left": [{"job", "why"}]}
 *
 * So planning may run in a copy of the process (`apart` of ctl.h) while the controller serves
 * lines.  If no plan has all jobs, jobs that cannot be planned alone keep what they have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draft.h"
#include "plan/report.h"

#define SAME 0.01 /* share of a rate: smaller changes are not sent to workers */

/* ---- taking a plan ---- */

/* Keep the plan of one job, with its trees numbered from 0. */
static void keep_plan(struct ctl_job *j, const json_t *report)
{
	const json_t *from[2] = {json_object_get(report, "trees"),
				 json_object_get(report, "assignments")};
	json_t *to[2] = {json_array(), json_array()};
	json_int_t base = -1;

	for (unsigned k = 0; k < 2; k++)
		for (size_t i = 0; i < json_array_size(from[k]); i++) {
			json_t *o = json_array_get(from[k], i);
			const char *name = json_string_value(json_object_get(o, "job"));
			json_int_t n = json_integer_value(json_object_get(o, "tree"));
			if (!name || strcmp(name, j->name) != 0)
				continue;
			base = base < 0 ? n : base; /* a job's trees have numbers in a row */
			o = json_copy(o);
			json_object_set_new(o, "tree", json_integer(n - base));
			json_array_append_new(to[k], o);
		}
	json_decref(j->trees);
	json_decref(j->assignments);
	j->trees = to[0];
	j->assignments = to[1];
}

static int new_parts(struct ctl_draft *d, uint32_t jt)
{
	struct ctl_job *j = &d->c->job[d->job_of[jt]];
	bool again = ctl_draft_restores(d, jt);

	ctl_job_unplan(d->c, j, 0);
	j->restores = 0;
	j->part = calloc(FAN_PARTS_MAX, sizeof *j->part);
	if (!j->part)
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < d->in.parts; i++) {
		const struct fan_install_part *p = &d->in.part[i];
		if (p->job != jt)
			continue;
		struct ctl_route *r = ctl_route_new(d->c, again ? j->restore[j->parts] : 0,
						    d->job_of[jt], j->parts, &d->in, p, d->map);
		if (!r)
			return FAN_E_NOMEM;
		if (again)
			memcpy(r->moved, j->rejoined, sizeof r->moved);
		j->part[j->parts++] = (struct ctl_part){
			.from = p->from,
			.to = p->to,
			.share = (double)(p->to - p->from) / (double)(UINT64_C(1) << FAN_CUT_BITS),
			.gbps = p->gbps,
			.server = d->map[p->server],
			.route = r,
		};
	}
	return FAN_OK;
}

/* Keep the job's parts; those whose path changes get a new route. */
static int new_paths(struct ctl_draft *d, uint32_t jt)
{
	struct ctl_job *j = &d->c->job[d->job_of[jt]];
	uint32_t k = 0;

	for (uint32_t i = 0; i < d->in.parts; i++) {
		const struct fan_install_part *p = &d->in.part[i];
		if (p->job != jt)
			continue;
		struct ctl_part *part = &j->part[k++];
		bool other = fabs(part->gbps - p->gbps) > SAME * p->gbps;
		part->gbps = p->gbps;
		if (ctl_route_is(part->route, &d->in, p, d->map) && !part->route->broken) {
			if (other)
				ctl_job_pace(d->c, j, k - 1);
			continue;
		}
		struct ctl_route *r =
			ctl_route_new(d->c, 0, d->job_of[jt], k - 1, &d->in, p, d->map);
		if (!r)
			return FAN_E_NOMEM;
		ctl_note(d->c, "%s/%u: from route %u to %u", j->name, k - 1, part->route->number,
			 r->number);
		if (part->route->state == CTL_INSTALLING)
			ctl_route_leave(d->c, part->route, 0);
		part->route = r;
	}
	return FAN_OK;
}

static void explain(const struct ctl_draft *d, uint32_t jt, struct ctl_job *j)
{
	char binding[2 * FAN_TOPO_NAME_MAX] = "nothing";

	if (d->e.binding != UINT32_MAX)
		fan_resource_text(&d->t, d->e.binding, binding, sizeof binding);
	j->gbps = d->e.job_gbps[jt];
	ctl_print(j->why, sizeof j->why,
		  "%.40s: %.120s; %.4g Gb/s for each worker, bound by %.100s",
		  d->c->given ? "the plan that was given" : d->c->o.algorithm->name, d->c->cause,
		  j->gbps, binding);
}

static void take_job(struct ctl_draft *d, uint32_t jt, const json_t *report)
{
	struct fan_ctl *c = d->c;
	uint32_t job = d->job_of[jt];
	struct ctl_job *j = &c->job[job];
	int err = ctl_draft_fits_parts(d, jt) ? new_paths(d, jt) : new_parts(d, jt);

	if (err) {
		ctl_job_unplan(c, j, 0);
		snprintf(j->why, sizeof j->why, "no memory, or no number, for its routes");
		return;
	}
	keep_plan(j, report);
	explain(d, jt, j);
	for (uint32_t i = 0; i < j->parts; i++)
		ctl_route_push(c, j->part[i].route);
	ctl_job_settle(c, job);
}

static void take(struct ctl_draft *d, const json_t *plan)
{
	ctl_note(d->c, "planned %u jobs on %u nodes, since %s: %.4g Gb/s", d->t.jobs, d->t.nodes,
		 d->c->cause, d->e.gbps);
	for (uint32_t j = 0; j < d->t.jobs; j++)
		take_job(d, j, plan);
}

/* Note why a job cannot be planned.  It keeps what it has, since failed nodes may come back. */
static void leave_out(struct fan_ctl *c, struct ctl_job *j, const char *why)
{
	char text[FAN_WHY_BYTES];

	ctl_print(text, sizeof text, "not planned, since %.80s: %.200s", c->cause, why);
	if (strcmp(text, j->why) != 0)
		ctl_note(c, "%s: %s", j->name, text);
	memcpy(j->why, text, sizeof j->why);
}

/* Take an answer.  On error, with `why`, it does not fit the present state, which has changed
 * since, and nothing was done. */
static int take_answer(struct fan_ctl *c, const json_t *answer, struct fan_why *why)
{
	const json_t *jobs = json_object_get(answer, "jobs");
	const json_t *left = json_object_get(answer, "left");
	bool wanted[FAN_TOPO_JOBS_MAX] = {false};
	struct ctl_draft d;
	int err = FAN_OK;

	if (!json_is_array(jobs) || !json_is_array(left))
		return fan_why_set(why, FAN_E_CONFIG, "no memory for a plan");
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		uint32_t job = ctl_job_named(c, json_string_value(json_array_get(jobs, i)));
		if (job == CTL_NONE)
			return fan_why_set(why, FAN_E_CONFIG, "a job that has ended");
		wanted[job] = true;
	}
	if (json_array_size(jobs)) {
		err = ctl_draft_read(&d, c, wanted, false, answer);
		if (!err)
			take(&d, answer);
		*why = d.why;
		ctl_draft_free(&d);
	}
	for (size_t i = 0; i < json_array_size(left) && !err; i++) {
		const json_t *one = json_array_get(left, i);
		uint32_t job = ctl_job_named(c, json_string_value(json_object_get(one, "job")));
		const char *text = json_string_value(json_object_get(one, "why"));
		if (job != CTL_NONE)
			leave_out(c, &c->job[job], text ? text : "for no reason");
	}
	return err;
}

/* ---- making a plan ---- */

static void put_left(const struct fan_ctl *c, json_t *left, uint32_t job, const struct fan_why *why)
{
	json_array_append_new(left,
			      json_pack("{ss ss}", "job", c->job[job].name, "why", why->text));
}

/* Leave out jobs that cannot be planned even alone. */
static void leave_out_some(struct fan_ctl *c, bool *wanted, json_t *left)
{
	struct ctl_draft d;

	for (uint32_t i = 0; i < c->jobs; i++) {
		bool alone[FAN_TOPO_JOBS_MAX] = {false};
		alone[i] = wanted[i];
		if (!wanted[i])
			continue;
		wanted[i] = ctl_draft_make(&d, c, alone) == FAN_OK;
		if (!wanted[i])
			put_left(c, left, i, &d.why);
		ctl_draft_free(&d);
	}
}

static bool any_of(const struct fan_ctl *c, const bool *wanted)
{
	for (uint32_t i = 0; i < c->jobs; i++)
		if (wanted[i])
			return true;
	return false;
}

static json_t *draft_json(const struct ctl_draft *d)
{
	const struct fan_plan_about about = {.algorithm = d->c->o.algorithm->name,
					     .seed = d->c->o.plan.seed};
	json_t *report = fan_report_json(&d->t, &d->p, &d->e, &about), *jobs = json_array();

	for (uint32_t j = 0; j < d->t.jobs; j++)
		json_array_append_new(jobs, json_string(d->c->job[d->job_of[j]].name));
	json_t *plan =
		json_pack("{so sO sO}", "jobs", jobs, "trees", json_object_get(report, "trees"),
			  "assignments", json_object_get(report, "assignments"));
	json_decref(report);
	return plan;
}

json_t *fan_ctl_draft(struct fan_ctl *c)
{
	bool wanted[FAN_TOPO_JOBS_MAX] = {false};
	json_t *left = json_array(), *answer = NULL;
	struct ctl_draft d;

	for (uint32_t i = 0; i < c->jobs; i++)
		wanted[i] = c->job[i].said;
	for (unsigned round = 0; round < 2 && !answer && any_of(c, wanted); round++) {
		if (ctl_draft_make(&d, c, wanted) == FAN_OK)
			answer = draft_json(&d);
		for (uint32_t i = 0; i < c->jobs && round && !answer; i++)
			if (wanted[i])
				put_left(c, left, i, &d.why);
		ctl_draft_free(&d);
		if (!round && !answer)
			leave_out_some(c, wanted, left);
	}
	if (!answer)
		answer = json_pack("{s[]}", "jobs");
	if (answer)
		json_object_set(answer, "left", left);
	json_decref(left);
	return answer;
}

/* ---- in this process, or in a copy ---- */

static bool is_overtaken(const struct fan_ctl *c)
{
	return c->changes != c->planned_changes;
}

/* Discard a plan in progress, since its answer would be outdated. */
static void give_up(struct fan_ctl *c)
{
	if (c->phase != CTL_DRAFTING)
		return;
	c->phase = CTL_WATCHING;
	c->overtaken++;
	c->o.stop_apart(c->o.ctx);
}

/* Finish a plan: its goal has been reached as far as possible. */
static void finish(struct fan_ctl *c)
{
	if (c->goal != CTL_MEND) {
		c->wanted = c->loaded ? CTL_LOOK : CTL_MEND;
		c->look_ns = c->now_ns + FAN_CTL_LOOK_MS * CTL_MS;
	}
	if (c->loaded)
		ctl_print(c->cause, sizeof c->cause, "loads have changed");
	if (c->wanted == CTL_LOOK && c->look_ns < c->plan_ns)
		c->plan_ns = c->look_ns;
	c->goal = CTL_MEND;
	c->overtaken = 0;
	c->plans++;
}

/* Plan in this process, however long it takes. */
static void plan_here(struct fan_ctl *c)
{
	json_t *answer = fan_ctl_draft(c);
	struct fan_why why = {""};

	if (take_answer(c, answer, &why))
		for (uint32_t i = 0; i < c->jobs; i++)
			if (c->job[i].said)
				leave_out(c, &c->job[i], why.text);
	finish(c);
	json_decref(answer);
}

void ctl_plan(struct fan_ctl *c)
{
	give_up(c);
	c->plan_ns = UINT64_MAX;
	c->planned_changes = c->changes;
	c->loaded = false;
	c->goal = c->wanted == CTL_LOOK && c->now_ns < c->look_ns ? CTL_MEND : c->wanted;
	if (c->o.apart && c->overtaken < FAN_CTL_OVERTAKEN_MAX && c->o.apart(c->o.ctx))
		c->phase = CTL_DRAFTING;
	else
		plan_here(c);
}

void fan_ctl_planned(struct fan_ctl *c, uint64_t now_ns, const json_t *answer)
{
	struct fan_why why = {""};

	c->now_ns = now_ns;
	if (c->phase != CTL_DRAFTING)
		return;
	c->phase = CTL_WATCHING;
	if (is_overtaken(c))
		c->overtaken++;
	else if (take_answer(c, answer, &why))
		plan_here(c); /* a worker got parts meanwhile, or planning was killed */
	else
		finish(c);
}

/* ---- plans from outside ---- */

json_t *ctl_plan_json(const struct fan_ctl *c)
{
	json_t *trees = json_array(), *assignments = json_array();

	for (uint32_t i = 0; i < c->jobs; i++)
		if (c->job[i].said && c->job[i].trees)
			ctl_add_trees(trees, assignments, &c->job[i]);
	return json_pack("{ss so so}", "algorithm", c->given ? "given" : c->o.algorithm->name,
			 "trees", trees, "assignments", assignments);
}

int ctl_plan_take(struct fan_ctl *c, const json_t *plan, struct fan_why *why)
{
	const struct fan_plan_about about = {.algorithm = "given"};
	bool wanted[FAN_TOPO_JOBS_MAX] = {false};
	struct ctl_draft d;

	for (uint32_t i = 0; i < c->jobs; i++)
		wanted[i] = c->job[i].said;
	int err = ctl_draft_read(&d, c, wanted, true, plan);
	json_t *report = err ? NULL : fan_report_json(&d.t, &d.p, &d.e, &about);
	for (uint32_t j = 0; report && j < d.t.jobs; j++)
		keep_plan(&c->job[d.job_of[j]], report);
	json_decref(report);
	*why = d.why;
	ctl_draft_free(&d);
	if (err)
		return err;
	c->given = true;
	ctl_plan_in(c, 0, "a plan was given");
	return FAN_OK;
}
