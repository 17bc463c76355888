/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "report.h"

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

static int route_of(const struct reader *r, const json_t *from, struct fan_route *route)
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
	struct fan_route route = {0};
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
	struct fan_route route;
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

	fan_plan_init(p);
	why->text[0] = '\0';
	int err = r.nodes ? read_all(&r, root) : FAN_E_NOMEM;
	json_decref(r.nodes);
	free(r.tree_of);
	if (err)
		fan_plan_free(p);
	return err;
}
