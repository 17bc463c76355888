/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

#define PLACE_BYTES 96
#define GONE	    1 /* not in the topology any more, which is no error if lenient */

struct reader {
	struct fan_plan *p;
	const struct fan_topo *t;
	struct fan_why *why;
	json_t *nodes; /* numbers of nodes by name */
	bool lenient;
	uint32_t *tree_of; /* by "tree" of the JSON: number in the plan, or FAN_NODE_NONE */
	size_t trees;
	char place[PLACE_BYTES];
};

static int bad(const struct reader *r, const char *key, const char *cause, const char *name)
{
	return fan_why_set(r->why, FAN_E_CONFIG, "%s%s%s: %s%s%s%s", r->place, key[0] ? "." : "",
			   key, cause, name ? " \"" : "", name ? name : "", name ? "\"" : "");
}

/* The node that a string names.  Returns 0, GONE (if lenient), or an error. */
static int node_named(const struct reader *r, const char *key, const json_t *value, uint32_t *node)
{
	const char *name = json_string_value(value);
	const json_t *at = name ? json_object_get(r->nodes, name) : NULL;
	if (at) {
		*node = (uint32_t)json_integer_value(at);
		return FAN_OK;
	}
	if (name && r->lenient)
		return GONE;
	return bad(r, key, name ? "no node" : "expected the name of a node", name);
}

static int job_named(const struct reader *r, const json_t *value, uint32_t *job)
{
	const char *name = json_string_value(value);
	for (*job = 0; name && *job < r->t->jobs; (*job)++)
		if (strcmp(r->t->job[*job].name, name) == 0)
			return FAN_OK;
	if (name && r->lenient)
		return GONE;
	return bad(r, "job", name ? "no job" : "expected the name of a job", name);
}

/* The arc from one node to another, or UINT32_MAX. */
static uint32_t arc_between(const struct fan_topo *t, uint32_t from, uint32_t to)
{
	const struct fan_node *n = &t->node[from];
	for (uint32_t i = 0; i < n->degree; i++)
		if (fan_arc_to(t, t->out[n->first + i]) == to)
			return t->out[n->first + i];
	return UINT32_MAX;
}

static int route_of(const struct reader *r, const json_t *from, struct fan_arcs *route)
{
	const json_t *list = json_object_get(from, "route");
	size_t count = json_array_size(list);
	uint32_t at = 0, next = 0;
	if (count == 0 || count > FAN_HOPS_MAX + 1)
		return bad(r, "route", "expected a list of nodes, not too long", NULL);
	route->hops = 0;
	int err = node_named(r, "route", json_array_get(list, 0), &at);
	for (size_t i = 1; i < count && !err; i++) {
		err = node_named(r, "route", json_array_get(list, i), &next);
		if (err)
			break;
		uint32_t arc = arc_between(r->t, at, next);
		if (arc == UINT32_MAX)
			return r->lenient ? GONE
					  : bad(r, "route", "no link to", r->t->node[next].name);
		route->arc[route->hops++] = arc;
		at = next;
	}
	return err;
}

static int read_sum(struct reader *r, const json_t *from, struct fan_tree *tree)
{
	struct fan_arcs route = {0};
	uint32_t node = 0;
	int err = node_named(r, "switch", json_object_get(from, "switch"), &node);
	if (!err)
		err = route_of(r, from, &route);
	if (err)
		return err == GONE ? FAN_OK : err;
	if (tree->sums == tree->workers)
		return bad(r, "", "more sums than workers", NULL);
	struct fan_flow *f = fan_tree_add_sum(tree, node);
	f->route = route;
	if (route.hops)
		f->to = fan_arc_to(r->t, route.arc[route.hops - 1]);
	return FAN_OK;
}

static bool serves(const struct fan_job *job, uint32_t server)
{
	for (uint32_t i = 0; i < job->servers; i++)
		if (job->server[i] == server)
			return true;
	return false;
}

