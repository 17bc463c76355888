/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c - daemons that people take out of use before they stop them, and daemons that come while
 * jobs run.
 *
 * A drained daemon runs on, but plans do not use it: jobs move off it while it still works, so no
 * packet is lost.  It stays drained over restarts of daemon and controller until it is undrained.
 *
 * A daemon that comes or is undrained is offered to running jobs, which move for better paths as
 * they do when load changes.  One that comes must have been up for a while first, which doubles
 * with each recent loss, so that a flapping daemon does not move jobs every time. */
#include <string.h>

#include "ctl_priv.h"

/* ---- parents of groups ---- */

/* Are the parent and all servers below it in use, and none of them `node`? */
static bool adds_up(const struct fan_ctl *c, uint32_t parent, uint32_t node)
{
	for (uint32_t i = 0; i < c->nodes; i++)
		if ((i == parent || c->node[i].parent == parent) &&
		    (i == node || !ctl_is_used(&c->node[i])))
			return false;
	return true;
}

static uint32_t parent_without(const struct fan_ctl *c, const struct ctl_job *j, uint32_t node)
{
	for (uint32_t i = 0; i < j->servers; i++)
		if (adds_up(c, c->node[j->server[i]].parent, node))
			return c->node[j->server[i]].parent;
	return CTL_NONE;
}

uint32_t ctl_group_parent(const struct fan_ctl *c, const struct ctl_job *j)
{
	for (uint32_t i = 0; i < c->jobs; i++) {
		const struct ctl_job *k = &c->job[i];
		const json_t *tree = json_array_get(k->trees, 0);
		if (k->state == CTL_JOB_FREE || !tree || !ctl_job_is_beside(j, k))
			continue;
		const uint32_t server = ctl_tree_server(c, tree);
		if (server != CTL_NONE)
			return c->node[server].parent;
	}
	return parent_without(c, j, CTL_NONE);
}

/* ---- taking out of use ---- */

/* Can the job begin again without this server? */
static bool has_other(const struct fan_ctl *c, const struct ctl_job *j, uint32_t node)
{
	if (j->groups)
		return parent_without(c, j, node) != CTL_NONE;
	for (uint32_t i = 0; i < j->servers; i++)
		if (j->server[i] != node && ctl_is_used(&c->node[j->server[i]]))
			return true;
	return false;
}

static int check_server(const struct fan_ctl *c, uint32_t node, struct fan_why *why)
{
	for (uint32_t i = 0; i < c->jobs; i++) {
		const struct ctl_job *j = &c->job[i];
		if (j->state != CTL_JOB_FREE && ctl_job_needs(c, j, node) && !has_other(c, j, node))
			return fan_why_set(why, FAN_E_CONFIG,
					   "job \"%s\" has no other server that is there: end it, "
					   "or start one",
					   j->name);
	}
	return FAN_OK;
}

static int take_out(struct fan_ctl *c, uint32_t node, struct fan_why *why)
{
	struct ctl_node *n = &c->node[node];
	int err = n->kind == FAN_NODE_SERVER ? check_server(c, node, why) : FAN_OK;

	if (err || n->drained)
		return err;
	n->drained = true;
	n->empty = false;
	n->offer_ns = 0;
	ctl_note(c, "%s is to be drained", n->name);
	ctl_plan_in(c, FAN_CTL_SETTLE_MS, "%s is to be drained", n->name);
	if (n->kind == FAN_NODE_SERVER)
		ctl_job_lost_aggregator(c, node, "is to be drained");
	return FAN_OK;
}

static void take_back(struct fan_ctl *c, uint32_t node)
{
	struct ctl_node *n = &c->node[node];

	if (!n->drained)
		return;
	n->drained = false;
	n->offer_ns = n->state == CTL_UP ? c->now_ns : 0;
	ctl_note(c, "%s is to be used again", n->name);
	ctl_plan_in(c, FAN_CTL_ARRIVAL_MS, "%s is to be used again", n->name);
}

int ctl_drain_set(struct fan_ctl *c, const char *name, bool drained, struct fan_why *why)
{
	uint32_t node = ctl_node_named(c, name);

	if (node == CTL_NONE || c->node[node].kind == FAN_NODE_WORKER)
		return fan_why_set(why, FAN_E_CONFIG, "no switch or server \"%.63s\" in %s", name,
				   c->o.file);
	if (drained)
		return take_out(c, node, why);
	take_back(c, node);
	return FAN_OK;
}

json_t *ctl_drain_json(const struct fan_ctl *c)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].drained)
			json_array_append_new(list, json_string(c->node[i].name));
	return list;
}

void ctl_drain_load(struct fan_ctl *c, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		uint32_t node = ctl_node_named(c, name);
		if (node != CTL_NONE && c->node[node].kind != FAN_NODE_WORKER)
			c->node[node].drained = true;
	}
}

/* ---- arrivals ---- */

void ctl_drain_came(struct fan_ctl *c, struct ctl_node *n)
{
	const uint32_t doublings =
		n->goes < FAN_CTL_OFFER_DOUBLINGS ? n->goes : FAN_CTL_OFFER_DOUBLINGS;

	n->empty = false;
	if (c->phase != CTL_GATHERING && !n->drained)
		n->offer_ns = c->now_ns + ((FAN_CTL_OFFER_MS * CTL_MS) << doublings);
}

void ctl_drain_went(struct fan_ctl *c, struct ctl_node *n)
{
	if (c->now_ns - n->since_ns >= FAN_CTL_CALM_MS * CTL_MS)
		n->goes = 0;
	n->goes++;
	n->offer_ns = 0;
}

void ctl_drain_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		if (n->drained && !n->empty && !ctl_routes_at(c, i, true)) {
			n->empty = true;
			ctl_note(c, "%s is drained: it may be stopped", n->name);
		}
		if (!n->offer_ns || c->now_ns < n->offer_ns)
			continue;
		n->offer_ns = 0;
		if (c->wanted == CTL_MEND)
			c->wanted = CTL_LOOK;
		ctl_plan_in(c, 0, "%s is offered to running jobs", n->name);
	}
}

uint64_t ctl_drain_deadline(const struct fan_ctl *c)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].offer_ns && c->node[i].offer_ns < due)
			due = c->node[i].offer_ns;
	return due;
}
