/* SPDX-License-Identifier: Apache-2.0 */
#include "draft.h"

#include <stdlib.h>
#include <string.h>

#include "plan/algorithm.h"
#include "plan/report.h"
#include "plan/topo_json.h"

#define WORTH 1.1 /* how many times the rate makes moving working flows worthwhile */

/* ---- the topology as it is ---- */

static bool is_up(const struct ctl_draft *d, uint32_t node)
{
	return d->all_up || ctl_is_used(&d->c->node[node]);
}

static json_t *nodes_json(const struct ctl_draft *d)
{
	const json_t *nodes = json_object_get(d->c->root, "nodes");
	json_t *list = json_array();

	for (uint32_t i = 0, k = 0; i < d->c->nodes; i++)
		if (is_up(d, i)) {
			double load_gbps = d->all_up ? 0 : d->c->node[i].load_gbps;
			json_t *one = ctl_load_on(json_array_get(nodes, i), load_gbps);
			json_t *node = json_copy(one);
			json_decref(one);
			json_object_del(node, "parent"); /* the parent may be down */
			json_array_append_new(list, node);
			d->map[k++] = i;
		}
	return list;
}

static bool end_is_up(const struct ctl_draft *d, const json_t *link, const char *key)
{
	uint32_t node = ctl_node_named(d->c, json_string_value(json_object_get(link, key)));

	return node != CTL_NONE && is_up(d, node);
}

static json_t *links_json(const struct ctl_draft *d)
{
	const json_t *links = json_object_get(d->c->root, "links");
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(links); i++) {
		json_t *link = json_array_get(links, i);
		const struct ctl_link *l = &d->c->link[i];
		if (d->all_up)
			json_array_append(list, link);
		else if (l->state != CTL_LINK_DOWN && end_is_up(d, link, "a") &&
			 end_is_up(d, link, "b"))
			json_array_append_new(list, ctl_load_on(link, ctl_load_of(l)));
	}
	return list;
}

/* The parent below which a group is planned; CTL_NONE: there is none, or the job is not split. */
static uint32_t parent_of(const struct ctl_draft *d, const struct ctl_job *j)
{
	const uint32_t parent = j->groups ? ctl_group_parent(d->c, j) : CTL_NONE;

	return j->groups && d->all_up && parent == CTL_NONE ? d->c->node[j->server[0]].parent
							    : parent;
}

static int nobody_serves(struct ctl_draft *d, const struct ctl_job *j)
{
	if (j->groups)
		return fan_why_set(&d->why, FAN_E_CONFIG,
				   "no parent of its %u servers is there with all who sum below it",
				   j->servers);
	return fan_why_set(&d->why, FAN_E_CONFIG, "none of its %u servers is there", j->servers);
}

static int add_job(struct ctl_draft *d, json_t *list, uint32_t job)
{
	const struct ctl_job *j = &d->c->job[job];
	const uint32_t parent = parent_of(d, j);
	json_t *said = json_copy(j->said), *servers = json_array();

	for (uint32_t i = 0; i < j->servers; i++) {
		const struct ctl_node *n = &d->c->node[j->server[i]];
		if (is_up(d, j->server[i]) && n->parent == parent &&
		    (parent == CTL_NONE ? !j->groups : is_up(d, parent)))
			json_array_append_new(servers, json_string(n->name));
	}
	bool any = json_array_size(servers) > 0;
	json_object_set_new(said, "servers", servers);
	json_object_del(said, "spares");
	d->job_of[json_array_size(list)] = job;
	json_array_append_new(list, said);
	return any ? FAN_OK : nobody_serves(d, j);
}

static int make_topo(struct ctl_draft *d)
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

/* ---- the plan ---- */

void ctl_add_trees(json_t *trees, json_t *assignments, const struct ctl_job *j)
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

/* Is the job's plan to be kept, except for what has failed? */
static bool keeps(const struct fan_ctl *c, const struct ctl_job *j)
{
	return j->trees && (j->state != CTL_JOB_FREE || c->given);
}