static int read_tree(struct reader *r, const json_t *from, size_t number)
{
	const json_t *sums = json_object_get(from, "sums");
	uint32_t job = 0, server = 0;
	double share = json_number_value(json_object_get(from, "share"));
	snprintf(r->place, sizeof r->place, "trees[%zu]", number);
	r->tree_of[number] = FAN_NODE_NONE;
	int err = job_named(r, json_object_get(from, "job"), &job);
	if (!err)
		err = node_named(r, "server", json_object_get(from, "server"), &server);
	if (!err && !serves(&r->t->job[job], server))
		err = r->lenient ? GONE
				 : bad(r, "server", "not of this job:", r->t->node[server].name);
	if (!err && !(share >= 0 && share <= 1))
		err = bad(r, "share", "expected a number from 0 to 1", NULL);
	if (err)
		return err == GONE ? FAN_OK : err;
	struct fan_tree *tree = fan_plan_add(r->p, r->t, job, server, share);
	if (!tree)
		return FAN_E_NOMEM;
	r->tree_of[number] = r->p->trees - 1;
	for (size_t i = 0; i < json_array_size(sums) && !err; i++) {
		snprintf(r->place, sizeof r->place, "trees[%zu].sums[%zu]", number, i);
		err = read_sum(r, json_array_get(sums, i), tree);
	}
	return err;
}

/* The flow of a worker, or NULL if the job does not have it. */
static struct fan_flow *flow_of(struct fan_tree *tree, uint32_t worker)
{
	for (uint32_t w = 0; w < tree->workers; w++)
		if (tree->flow[w].from == worker)
			return &tree->flow[w];
	return NULL;
}

static int read_assignment(struct reader *r, const json_t *from, size_t number)
{
	const json_t *n = json_object_get(from, "tree");
	json_int_t index = json_integer_value(n);
	struct fan_arcs route;
	uint32_t worker = 0, at = 0;
	snprintf(r->place, sizeof r->place, "assignments[%zu]", number);
	if (!json_is_integer(n) || index < 0 || (size_t)index >= r->trees)
		return bad(r, "tree", "expected the number of a tree", NULL);
	if (r->tree_of[index] == FAN_NODE_NONE)
		return FAN_OK;
	struct fan_tree *tree = &r->p->tree[r->tree_of[index]];
	int err = node_named(r, "worker", json_object_get(from, "worker"), &worker);
	if (!err)
		err = node_named(r, "at", json_object_get(from, "at"), &at);
	if (!err)
		err = route_of(r, from, &route);
	if (err)
		return err == GONE ? FAN_OK : err;
	struct fan_flow *f = flow_of(tree, worker);
	if (!f)
		return r->lenient ? FAN_OK
				  : bad(r, "worker", "not of this job:", r->t->node[worker].name);
	if (r->lenient && at != tree->server && !fan_tree_sum(tree, at))
		return FAN_OK; /* the switch's sum is gone */
	f->to = at;
	f->route = route;
	return FAN_OK;
}

static int check_whole(const struct reader *r)
{
	for (uint32_t i = 0; i < r->p->trees && !r->lenient; i++)
		for (uint32_t w = 0; w < r->p->tree[i].workers; w++)
			if (r->p->tree[i].flow[w].to == FAN_NODE_NONE)
				return fan_why_set(r->why, FAN_E_CONFIG,
						   "assignments: none of worker \"%s\" in a tree",
						   r->t->node[r->p->tree[i].flow[w].from].name);
	return FAN_OK;
}

