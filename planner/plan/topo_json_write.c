/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_json.h"

static json_t *names_json(const struct fan_topo *t, const uint32_t *at, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(t->node[at[i]].name));
	return list;
}

static json_t *node_json(const struct fan_topo *t, const struct fan_node *n)
{
	json_t *o = json_pack("{ss ss}", "name", n->name, "kind", fan_node_kinds[n->kind]);

	if (n->gbps > 0)
		json_object_set_new(o, "gbps", json_real(n->gbps));
	if (n->background_gbps > 0)
		json_object_set_new(o, "background_gbps", json_real(n->background_gbps));
	if (n->address[0])
		json_object_set_new(o, "address", json_string(n->address));
	if (n->parent != FAN_NODE_NONE)
		json_object_set_new(o, "parent", json_string(t->node[n->parent].name));
	return o;
}

static json_t *job_json(const struct fan_topo *t, const struct fan_job *j)
{
	json_t *o = json_pack("{ss so so sf sf}", "name", j->name, "workers",
			      names_json(t, j->worker, j->workers), "servers",
			      names_json(t, j->server, j->servers), "weight", j->weight,
			      "demand_gbps", j->demand_gbps);

	if (j->groups)
		json_object_set_new(o, "group", json_pack("[ii]", (int)j->group, (int)j->groups));
	if (j->spares)
		json_object_set_new(o, "spares", names_json(t, j->server + j->servers, j->spares));
	return o;
}

json_t *fan_topo_to_json(const struct fan_topo *t)
{
	json_t *nodes = json_array(), *links = json_array(), *jobs = json_array();

	for (uint32_t i = 0; i < t->nodes; i++)
		json_array_append_new(nodes, node_json(t, &t->node[i]));
	for (uint32_t i = 0; i < t->links; i++) {
		const struct fan_link *l = &t->link[i];
		json_t *o = json_pack("{ss ss sf sf}", "a", t->node[l->a].name, "b",
				      t->node[l->b].name, "gbps", l->gbps, "delay_us", l->delay_us);
		if (l->background_gbps > 0)
			json_object_set_new(o, "background_gbps", json_real(l->background_gbps));
		json_array_append_new(links, o);
	}
	for (uint32_t i = 0; i < t->jobs; i++)
		json_array_append_new(jobs, job_json(t, &t->job[i]));
	return json_pack("{so so so}", "nodes", nodes, "links", links, "jobs", jobs);
}
