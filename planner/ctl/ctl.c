/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_priv.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/awake.h"
#include "file/text.h"
#include "plan/topo_json.h"

/* ---- texts ---- */

static void print(char *to, size_t bytes, const char *format, va_list args)
{
	vsnprintf(to, bytes, format, args);
	fan_text_plain(to);
}

void ctl_print(char *to, size_t bytes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(to, bytes, format, args);
	va_end(args);
}

void ctl_note(struct fan_ctl *c, const char *format, ...)
{
	struct ctl_event *e = &c->event[c->events++ % FAN_CTL_EVENTS_MAX];
	va_list args;

	e->at_ns = c->now_ns;
	va_start(args, format);
	print(e->what, sizeof e->what, format, args);
	va_end(args);
	if (c->o.log)
		c->o.log(c->o.ctx, e->what);
}

void ctl_send(struct fan_ctl *c, uint32_t conn, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	if (text && conn != CTL_NONE)
		c->o.send(c->o.ctx, conn, text, strlen(text));
	free(text);
	json_decref(value);
}

void ctl_refuse(struct fan_ctl *c, uint32_t conn, const char *format, ...)
{
	char text[FAN_CTL_EVENT_BYTES];
	va_list args;

	va_start(args, format);
	print(text, sizeof text, format, args);
	va_end(args);
	ctl_note(c, "refused: %s", text);
	ctl_send(c, conn, json_pack("{ss}", "refused", text));
	c->o.close(c->o.ctx, conn);
	fan_ctl_closed(c, c->now_ns, conn);
}

void ctl_plan_in(struct fan_ctl *c, uint32_t ms, const char *format, ...)
{
	uint64_t due = c->now_ns + ms * CTL_MS;
	va_list args;

	va_start(args, format);
	print(c->cause, sizeof c->cause, format, args);
	va_end(args);
	c->changes++;
	if (due < c->plan_ns)
		c->plan_ns = due;
}

uint32_t ctl_node_named(const struct fan_ctl *c, const char *name)
{
	for (uint32_t i = 0; name && i < c->nodes; i++)
		if (strcmp(c->node[i].name, name) == 0)
			return i;
	return CTL_NONE;
}

uint32_t ctl_job_named(const struct fan_ctl *c, const char *name)
{
	for (uint32_t i = 0; name && i < c->jobs; i++)
		if (c->job[i].said && strcmp(c->job[i].name, name) == 0)
			return i;
	return CTL_NONE;
}

bool ctl_job_is_of(const struct ctl_job *j, const char *name)
{
	const size_t bytes = fan_job_name_bytes(j->name, j->groups);

	return j->said && name &&
	       (strcmp(j->name, name) == 0 ||
		(j->groups && strlen(name) == bytes && memcmp(name, j->name, bytes) == 0));
}

/* ---- begin and end ---- */

/* Load the addresses that nodes dial from, which plans do not use. */
static int load_addresses(struct fan_ctl *c, const json_t *root, struct fan_why *why)
{
	const json_t *list = json_object_get(root, "nodes");

	for (size_t i = 0; i < json_array_size(list) && i < c->nodes; i++) {
		const json_t *address = json_object_get(json_array_get(list, i), "address");
		const char *text = json_string_value(address);
		char whole[CTL_ADDRESS_BYTES + 8];
		bool v6 = text && strchr(text, ':');
		if (!address)
			continue;
		snprintf(whole, sizeof whole, v6 ? "[%s]:1" : "%s:1", text ? text : "");
		if (!text || strlen(text) >= CTL_ADDRESS_BYTES || !c->o.is_address(whole))
			return fan_why_set(why, FAN_E_CONFIG,
					   "nodes[%zu].address: expected the address of a host, "
					   "without a port",
					   i);
		snprintf(c->node[i].address, sizeof c->node[i].address, "%s", text);
	}
	return FAN_OK;
}

