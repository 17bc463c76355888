/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - from what is there to routes.
 *
 * A draft is a plan for some of the jobs on the nodes that are up.  If there is none for all jobs,
 * those that fail alone are left out, and keep what they have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_priv.h"
#include "plan/plan_json.h"
#include "plan/replan.h"
#include "plan/report.h"
#include "plan/topo_json.h"

#define WORTH 1.1 /* so much more rate is worth moving what could stay */

struct draft {
	struct fan_ctl *c;
	const bool *wanted; /* by job */
	bool all_up;	    /* as if all nodes and links were there, and nobody used them */
	struct fan_topo t;
	uint32_t *map;	  /* the topology's nodes to ours */
	uint32_t *job_of; /* the same for jobs */
	struct fan_plan p;
	struct fan_eval e;
	struct fan_install in;
	struct fan_why why;
};

/* ---- the topology as it is ----------------------------------------------------------------- */

static bool is_up(const struct draft *d, uint32_t node)
{
	return d->all_up || d->c->node[node].state == CTL_UP;
}

static json_t *nodes_json(const struct draft *d)
{
	const json_t *nodes = json_object_get(d->c->root, "nodes");
	json_t *list = json_array();

	for (uint32_t i = 0, k = 0; i < d->c->nodes; i++)
		if (is_up(d, i)) {
			double load_gbps = d->all_up ? 0 : d->c->node[i].load_gbps;
			json_array_append_new(
				list, ctl_load_on(json_array_get(nodes, i), load_gbps));
			d->map[k++] = i;
		}
	return list;
}

static bool end_is_up(const struct draft *d, const json_t *link, const char *key)
{
	uint32_t node = ctl_node_named(d->c, json_string_value(json_object_get(link, key)));

	return node != CTL_NONE && is_up(d, node);
}

static json_t *links_json(const struct draft *d)
{
	const json_t *links = json_object_get(d->c->root, "links");
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(links); i++) {
		json_t *link = json_array_get(links, i);
		const struct ctl_link *l = &d->c->link[i];
		if (d->all_up)
			json_array_append(list, link);
		else if (!l->down && end_is_up(d, link, "a") && end_is_up(d, link, "b"))
			json_array_append_new(list, ctl_load_on(link, l->load_gbps));
	}
	return list;
}

static int add_job(struct draft *d, json_t *list, uint32_t job)
{
	const struct ctl_job *j = &d->c->job[job];
	json_t *said = json_copy(j->said), *servers = json_array();

	for (uint32_t i = 0; i < j->servers; i++)
		if (is_up(d, j->server[i]))
			json_array_append_new(servers, json_string(d->c->node[j->server[i]].name));
	bool any = json_array_size(servers) > 0;
	json_object_set_new(said, "servers", servers);
	d->job_of[json_array_size(list)] = job;
	json_array_append_new(list, said);
	return any ? FAN_OK
		   : fan_why_set(&d->why, FAN_E_CONFIG, "none of its %u servers is there",
				 j->servers);
}

static int make_topo(struct draft *d)
{
	json_t *jobs = json_array();
	int err = FAN_OK;

	d->map = calloc(d->c->nodes + 1, sizeof *d->map);
	d->job_of = calloc(d->c->jobs + 1, sizeof *d->job_of);
	if (!d->map || !d->job_of)
		err = FAN_E_NOMEM;
	for (uint32_t i = 0; i < d->c->jobs && !err; i++)
		if (d->wanted[i])
			err = add_job(d, jobs, i);
	json_t *root = err ? NULL
			   : json_pack("{so so sO}", "nodes", nodes_json(d), "links", links_json(d),
				       "jobs", jobs);
	if (!err)
		err = root ? fan_topo_from_json(&d->t, root, &d->why) : FAN_E_NOMEM;
	json_decref(root);
	json_decref(jobs);
	return err;
}

/* ---- the plan ------------------------------------------------------------------------------ */

/* Append a job's trees to those of a plan, numbered on. */
static void add_trees(json_t *trees, json_t *assignments, const struct ctl_job *j)
{
	json_int_t base = (json_int_t)json_array_size(trees);
	json_t *const from[2] = {j->trees, j->assignments}, *const to[2] = {trees, assignments};

	for (unsigned k = 0; k < 2; k++)
		for (size_t i = 0; i < json_array_size(from[k]); i++) {
			json_t *o = json_copy(json_array_get(from[k], i));
			json_int_t n = json_integer_value(json_object_get(o, "tree"));
			json_object_set_new(o, "tree", json_integer(base + n));
			json_array_append_new(to[k], o);
		}
}