static int read_all(struct reader *r, const json_t *root)
{
	const json_t *trees = json_object_get(root, "trees");
	const json_t *list = json_object_get(root, "assignments");
	int err = FAN_OK;
	if (!json_is_array(trees) || !json_is_array(list))
		return fan_why_set(r->why, FAN_E_CONFIG,
				   "expected lists of trees and of assignments, as fanin plan "
				   "--json writes them");
	r->trees = json_array_size(trees);
	if (r->trees > FAN_TREES_MAX)
		return fan_why_set(r->why, FAN_E_CONFIG, "trees: more than %d", FAN_TREES_MAX);
	r->tree_of = calloc(r->trees + 1, sizeof *r->tree_of);
	for (uint32_t i = 0; i < r->t->nodes; i++)
		json_object_set_new(r->nodes, r->t->node[i].name, json_integer(i));
	if (!r->tree_of)
		return FAN_E_NOMEM;
	for (size_t i = 0; i < r->trees && !err; i++)
		err = read_tree(r, json_array_get(trees, i), i);
	for (size_t i = 0; i < json_array_size(list) && !err; i++)
		err = read_assignment(r, json_array_get(list, i), i);
	return err ? err : check_whole(r);
}

int fan_plan_from_json(struct fan_plan *p, const struct fan_topo *t, const json_t *root,
		       bool lenient, struct fan_why *why)
{
	struct reader r = {.p = p, .t = t, .why = why, .nodes = json_object(), .lenient = lenient};
	*p = (struct fan_plan){0};
	why->text[0] = '\0';
	int err = r.nodes ? read_all(&r, root) : FAN_E_NOMEM;
	json_decref(r.nodes);
	free(r.tree_of);
	if (err)
		fan_plan_free(p);
	return err;
}

/* ---- writing ---- */

#define NAME_BYTES 160
#define LOAD_MIN   1e-12

/* The part of the bound that is not reached, 0 .. 1; 0 if there is no bound. */
static double gap_of(double gbps, double bound_gbps)
{
	double gap = bound_gbps > 0 ? 1 - gbps / bound_gbps : 0;
	return gap > LOAD_MIN ? gap : 0;
}

/* The nodes of a flow, ends included. */
static json_t *route_json(const struct fan_topo *t, const struct fan_flow *f)
{
	json_t *list = json_array();
	json_array_append_new(list, json_string(t->node[f->from].name));
	for (uint32_t i = 0; i < f->route.hops; i++)
		json_array_append_new(list,
				      json_string(t->node[fan_arc_to(t, f->route.arc[i])].name));
	return list;
}

static json_t *job_json(const struct fan_topo *t, const struct fan_plan *p, uint32_t j, double gbps)
{
	json_t *servers = json_array();
	for (uint32_t s = 0; s < t->job[j].servers; s++) {
		double share = 0;
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j && p->tree[i].server == t->job[j].server[s])
				share += p->tree[i].share;
		json_array_append_new(servers,
				      json_pack("{ss sf}", "name",
						t->node[t->job[j].server[s]].name, "share", share));
	}
	return json_pack("{ss sf so}", "name", t->job[j].name, "gbps", gbps, "servers", servers);
}

static uint32_t fan_in(const struct fan_tree *tree, uint32_t node)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++)
		n += tree->flow[i].to == node;
	return n;
}

static json_t *tree_json(const struct fan_topo *t, const struct fan_plan *p, uint32_t i)
{
	const struct fan_tree *tree = &p->tree[i];
	json_t *sums = json_array();
	for (uint32_t k = 0; k < tree->sums; k++) {
		const struct fan_flow *f = &tree->flow[tree->workers + k];
		json_array_append_new(sums, json_pack("{ss si so}", "switch", t->node[f->from].name,
						      "fan_in", (int)fan_in(tree, f->from), "route",
						      route_json(t, f)));
	}
	return json_pack("{si ss ss sf so}", "tree", (int)i, "job", t->job[tree->job].name,
			 "server", t->node[tree->server].name, "share", tree->share, "sums", sums);
}