static int load_nodes(struct fan_ctl *c, const struct fan_topo *t)
{
	c->node = calloc(t->nodes + 1, sizeof *c->node);
	if (!c->node)
		return FAN_E_NOMEM;
	c->nodes = t->nodes;
	for (uint32_t i = 0; i < t->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		memcpy(n->name, t->node[i].name, sizeof n->name);
		n->kind = t->node[i].kind;
		n->conn = CTL_NONE;
		n->parent = t->node[i].parent == FAN_NODE_NONE ? CTL_NONE : t->node[i].parent;
		n->since_ns = c->now_ns;
		n->gbps = t->node[i].gbps - t->node[i].background_gbps;
		if (n->kind == FAN_NODE_WORKER) /* a worker need not be up */
			n->state = CTL_UP;
	}
	return FAN_OK;
}

static int load(struct fan_ctl *c, const json_t *root, struct fan_why *why)
{
	struct fan_topo t;
	int err = fan_topo_from_json(&t, root, why);

	if (err)
		return err;
	c->root = fan_topo_to_json(&t); /* with the job of all workers, if none was given */
	err = c->root ? load_nodes(c, &t) : FAN_E_NOMEM;
	if (!err)
		err = load_addresses(c, root, why);
	if (!err)
		err = ctl_link_load(c, &t);
	for (uint32_t i = 0; i < t.jobs && !err; i++)
		err = ctl_job_admit(c, &t, i, why);
	fan_topo_free(&t);
	if (!err && c->o.given)
		err = ctl_plan_take(c, c->o.given, why);
	if (!err && c->o.state)
		err = ctl_state_load(c, c->o.state, why);
	return err;
}

int fan_ctl_new(struct fan_ctl **out, const json_t *root, const struct fan_ctl_options *o,
		uint64_t now_ns, struct fan_why *why)
{
	struct fan_ctl *c = calloc(1, sizeof *c);

	*out = NULL;
	why->text[0] = '\0';
	if (!c)
		return FAN_E_NOMEM;
	c->o = *o;
	c->now_ns = c->start_ns = now_ns;
	c->awake_ns = now_ns + FAN_CTL_AWAKE_MS * CTL_MS;
	c->plan_ns = UINT64_MAX;
	int err = load(c, root, why);
	if (err) {
		fan_ctl_free(c);
		return err;
	}
	*out = c;
	return FAN_OK;
}

void fan_ctl_free(struct fan_ctl *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i])
			ctl_route_free(c, c->route[i]);
	for (uint32_t i = 0; i < c->jobs; i++)
		ctl_job_free(&c->job[i]);
	free(c->job);
	free(c->link);
	free(c->node);
	json_decref(c->root);
	free(c);
}

/* ---- events in ---- */

void fan_ctl_opened(struct fan_ctl *c, uint64_t now_ns, unsigned conn)
{
	assert(conn < FAN_CTL_CONNS_MAX);
	c->now_ns = now_ns;
	c->conn[conn] = (struct ctl_conn){.kind = CTL_CONN_NEW, .since_ns = now_ns};
}

static void first_line(struct fan_ctl *c, uint32_t conn, const json_t *line)
{
	if (json_object_get(line, "hello"))
		ctl_node_hello(c, conn, line);
	else if (json_object_get(line, "join"))
		ctl_job_join(c, conn, line);
	else
		ctl_refuse(c, conn, "expected \"hello\" of a daemon or \"join\" of a worker");
}

void fan_ctl_line(struct fan_ctl *c, uint64_t now_ns, unsigned conn, const char *text, size_t bytes)
{
	assert(conn < FAN_CTL_CONNS_MAX);
	json_error_t error;

	c->now_ns = now_ns;
	if (c->conn[conn].kind == CTL_CONN_FREE) /* it was refused while lines were in flight */
		return;
	json_t *line = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(line))
		ctl_refuse(c, conn, "expected a JSON object in a line, column %d: %s", error.column,
			   line ? "something else" : error.text);
	else if (c->conn[conn].kind == CTL_CONN_NEW)
		first_line(c, conn, line);
	else if (c->conn[conn].kind == CTL_CONN_NODE)
		ctl_node_line(c, conn, line);
	else
		ctl_job_line(c, conn, line);
	json_decref(line);
}