/* Is the job's plan to be kept, but for what is gone? */
static bool keeps(const struct fan_ctl *c, const struct ctl_job *j)
{
	return j->trees && (j->bound || c->given);
}

static int load_kept(struct draft *d)
{
	json_t *trees = json_array(), *assignments = json_array();

	for (uint32_t i = 0; i < d->t.jobs; i++)
		if (keeps(d->c, &d->c->job[d->job_of[i]]))
			add_trees(trees, assignments, &d->c->job[d->job_of[i]]);
	json_t *root = json_pack("{so so}", "trees", trees, "assignments", assignments);
	int err = root ? fan_plan_from_json(&d->p, &d->t, root, true, &d->why) : FAN_E_NOMEM;
	json_decref(root);
	return err;
}

static bool has_trees(const struct fan_plan *p, uint32_t job)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (p->tree[i].job == job)
			return true;
	return false;
}

/* Trees of one job, from another plan. */
static int take_trees(struct draft *d, const struct fan_plan *from, uint32_t job)
{
	for (uint32_t i = 0; i < from->trees; i++) {
		const struct fan_tree *f = &from->tree[i];
		if (f->job != job)
			continue;
		struct fan_tree *to = fan_plan_add(&d->p, &d->t, job, f->server, f->share);
		if (!to)
			return FAN_E_NOMEM;
		to->sums = f->sums;
		memcpy(to->flow, f->flow, 2 * (size_t)f->workers * sizeof *to->flow);
	}
	return FAN_OK;
}

/* Jobs without trees get some, beside those that keep theirs. */
static int plan_others(struct draft *d)
{
	const struct fan_ctl_options *o = &d->c->o;
	struct fan_planned how;
	struct fan_plan q;
	int err;

	if (!d->p.trees)
		return o->algorithm->run(&d->t, &o->plan, &d->p, &how);
	if (o->algorithm->run == fan_best) {
		err = fan_plan_copy(&q, &d->p);
		err = err ? err : fan_replan(&d->t, &o->plan, &q);
	} else {
		err = o->algorithm->run(&d->t, &o->plan, &q, &how);
	}
	if (err)
		return err;
	for (uint32_t j = 0; j < d->t.jobs && !err; j++)
		if (!has_trees(&d->p, j))
			err = take_trees(d, &q, j);
	fan_plan_free(&q);
	return err;
}

static int make_plan(struct draft *d)
{
	const struct fan_ctl *c = d->c;
	bool others = false;
	int err = load_kept(d);

	if (!err)
		err = fan_replan_ways(&d->t, &c->o.plan, &d->p,
				      c->search	 ? 1
				      : c->given ? INFINITY
						 : WORTH,
				      c->search || c->looking);
	for (uint32_t i = 0; i < d->t.jobs; i++)
		others |= !err && !has_trees(&d->p, i);
	if (others)
		err = plan_others(d);
	if (!err)
		err = fan_eval(&d->e, &d->t, &d->p, &d->why);
	return err;
}

/* ---- what follows from it ------------------------------------------------------------------- */

/* Slots that each switch has, at least, if jobs must share them; else 0. */
static uint32_t slots_to_share(const struct draft *d)
{
	uint32_t least = 0;

	for (uint32_t i = 0; i < d->t.nodes && d->t.jobs > 1; i++) {
		const struct ctl_node *n = &d->c->node[d->map[i]];
		if (n->kind == FAN_NODE_SWITCH && n->slots && (!least || n->slots < least))
			least = n->slots;
	}
	return least;
}

/* Thread i of each daemon talks to thread i of the others. */
static int check_shards(struct draft *d, const struct fan_install_part *part)
{
	const struct ctl_node *home = &d->c->node[d->map[part->server]];

	for (uint32_t i = 0; i < part->stops && !d->all_up; i++) {
		const struct ctl_node *n = &d->c->node[d->map[d->in.stop[part->stop + i].node]];
		if (n->shards != home->shards)
			return fan_why_set(&d->why, FAN_E_CONFIG,
					   "switch \"%s\" has %u threads and server \"%s\" %u: "
					   "start all with the same --threads",
					   n->name, n->shards, home->name, home->shards);
	}
	return FAN_OK;
}

