/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - daemons: which are up, since when, and their health. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/awake.h"
#include "ctl_priv.h"

static void enter(struct fan_ctl *c, struct ctl_node *n, enum ctl_node_state state)
{
	n->state = state;
	n->since_ns = c->now_ns;
}

/* Handle a lost node: forget its routes and plan without it; jobs with an aggregator there begin
 * again. */
static void is_gone(struct fan_ctl *c, uint32_t node, const char *cause)
{
	assert(node < c->nodes);
	struct ctl_node *n = &c->node[node];

	ctl_drain_went(c, n);
	enter(c, n, CTL_GONE);
	n->cut_ns = 0;
	n->strays = 0;
	ctl_note(c, "%s %s is gone: %s", fan_node_kinds[n->kind], n->name, cause);
	ctl_route_forget(c, node);
	ctl_link_gone(c, node);
	ctl_plan_in(c, FAN_CTL_SETTLE_MS, "%s %s is gone", fan_node_kinds[n->kind], n->name);
	if (n->kind == FAN_NODE_SERVER)
		ctl_job_lost_aggregator(c, node, "is gone");
}

static void hang_up(struct fan_ctl *c, struct ctl_node *n)
{
	const uint32_t old = n->conn;

	n->conn = CTL_NONE;
	memset(&c->conn[old], 0, sizeof c->conn[old]);
	c->o.close(c->o.ctx, old);
}

/* ---- hello ---- */

struct hello {
	const char *kind, *name, *listen, *above;
	json_int_t shards, slots, started, index, siblings;
	const json_t *routes;
};

static bool read_hello(struct fan_ctl *c, uint32_t conn, const json_t *line, struct hello *h)
{
	h->kind = json_string_value(json_object_get(line, "hello"));
	h->name = json_string_value(json_object_get(line, "name"));
	h->listen = json_string_value(json_object_get(line, "listen"));
	h->shards = json_integer_value(json_object_get(line, "shards"));
	h->slots = json_integer_value(json_object_get(line, "slots"));
	h->started = json_integer_value(json_object_get(line, "started"));
	h->routes = json_object_get(line, "routes");
	const json_t *above = json_object_get(line, "above");
	h->above = above ? json_string_value(json_object_get(above, "at")) : "";
	h->index = json_integer_value(json_object_get(above, "index"));
	h->siblings = json_integer_value(json_object_get(above, "siblings"));
	if (!h->kind || !h->name || !h->listen || strlen(h->listen) >= CTL_ADDRESS_BYTES ||
	    !c->o.is_address(h->listen))
		ctl_refuse(c, conn, "hello: expected hello, name, and listen as ADDR:PORT");
	else if (h->shards < 1 || h->shards > FAN_SHARDS_MAX || h->slots < 0 ||
		 h->slots > (json_int_t)FAN_SLOTS_MAX * FAN_SHARDS_MAX)
		ctl_refuse(c, conn, "hello of \"%.63s\": expected shards from 1 to %d, and slots",
			   h->name, FAN_SHARDS_MAX);
	else if (!h->above || strlen(h->above) >= CTL_ADDRESS_BYTES || h->index < 0 ||
		 (above && h->index >= h->siblings) || h->siblings > FAN_RANKS_MAX)
		ctl_refuse(c, conn, "hello of \"%.63s\": expected above with at, index, siblings",
			   h->name);
	else
		return true;
	return false;
}

bool ctl_node_is_from(struct fan_ctl *c, uint32_t conn, uint32_t node)
{
	assert(conn < FAN_CTL_CONNS_MAX && node < c->nodes);
	const struct ctl_node *n = &c->node[node];

	if (!n->address[0] || !c->o.is_from || c->o.is_from(c->o.ctx, conn, n->address))
		return true;
	ctl_refuse(c, conn, "\"%s\" comes from %s in %s, and this from elsewhere", n->name,
		   n->address, c->o.file);
	return false;
}

/* May the daemon be this node?  If not, it is refused. */
static bool may_be(struct fan_ctl *c, uint32_t conn, const struct hello *h, uint32_t node)
{
	if (node == CTL_NONE) {
		ctl_refuse(c, conn, "hello: no node \"%.63s\" in %s", h->name, c->o.file);
		return false;
	}
	const struct ctl_node *n = &c->node[node];
	if (n->kind == FAN_NODE_WORKER || strcmp(fan_node_kinds[n->kind], h->kind) != 0) {
		ctl_refuse(c, conn, "hello: \"%s\" is a %s in %s, and the daemon a %.16s", n->name,
			   fan_node_kinds[n->kind], c->o.file, h->kind);
		return false;
	}
	if (!ctl_node_is_from(c, conn, node))
		return false;
	if (n->conn != CTL_NONE && c->now_ns - n->heard_ns < FAN_CTL_SILENT_MS * CTL_MS) {
		ctl_refuse(c, conn, "hello: %s \"%s\" is connected already",
			   fan_node_kinds[n->kind], n->name);
		return false;
	}
	return true;
}

/* Is it the same process, at the same address, with as many shards? */
static bool is_same(const struct ctl_node *n, const struct hello *h)
{
	return n->started == (int64_t)h->started && strcmp(n->listen, h->listen) == 0 &&
	       n->shards == (uint32_t)h->shards;
}

