/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>

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

json_t *fan_report_json(const struct fan_topo *t, const struct fan_plan *p,
			const struct fan_eval *e, const struct fan_plan_about *r)
{
	json_t *jobs = json_array(), *trees = json_array(), *list = json_array();
	char binding[NAME_BYTES] = "";

	if (e->binding != UINT32_MAX)
		fan_resource_text(t, e->binding, binding, sizeof binding);
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