static void add_assignments(json_t *list, const struct fan_topo *t, const struct fan_plan *p,
			    uint32_t i)
{
	const struct fan_tree *tree = &p->tree[i];
	for (uint32_t w = 0; w < tree->workers; w++) {
		const struct fan_flow *f = &tree->flow[w];
		json_array_append_new(
			list, json_pack("{ss si ss ss sf ss so}", "job", t->job[tree->job].name,
					"tree", (int)i, "worker", t->node[f->from].name, "server",
					t->node[tree->server].name, "share", tree->share, "at",
					t->node[f->to].name, "route", route_json(t, f)));
	}
}

static void put_load(json_t *o, double gbps, double background, double capacity)
{
	json_object_set_new(o, "gbps", json_real(gbps));
	json_object_set_new(o, "background_gbps", json_real(background));
	json_object_set_new(o, "capacity_gbps", capacity > 0 ? json_real(capacity) : json_null());
}

static json_t *links_json(const struct fan_topo *t, const struct fan_eval *e)
{
	json_t *list = json_array();
	for (uint32_t a = 0; a < 2 * t->links; a++) {
		const struct fan_link *l = &t->link[a / 2];
		if (!(e->load_gbps[a] > LOAD_MIN))
			continue;
		json_t *o = json_pack("{ss ss}", "from", t->node[fan_arc_from(t, a)].name, "to",
				      t->node[fan_arc_to(t, a)].name);
		put_load(o, e->load_gbps[a], l->background_gbps, l->gbps);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *nodes_json(const struct fan_topo *t, const struct fan_eval *e,
			  enum fan_node_kind kind)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < t->nodes; i++) {
		const struct fan_node *n = &t->node[i];
		double load = e->load_gbps[fan_node_resource(t, i)];
		if (n->kind != kind || !(load > LOAD_MIN))
			continue;
		json_t *o = json_pack("{ss}", "name", n->name);
		put_load(o, load, n->background_gbps, n->gbps);
		json_array_append_new(list, o);
	}
	return list;
}

/* Name a resource for people: "link S1-S3", "switch S1", "server PS" or "worker W1". */
static void name_resource(const struct fan_topo *t, uint32_t resource, char *text, unsigned bytes)
{
	if (resource < 2 * t->links) {
		snprintf(text, bytes, "link %s-%s", t->node[fan_arc_from(t, resource)].name,
			 t->node[fan_arc_to(t, resource)].name);
		return;
	}
	const struct fan_node *n = &t->node[resource - 2 * t->links];
	snprintf(text, bytes, "%s %s", fan_node_kinds[n->kind], n->name);
}

json_t *fan_report_json(const struct fan_topo *t, const struct fan_plan *p,
			const struct fan_eval *e, const struct fan_plan_about *r)
{
	json_t *jobs = json_array(), *trees = json_array(), *list = json_array();
	char binding[NAME_BYTES] = "";
	if (e->binding != UINT32_MAX)
		name_resource(t, e->binding, binding, sizeof binding);
	for (uint32_t j = 0; j < t->jobs; j++)
		json_array_append_new(jobs, job_json(t, p, j, e->job_gbps[j]));
	for (uint32_t i = 0; i < p->trees; i++) {
		json_array_append_new(trees, tree_json(t, p, i));
		add_assignments(list, t, p, i);
	}
	json_t *loads = json_pack("{so so so so}", "links", links_json(t, e), "switches",
				  nodes_json(t, e, FAN_NODE_SWITCH), "servers",
				  nodes_json(t, e, FAN_NODE_SERVER), "workers",
				  nodes_json(t, e, FAN_NODE_WORKER));
	return json_pack("{ss sI sf sf sf sf sf sb ss so so so so}", "algorithm", r->algorithm,
			 "seed", (json_int_t)r->seed, "feasible_gbps", e->gbps, "gradients_gbps",
			 e->gradients_gbps, "with_results_gbps", e->with_results_gbps, "bound_gbps",
			 r->bound_gbps, "gap", gap_of(e->gbps, r->bound_gbps), "proven", r->proven,
			 "binding", binding, "jobs", jobs, "trees", trees, "assignments", list,
			 "loads", loads);
}