/* Are the parts of topology job `jt` those that its workers were told of? */
static bool fits_parts(const struct draft *d, uint32_t jt)
{
	const struct ctl_job *j = &d->c->job[d->job_of[jt]];
	uint32_t k = 0;

	for (uint32_t i = 0; i < d->in.parts; i++) {
		const struct fan_install_part *p = &d->in.part[i];
		if (p->job != jt)
			continue;
		if (k == j->parts || j->part[k].from != p->from || j->part[k].to != p->to ||
		    j->part[k].server != d->map[p->server])
			return false;
		k++;
	}
	return k == j->parts && k > 0;
}

/* Are they as many as an earlier controller told workers of? */
static bool restores(const struct draft *d, uint32_t jt)
{
	const struct ctl_job *j = &d->c->job[d->job_of[jt]];
	uint32_t k = 0;

	for (uint32_t i = 0; i < d->in.parts; i++)
		k += d->in.part[i].job == jt;
	return j->restores && k == j->restores;
}

static int make_install(struct draft *d)
{
	const struct fan_install_options o = {.first = 1, .slots = slots_to_share(d)};
	int err = fan_install_make(&d->in, &d->t, &d->p, &o, &d->why);

	for (uint32_t i = 0; i < d->in.parts && !err; i++)
		err = check_shards(d, &d->in.part[i]);
	for (uint32_t j = 0; j < d->t.jobs && !err; j++)
		if (d->c->job[d->job_of[j]].bound && !fits_parts(d, j) && !restores(d, j))
			err = fan_why_set(&d->why, FAN_E_CONFIG,
					  "its workers go by other parts, and parts stay");
	return err;
}

static void free_draft(struct draft *d)
{
	fan_install_free(&d->in);
	fan_eval_free(&d->e);
	fan_plan_free(&d->p);
	fan_topo_free(&d->t);
	free(d->map);
	free(d->job_of);
}

static int make_draft(struct draft *d, struct fan_ctl *c, const bool *wanted, bool all_up)
{
	memset(d, 0, sizeof *d);
	d->c = c;
	d->wanted = wanted;
	d->all_up = all_up;
	fan_topo_init(&d->t);
	fan_plan_init(&d->p);
	int err = make_topo(d);
	if (!err)
		err = make_plan(d);
	if (!err)
		err = make_install(d);
	if (err && !d->why.text[0])
		fan_why_set(&d->why, err, "%s", fan_err_text(err));
	return err;
}

/* ---- taking it over -------------------------------------------------------------------------- */

/* Keep the plan of a job by itself, with trees numbered from 0: as many as there may be others'. */
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
			base = base < 0 ? n : base; /* a job's trees are in a row */
			o = json_copy(o);
			json_object_set_new(o, "tree", json_integer(n - base));
			json_array_append_new(to[k], o);
		}
	json_decref(j->trees);
	json_decref(j->assignments);
	j->trees = to[0];
	j->assignments = to[1];
}