/* Handle the loss of a daemon that was restarted before the loss was noticed. */
static void was_here(struct fan_ctl *c, uint32_t node, const struct hello *h)
{
	assert(node < c->nodes);
	const struct ctl_node *n = &c->node[node];

	if (n->state == CTL_UP && !is_same(n, h))
		is_gone(c, node, "it began anew");
}

void ctl_node_hello(struct fan_ctl *c, uint32_t conn, const json_t *line)
{
	struct hello h;

	if (!read_hello(c, conn, line, &h))
		return;
	uint32_t node = ctl_node_named(c, h.name);
	if (!may_be(c, conn, &h, node))
		return;
	struct ctl_node *n = &c->node[node];
	if (n->conn != CTL_NONE) /* the old connection is silent */
		hang_up(c, n);
	was_here(c, node, &h);
	bool moved = n->state != CTL_NEVER && strcmp(n->listen, h.listen) != 0;
	c->conn[conn].kind = CTL_CONN_NODE;
	c->conn[conn].node = node;
	n->conn = conn;
	n->heard_ns = c->now_ns;
	n->cut_ns = 0;
	snprintf(n->listen, sizeof n->listen, "%s", h.listen);
	n->shards = (uint32_t)h.shards;
	n->slots = (uint32_t)h.slots;
	n->started = (int64_t)h.started;
	snprintf(n->above, sizeof n->above, "%s", h.above);
	n->index = (uint32_t)h.index;
	n->siblings = (uint32_t)h.siblings;
	ctl_note(c, "%s %s %s at %s, with %zu routes", fan_node_kinds[n->kind], n->name,
		 n->state == CTL_NEVER ? "is there" : "is back", n->listen,
		 json_array_size(h.routes));
	if (n->state != CTL_UP) {
		enter(c, n, CTL_UP);
		ctl_drain_came(c, n);
		ctl_plan_in(c, FAN_CTL_ARRIVAL_MS, "%s %s came%s", fan_node_kinds[n->kind], n->name,
			    moved ? " to another address" : "");
	}
	ctl_link_node_in(c, node);
	ctl_route_greet(c, node, h.routes);
}

/* ---- later lines ---- */

static uint64_t count_of(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

static void take_health(struct ctl_node *n, const json_t *h)
{
	n->packets = count_of(h, "packets");
	n->hits = count_of(h, "hits");
	n->passed = count_of(h, "passed");
	n->collisions = count_of(h, "collisions");
	n->results = count_of(h, "results");
	n->drops = count_of(h, "drops");
}

void ctl_node_line(struct fan_ctl *c, uint32_t conn, const json_t *line)
{
	assert(c->conn[conn].kind == CTL_CONN_NODE);
	uint32_t node = c->conn[conn].node;
	struct ctl_node *n = &c->node[node];
	const json_t *health = json_object_get(line, "health");
	const json_t *ok = json_object_get(line, "ok"), *error = json_object_get(line, "error");
	const char *why = json_string_value(json_object_get(line, "why"));

	n->heard_ns = c->now_ns;
	if (json_is_object(health)) {
		take_health(n, health);
		ctl_link_health(c, node, health);
		ctl_load_health(c, node, health);
	} else if (json_is_integer(ok)) {
		ctl_route_answer(c, node, json_integer_value(ok), NULL);
	} else if (json_is_integer(error)) {
		ctl_route_answer(c, node, json_integer_value(error), why ? why : "for no reason");
	} else if (json_is_true(json_object_get(line, "stopping"))) {
		hang_up(c, n);
		is_gone(c, node, "it is being stopped");
	} else {
		ctl_refuse(c, conn, "\"%s\": expected health, ok, error or stopping", n->name);
	}
}

void ctl_node_closed(struct fan_ctl *c, uint32_t node)
{
	assert(node < c->nodes);
	struct ctl_node *n = &c->node[node];

	n->conn = CTL_NONE;
	if (n->state != CTL_UP)
		return;
	if (n->kind == FAN_NODE_SERVER) /* waiting costs less than losing an aggregator */
		n->cut_ns = c->now_ns;
	else
		is_gone(c, node, "its line was cut");
}

void ctl_node_slept(struct fan_ctl *c, uint64_t late_ns)
{
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		n->heard_ns = fan_awake_shift(n->heard_ns, late_ns, c->now_ns);
		if (n->cut_ns)
			n->cut_ns = fan_awake_shift(n->cut_ns, late_ns, c->now_ns);
		if (n->stray_ns < UINT64_MAX - late_ns)
			n->stray_ns += late_ns;
	}
}

void ctl_node_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		if (n->conn != CTL_NONE && c->now_ns - n->heard_ns >= FAN_CTL_SILENT_MS * CTL_MS) {
			hang_up(c, n);
			is_gone(c, i, "it is silent");
		} else if (n->cut_ns && c->now_ns - n->cut_ns >= FAN_CTL_BACK_MS * CTL_MS) {
			is_gone(c, i, "its line was cut");
		}
	}
}

uint64_t ctl_node_deadline(const struct fan_ctl *c)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < c->nodes; i++) {
		const struct ctl_node *n = &c->node[i];
		uint64_t at = n->conn != CTL_NONE ? n->heard_ns + FAN_CTL_SILENT_MS * CTL_MS
			      : n->cut_ns	  ? n->cut_ns + FAN_CTL_BACK_MS * CTL_MS
						  : UINT64_MAX;
		due = at < due ? at : due;
	}
	return due;
}

bool ctl_all_up(const struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].state != CTL_UP)
			return false;
	return true;
}
