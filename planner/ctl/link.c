/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - links that fail while their ends are up: daemons ask neighbours and report silent ones.
 *
 * A link goes down as soon as either end reports silence while both are up, and is used again once
 * both ends have heard each other for a while.  This time grows with the number of failures, so
 * that a faulty cable does not move jobs again and again. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_priv.h"

int ctl_link_load(struct fan_ctl *c, const struct fan_topo *t)
{
	assert(!c->link);
	c->link = calloc(t->links + 1, sizeof *c->link);
	if (!c->link)
		return FAN_E_NOMEM;
	c->links = t->links;
	for (uint32_t i = 0; i < t->links; i++) {
		const struct fan_link *l = &t->link[i];
		bool watched = t->node[l->a].kind != FAN_NODE_WORKER &&
			       t->node[l->b].kind != FAN_NODE_WORKER;
		c->link[i] = (struct ctl_link){
			.end = {l->a, l->b},
			.state = watched ? CTL_LINK_UP : CTL_LINK_UNWATCHED,
			.since_ns = c->now_ns,
			.gbps = l->gbps - l->background_gbps,
			.others = {.whole_gbps = l->gbps},
		};
	}
	return FAN_OK;
}

unsigned ctl_link_end(const struct ctl_link *l, uint32_t node)
{
	return l->end[0] == node ? 0 : l->end[1] == node ? 1 : 2;
}

uint32_t ctl_link_between(const struct fan_ctl *c, const char *a, const char *b)
{
	uint32_t ends[2] = {ctl_node_named(c, a), ctl_node_named(c, b)};

	for (uint32_t i = 0; i < c->links; i++)
		if (ctl_link_end(&c->link[i], ends[0]) + ctl_link_end(&c->link[i], ends[1]) == 1)
			return i;
	return CTL_NONE;
}

/* ---- lists of neighbours ---- */

static void age_list(struct ctl_node *n)
{
	n->list = 0; /* its reports do not count until it has a new list */
	n->list_is_old = true;
}

/* Send the node's neighbours new lists, since it has come or gone. */
static void age_lists(struct fan_ctl *c, uint32_t node)
{
	for (uint32_t i = 0; i < c->links; i++) {
		const struct ctl_link *l = &c->link[i];
		unsigned end = ctl_link_end(l, node);
		if (l->state != CTL_LINK_UNWATCHED && end < 2)
			age_list(&c->node[l->end[!end]]);
	}
}

void ctl_link_node_in(struct fan_ctl *c, uint32_t node)
{
	assert(node < c->nodes);
	age_list(&c->node[node]);
	age_lists(c, node);
}

void ctl_link_gone(struct fan_ctl *c, uint32_t node)
{
	assert(node < c->nodes);
	c->node[node].list = 0;
	age_lists(c, node);
	for (uint32_t i = 0; i < c->links; i++) {
		struct ctl_link *l = &c->link[i];
		if (ctl_link_end(l, node) == 2)
			continue;
		l->silent[0] = l->silent[1] = false;
		if (l->state != CTL_LINK_DOWN ||
		    c->now_ns - l->since_ns > FAN_CTL_BLAME_MS * CTL_MS)
			continue;
		l->state = CTL_LINK_UP; /* the node failed, not the link */
		l->since_ns = c->now_ns;
		l->flaps--;
	}
}

static json_t *list_json(const struct fan_ctl *c, uint32_t node)
{
	assert(node < c->nodes);
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->links && json_array_size(list) < FAN_CTL_BESIDE_MAX; i++) {
		const struct ctl_link *l = &c->link[i];
		unsigned end = ctl_link_end(l, node);
		if (l->state == CTL_LINK_UNWATCHED || end == 2 ||
		    c->node[l->end[!end]].state != CTL_UP)
			continue;
		const struct ctl_node *other = &c->node[l->end[!end]];
		json_array_append_new(
			list, json_pack("{ss ss}", "name", other->name, "at", other->listen));
	}
	return list;
}

static void send_lists(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		if (!n->list_is_old || n->conn == CTL_NONE)
			continue;
		c->last_list = c->last_list == UINT32_MAX ? 1 : c->last_list + 1;
		n->list = c->last_list;
		n->list_is_old = false;
		ctl_send(c, n->conn,
			 json_pack("{s{sI so}}", "neighbours", "number", (json_int_t)n->list, "of",
				   list_json(c, i)));
	}
}

/* ---- reports ---- */