static int new_parts(struct draft *d, uint32_t jt)
{
	struct ctl_job *j = &d->c->job[d->job_of[jt]];
	bool again = restores(d, jt);

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

/* The same parts; those whose way is another get a new number. */
static int new_ways(struct draft *d, uint32_t jt)
{
	struct ctl_job *j = &d->c->job[d->job_of[jt]];
	uint32_t k = 0;

	for (uint32_t i = 0; i < d->in.parts; i++) {
		const struct fan_install_part *p = &d->in.part[i];
		if (p->job != jt)
			continue;
		struct ctl_part *part = &j->part[k++];
		part->gbps = p->gbps;
		if (ctl_route_is(part->route, &d->in, p, d->map) && !part->route->broken)
			continue;
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

static void explain(const struct draft *d, uint32_t jt, struct ctl_job *j)
{
	char binding[2 * FAN_TOPO_NAME_MAX] = "nothing";

	if (d->e.binding != UINT32_MAX)
		fan_resource_text(&d->t, d->e.binding, binding, sizeof binding);
	j->gbps = d->e.job_gbps[jt];
	snprintf(j->why, sizeof j->why, "%.40s: %.120s; %.4g Gb/s for each worker, bound by %.100s",
		 d->c->given ? "the plan that was given" : d->c->o.algorithm->name, d->c->cause,
		 j->gbps, binding);
}

static void take_job(struct draft *d, uint32_t jt, const json_t *report)
{
	struct fan_ctl *c = d->c;
	uint32_t job = d->job_of[jt];
	struct ctl_job *j = &c->job[job];
	int err = fits_parts(d, jt) ? new_ways(d, jt) : new_parts(d, jt);

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

static void take(struct draft *d)
{
	const struct fan_plan_about about = {.algorithm = d->c->o.algorithm->name,
					     .seed = d->c->o.plan.seed};
	json_t *report = fan_report_json(&d->t, &d->p, &d->e, &about);

	ctl_note(d->c, "planned %u jobs on %u nodes, since %s: %.4g Gb/s", d->t.jobs, d->t.nodes,
		 d->c->cause, d->e.gbps);
	for (uint32_t j = 0; j < d->t.jobs; j++)
		take_job(d, j, report);
	json_decref(report);
}

/* The job cannot be planned now.  What it has stays: what is gone may come back. */
static void leave_out(struct fan_ctl *c, struct ctl_job *j, const struct fan_why *why)
{
	char text[FAN_WHY_BYTES];

	snprintf(text, sizeof text, "not planned, since %.80s: %.200s", c->cause, why->text);
	if (strcmp(text, j->why) != 0)
		ctl_note(c, "%s: %s", j->name, text);
	memcpy(j->why, text, sizeof j->why);
}

/* Those that fail alone are left out. */
static void leave_out_some(struct fan_ctl *c, bool *wanted)
{
	struct draft d;

	for (uint32_t i = 0; i < c->jobs; i++) {
		bool alone[FAN_TOPO_JOBS_MAX] = {false};
		alone[i] = wanted[i];
		if (!wanted[i])
			continue;
		wanted[i] = make_draft(&d, c, alone, false) == FAN_OK;
		if (!wanted[i])
			leave_out(c, &c->job[i], &d.why);
		free_draft(&d);
	}
}

static bool any_of(const struct fan_ctl *c, const bool *wanted)
{
	for (uint32_t i = 0; i < c->jobs; i++)
		if (wanted[i])
			return true;
	return false;
}

void ctl_plan(struct fan_ctl *c)
{
	bool wanted[FAN_TOPO_JOBS_MAX] = {false};
	struct draft d;

	c->plan_ns = UINT64_MAX;
	c->plans++;
	c->looking = c->look_wanted && c->now_ns >= c->look_ns;
	if (c->looking) {
		c->look_wanted = false;
		c->look_ns = c->now_ns + FAN_CTL_LOOK_MS * CTL_MS;
	} else if (c->look_wanted) {
		c->plan_ns = c->look_ns;
	}
	for (uint32_t i = 0; i < c->jobs; i++)
		wanted[i] = c->job[i].said;
	for (unsigned round = 0; round < 2 && any_of(c, wanted); round++) {
		int err = make_draft(&d, c, wanted, false);
		if (!err) {
			take(&d);
			free_draft(&d);
			break;
		}
		for (uint32_t i = 0; i < c->jobs && round; i++)
			if (wanted[i])
				leave_out(c, &c->job[i], &d.why);
		free_draft(&d);
		if (!round)
			leave_out_some(c, wanted);
	}
	c->search = false;
}

/* ---- plans from outside -----------------------------------------------------------------------
 */

json_t *ctl_plan_json(const struct fan_ctl *c)
{
	json_t *trees = json_array(), *assignments = json_array();

	for (uint32_t i = 0; i < c->jobs; i++)
		if (c->job[i].said && c->job[i].trees)
			add_trees(trees, assignments, &c->job[i]);
	return json_pack("{ss so so}", "algorithm", c->given ? "given" : c->o.algorithm->name,
			 "trees", trees, "assignments", assignments);
}

int ctl_plan_take(struct fan_ctl *c, const json_t *plan, struct fan_why *why)
{
	bool wanted[FAN_TOPO_JOBS_MAX] = {false};
	struct draft d = {.c = c, .wanted = wanted, .all_up = true};
	const struct fan_plan_about about = {.algorithm = "given"};

	for (uint32_t i = 0; i < c->jobs; i++)
		wanted[i] = c->job[i].said;
	fan_topo_init(&d.t);
	fan_plan_init(&d.p);
	int err = make_topo(&d);
	if (!err)
		err = fan_plan_from_json(&d.p, &d.t, plan, false, &d.why);
	if (!err)
		err = fan_eval(&d.e, &d.t, &d.p, &d.why);
	if (!err)
		err = make_install(&d);
	json_t *report = err ? NULL : fan_report_json(&d.t, &d.p, &d.e, &about);
	for (uint32_t j = 0; report && j < d.t.jobs; j++)
		keep_plan(&c->job[d.job_of[j]], report);
	json_decref(report);
	*why = d.why;
	if (err && !why->text[0])
		fan_why_set(why, err, "%s", fan_err_text(err));
	free_draft(&d);
	if (err)
		return err;
	c->given = true;
	ctl_plan_in(c, 0, "a plan was given");
	return FAN_OK;
}