void fan_ctl_closed(struct fan_ctl *c, uint64_t now_ns, unsigned conn)
{
	assert(conn < FAN_CTL_CONNS_MAX);
	struct ctl_conn was = c->conn[conn];

	c->now_ns = now_ns;
	memset(&c->conn[conn], 0, sizeof c->conn[conn]);
	if (was.kind == CTL_CONN_NODE && c->node[was.node].conn == conn)
		ctl_node_closed(c, was.node);
	if (was.kind == CTL_CONN_WORKER && c->job[was.job].rank[was.rank].conn == conn)
		ctl_job_closed(c, was.job, was.rank);
}

bool fan_ctl_is_named(const struct fan_ctl *c, unsigned conn)
{
	return c->conn[conn].kind == CTL_CONN_NODE || c->conn[conn].kind == CTL_CONN_WORKER;
}

static void end_nameless(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < FAN_CTL_CONNS_MAX; i++)
		if (c->conn[i].kind == CTL_CONN_NEW &&
		    c->now_ns - c->conn[i].since_ns >= FAN_CTL_NAMELESS_MS * CTL_MS)
			ctl_refuse(c, i, "neither \"hello\" nor \"join\" came");
}

/* Do not count time in which the controller did not run as silence: its machine was suspended, or
 * it got no processor. */
static void wake(struct fan_ctl *c)
{
	const uint64_t late_ns = fan_awake_late_ns(c->awake_ns, c->now_ns);

	c->awake_ns = c->now_ns + FAN_CTL_AWAKE_MS * CTL_MS;
	if (late_ns) {
		ctl_node_slept(c, late_ns);
		ctl_job_slept(c, late_ns);
	}
}

void fan_ctl_tick(struct fan_ctl *c, uint64_t now_ns)
{
	c->now_ns = now_ns;
	wake(c);
	end_nameless(c);
	ctl_node_tick(c);
	ctl_link_tick(c);
	ctl_load_tick(c);
	ctl_job_tick(c);
	ctl_drain_tick(c);
	if (c->phase == CTL_GATHERING &&
	    (ctl_all_up(c) || now_ns >= c->start_ns + c->o.wait_ms * CTL_MS)) {
		c->phase = CTL_WATCHING;
		ctl_job_lost_absent(c);
		ctl_plan_in(c, 0, "%s",
			    ctl_all_up(c) ? "all daemons are there"
					  : "enough was waited for daemons");
	}
	if (c->phase != CTL_GATHERING && now_ns >= c->plan_ns)
		ctl_plan(c);
	ctl_route_tick(c);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t fan_ctl_deadline(const struct fan_ctl *c)
{
	uint64_t due = least(ctl_node_deadline(c), ctl_route_deadline(c));

	due = least(due, c->awake_ns);
	due = least(due, ctl_link_deadline(c));
	due = least(due, ctl_drain_deadline(c));
	due = least(due,
		    c->phase == CTL_GATHERING ? c->start_ns + c->o.wait_ms * CTL_MS : c->plan_ns);
	for (uint32_t i = 0; i < FAN_CTL_CONNS_MAX; i++)
		if (c->conn[i].kind == CTL_CONN_NEW)
			due = least(due, c->conn[i].since_ns + FAN_CTL_NAMELESS_MS * CTL_MS);
	for (uint32_t i = 0; i < c->jobs; i++)
		for (uint32_t r = 0; r < c->job[i].ranks; r++) {
			uint64_t absent = c->job[i].rank[r].absent_ns;
			uint64_t until = absent + FAN_CTL_ABSENT_MS * CTL_MS;
			if (absent && until > c->now_ns)
				due = least(due, until);
		}
	return due;
}

uint64_t fan_ctl_events(const struct fan_ctl *c)
{
	return c->events;
}