static bool names(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list) && i < FAN_CTL_BESIDE_MAX; i++) {
		const char *text = json_string_value(json_array_get(list, i));
		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

void ctl_link_health(struct fan_ctl *c, uint32_t node, const json_t *health)
{
	assert(node < c->nodes);
	const struct ctl_node *n = &c->node[node];
	const json_t *silent = json_object_get(health, "silent");

	if (!n->list || json_integer_value(json_object_get(health, "neighbours")) != n->list)
		return;
	for (uint32_t i = 0; i < c->links; i++) {
		struct ctl_link *l = &c->link[i];
		unsigned end = ctl_link_end(l, node);
		if (l->state != CTL_LINK_UNWATCHED && end < 2)
			l->silent[end] = c->node[l->end[!end]].state == CTL_UP &&
					 names(silent, c->node[l->end[!end]].name);
	}
}

/* ---- states of links ---- */

static uint64_t hold_ns(const struct ctl_link *l)
{
	uint64_t ms = FAN_CTL_HOLD_MS;

	for (uint32_t i = 1; i < l->flaps && ms < FAN_CTL_HOLD_MAX_MS; i++)
		ms *= 2;
	return (ms < FAN_CTL_HOLD_MAX_MS ? ms : FAN_CTL_HOLD_MAX_MS) * CTL_MS;
}

static void go_down(struct fan_ctl *c, struct ctl_link *l)
{
	assert(l->state == CTL_LINK_UP && (l->silent[0] || l->silent[1]));
	const struct ctl_node *a = &c->node[l->end[0]], *b = &c->node[l->end[1]];
	unsigned end = l->silent[0] ? 0 : 1;

	l->state = CTL_LINK_DOWN;
	l->since_ns = c->now_ns;
	l->heard_ns = 0;
	l->flaps += l->flaps < UINT32_MAX;
	ctl_note(c, "link %s-%s is down: %s does not hear %s", a->name, b->name,
		 c->node[l->end[end]].name, c->node[l->end[!end]].name);
	ctl_plan_in(c, FAN_CTL_SETTLE_MS, "link %s-%s is down", a->name, b->name);
}

static void link_up(struct fan_ctl *c, struct ctl_link *l)
{
	assert(l->state == CTL_LINK_DOWN && !l->silent[0] && !l->silent[1]);
	const struct ctl_node *a = &c->node[l->end[0]], *b = &c->node[l->end[1]];

	ctl_note(c, "link %s-%s is back after %.1f s", a->name, b->name,
		 (double)(c->now_ns - l->since_ns) / 1e9);
	l->state = CTL_LINK_UP;
	l->since_ns = c->now_ns;
	ctl_plan_in(c, FAN_CTL_ARRIVAL_MS, "link %s-%s came back", a->name, b->name);
}

static void judge(struct fan_ctl *c, struct ctl_link *l)
{
	bool bad = l->silent[0] || l->silent[1];

	if (l->state == CTL_LINK_UP) {
		if (l->flaps && c->now_ns - l->since_ns >= FAN_CTL_CALM_MS * CTL_MS)
			l->flaps = 0;
		if (bad)
			go_down(c, l);
		return;
	}
	if (bad)
		l->heard_ns = 0;
	else if (!l->heard_ns)
		l->heard_ns = c->now_ns;
	else if (c->now_ns - l->heard_ns >= hold_ns(l))
		link_up(c, l);
}

void ctl_link_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->links; i++)
		if (c->link[i].state != CTL_LINK_UNWATCHED)
			judge(c, &c->link[i]);
	send_lists(c);
}

uint64_t ctl_link_deadline(const struct fan_ctl *c)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < c->links; i++) {
		const struct ctl_link *l = &c->link[i];
		if (l->state == CTL_LINK_DOWN && l->heard_ns && l->heard_ns + hold_ns(l) < due)
			due = l->heard_ns + hold_ns(l);
	}
	return due;
}

double ctl_link_back_s(const struct fan_ctl *c, const struct ctl_link *l)
{
	uint64_t at_ns = l->heard_ns + hold_ns(l);

	return at_ns > c->now_ns ? (double)(at_ns - c->now_ns) / 1e9 : 0;
}

json_t *ctl_links_json(const struct fan_ctl *c)
{
	static const char *const states[] = {"not watched", "up", "down"};
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->links; i++) {
		const struct ctl_link *l = &c->link[i];
		json_t *o = json_pack("{ss ss ss sf sI sf sf}", "a", c->node[l->end[0]].name, "b",
				      c->node[l->end[1]].name, "state", states[l->state], "since_s",
				      (double)(c->now_ns - l->since_ns) / 1e9, "flaps",
				      (json_int_t)l->flaps, "load_gbps", ctl_load_of(l),
				      "measured_gbps", ctl_load_measured(l));
		if (o && l->state == CTL_LINK_DOWN && l->heard_ns)
			json_object_set_new(o, "back_in_s", json_real(ctl_link_back_s(c, l)));
		json_array_append_new(list, o);
	}
	return list;
}