static int load_kept(struct ctl_draft *d)
{
	json_t *trees = json_array(), *assignments = json_array();

	for (uint32_t i = 0; i < d->t.jobs; i++)
		if (keeps(d->c, &d->c->job[d->job_of[i]]))
			ctl_add_trees(trees, assignments, &d->c->job[d->job_of[i]]);
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

/* Take the trees of one job from another plan. */
static int take_trees(struct ctl_draft *d, const struct fan_plan *from, uint32_t job)
{
	for (uint32_t i = 0; i < from->trees; i++) {
		const struct fan_tree *f = &from->tree[i];
		if (f->job == job && !fan_plan_add_like(&d->p, &d->t, f))
			return FAN_E_NOMEM;
	}
	return FAN_OK;
}

/* Plan jobs without trees, beside those that keep theirs. */
static int plan_others(struct ctl_draft *d)
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

static int make_plan(struct ctl_draft *d)
{
	const struct fan_ctl *c = d->c;
	bool search = c->goal == CTL_SEARCH, others = false;
	int err = load_kept(d);

	d->t.results = true;
	if (!err)
		err = fan_replan_paths(&d->t, &c->o.plan, &d->p, search ? 1 : WORTH,
				       search || (c->goal == CTL_LOOK && !c->given));
	for (uint32_t i = 0; i < d->t.jobs; i++)
		others |= !err && !has_trees(&d->p, i);
	if (others)
		err = plan_others(d);
	if (!err)
		err = fan_eval(&d->e, &d->t, &d->p, &d->why);
	return err;
}

/* ---- what follows from it ---- */

/* The least number of slots of a switch. */
static uint32_t slots_to_share(const struct ctl_draft *d)
{
	uint32_t least = 0;

	for (uint32_t i = 0; i < d->t.nodes; i++) {
		const struct ctl_node *n = &d->c->node[d->map[i]];
		if (n->kind == FAN_NODE_SWITCH && n->slots && (!least || n->slots < least))
			least = n->slots;
	}
	return least;
}

/* Check that a part's daemons have as many threads: thread i talks to thread i of the others. */
static int check_shards(struct ctl_draft *d, const struct fan_install_part *part)
{
	const struct ctl_node *aggregator = &d->c->node[d->map[part->server]];

	for (uint32_t i = 0; i < part->stops && !d->all_up; i++) {
		const struct ctl_node *n = &d->c->node[d->map[d->in.stop[part->stop + i].node]];
		if (n->shards != aggregator->shards)
			return fan_why_set(&d->why, FAN_E_CONFIG,
					   "switch \"%s\" has %u threads and server \"%s\" %u: "
					   "start all with the same --threads",
					   n->name, n->shards, aggregator->name,
					   aggregator->shards);
	}
	return FAN_OK;
}

bool ctl_draft_fits_parts(const struct ctl_draft *d, uint32_t jt)
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

bool ctl_draft_restores(const struct ctl_draft *d, uint32_t jt)
{
	const struct ctl_job *j = &d->c->job[d->job_of[jt]];
	uint32_t k = 0;

	for (uint32_t i = 0; i < d->in.parts; i++)
		k += d->in.part[i].job == jt;
	return j->restores && k == j->restores;
}

/* Check that the part's server was started with the parent, if any, that the topology gives it. */
static int check_parent(struct ctl_draft *d, const struct fan_install_part *part)
{
	const struct ctl_node *n = &d->c->node[d->map[part->server]];
	const struct fan_job *job = &d->t.job[part->job];
	const struct ctl_node *parent =
		n->parent == CTL_NONE || !job->groups ? NULL : &d->c->node[n->parent];

	if (d->all_up || (!job->groups && !n->above[0]))
		return FAN_OK;
	if (!parent)
		return fan_why_set(&d->why, FAN_E_CONFIG,
				   "server \"%s\": expected a parent here and in %s, or in neither",
				   n->name, d->c->o.file);
	if (strcmp(n->above, parent->listen) == 0 && n->siblings == job->groups &&
	    n->index == job->group)
		return FAN_OK;
	return fan_why_set(&d->why, FAN_E_CONFIG,
			   "server \"%s\": start it with --parent %s --siblings %u --index %u",
			   n->name, parent->listen, job->groups, job->group);
}

static int make_install(struct ctl_draft *d)
{
	const struct fan_install_options o = {.first = 1, .slots = slots_to_share(d)};
	int err = fan_install_make(&d->in, &d->t, &d->p, &o, &d->why);

	for (uint32_t i = 0; i < d->in.parts && !err; i++)
		err = check_shards(d, &d->in.part[i]);
	for (uint32_t i = 0; i < d->in.parts && !err; i++)
		err = check_parent(d, &d->in.part[i]);
	for (uint32_t j = 0; j < d->t.jobs && !err; j++)
		if (d->c->job[d->job_of[j]].state != CTL_JOB_FREE && !ctl_draft_fits_parts(d, j) &&
		    !ctl_draft_restores(d, j))
			err = fan_why_set(&d->why, FAN_E_CONFIG,
					  "its workers go by other parts, and parts stay");
	return err;
}

void ctl_draft_free(struct ctl_draft *d)
{
	fan_install_free(&d->in);
	fan_eval_free(&d->e);
	fan_plan_free(&d->p);
	fan_topo_free(&d->t);
	free(d->map);
	free(d->job_of);
}

static int begin(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted, bool all_up)
{
	memset(d, 0, sizeof *d);
	d->c = c;
	d->wanted = wanted;
	d->all_up = all_up;
	fan_topo_init(&d->t);
	fan_plan_init(&d->p);
	return make_topo(d);
}

static int end(struct ctl_draft *d, int err)
{
	if (err && !d->why.text[0])
		fan_why_set(&d->why, err, "%s", fan_err_text(err));
	return err;
}

int ctl_draft_make(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted)
{
	int err = begin(d, c, wanted, false);

	if (!err)
		err = make_plan(d);
	if (!err)
		err = make_install(d);
	return end(d, err);
}

int ctl_draft_read(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted, bool all_up,
		   const json_t *plan)
{
	int err = begin(d, c, wanted, all_up);

	if (!err)
		err = fan_plan_from_json(&d->p, &d->t, plan, false, &d->why);
	if (!err)
		err = fan_eval(&d->e, &d->t, &d->p, &d->why);
	if (!err)
		err = make_install(d);
	return end(d, err);
}
