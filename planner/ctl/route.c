/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - route numbers, and the entries that switches have under them.
 *
 * A number is given out again only after all others; what is installed under it never changes.  A
 * switch that comes back gets its entries again, under the same numbers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_priv.h"

#define STOP_BITS 20u /* of an id: number of the stop */

static bool is_ours(const struct fan_ctl *c, uint16_t number)
{
	return c->ours[number / 8] >> number % 8 & 1;
}

struct ctl_route *ctl_route_numbered(const struct fan_ctl *c, uint16_t number)
{
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i] && c->route[i]->number == number)
			return c->route[i];
	return NULL;
}

static bool is_stray(const struct fan_ctl *c, uint16_t number)
{
	for (uint32_t i = 0; i < c->nodes; i++)
		for (uint32_t k = 0; k < c->node[i].strays; k++)
			if (c->node[i].stray[k] == number)
				return true;
	return false;
}

/* The next unused number; 0: there is none. */
static uint16_t new_number(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < UINT16_MAX; i++) {
		c->last_number = c->last_number == UINT16_MAX ? 1 : (uint16_t)(c->last_number + 1);
		if (!ctl_route_numbered(c, c->last_number) && !is_stray(c, c->last_number))
			return c->last_number;
	}
	return 0;
}

/* ---- from installations ---- */

static uint32_t mapped(const uint32_t *map, uint32_t node)
{
	return node == FAN_NODE_NONE ? CTL_NONE : map[node];
}

static struct ctl_entry entry_from(const struct fan_install_entry *e, const uint32_t *map)
{
	struct ctl_entry to = {
		.from = mapped(map, e->from),
		.next = mapped(map, e->next),
		.depth = (uint8_t)e->depth,
		.sums = e->sums,
	};

	memcpy(to.ranks, e->ranks, sizeof to.ranks);
	return to;
}

static bool fill_stop(struct ctl_stop *to, const struct fan_install *in,
		      const struct fan_install_stop *from, const uint32_t *map)
{
	to->node = mapped(map, from->node);
	to->quota = from->quota;
	to->state = CTL_WANTED;
	to->entry = calloc(from->entries + 1, sizeof *to->entry);
	if (!to->entry)
		return false;
	to->entries = from->entries;
	for (uint32_t i = 0; i < from->entries; i++)
		to->entry[i] = entry_from(&in->entry[from->entry + i], map);
	return true;
}

static struct ctl_route **free_place(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (!c->route[i])
			return &c->route[i];
	return NULL;
}

struct ctl_route *ctl_route_new(struct fan_ctl *c, uint16_t number, uint32_t job, uint32_t part,
				const struct fan_install *in, const struct fan_install_part *from,
				const uint32_t *map)
{
	assert(job < c->jobs && part < FAN_PARTS_MAX);
	struct ctl_route **place = free_place(c);
	bool free_number = !number || !ctl_route_numbered(c, number);
	struct ctl_route *r = place && free_number ? calloc(1, sizeof *r) : NULL;

	if (!number && r)
		number = new_number(c);
	if (!r || !number) {
		free(r);
		return NULL;
	}
	c->ours[number / 8] |= (uint8_t)(1u << number % 8);
	*place = r;
	r->number = number;
	r->job = job;
	r->part = part;
	r->server = mapped(map, from->server);
	r->ranks = in->t->job[from->job].workers;
	r->join = calloc(r->ranks, sizeof *r->join);
	r->stop = calloc(from->stops + 1, sizeof *r->stop);
	bool ok = r->join && r->stop;
	for (uint32_t i = 0; i < r->ranks && ok; i++)
		r->join[i] = mapped(map, from->join[i]);
	for (uint32_t i = 0; i < from->stops && ok; i++) {
		ok = fill_stop(&r->stop[i], in, &in->stop[from->stop + i], map);
		r->stops += ok;
	}
	if (ok)
		return r;
	ctl_route_free(c, r);
	return NULL;
}

void ctl_route_free(struct fan_ctl *c, struct ctl_route *r)
{
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i] == r)
			c->route[i] = NULL;
	for (uint32_t i = 0; i < r->stops; i++)
		free(r->stop[i].entry);
	free(r->stop);
	free(r->join);
	free(r);
}

static bool same_entry(const struct ctl_entry *a, const struct ctl_entry *b)
{
	return a->from == b->from && a->next == b->next && a->depth == b->depth &&
	       a->sums == b->sums && memcmp(a->ranks, b->ranks, sizeof a->ranks) == 0;
}

static bool has_entry(const struct ctl_stop *s, const struct ctl_entry *e)
{
	for (uint32_t i = 0; i < s->entries; i++)
		if (same_entry(&s->entry[i], e))
			return true;
	return false;
}

static bool has_stop(const struct ctl_route *r, const struct fan_install *in,
		     const struct fan_install_stop *from, const uint32_t *map)
{
	for (uint32_t i = 0; i < r->stops; i++) {
		if (r->stop[i].node != mapped(map, from->node))
			continue;
		if (r->stop[i].entries != from->entries)
			return false;
		for (uint32_t k = 0; k < from->entries; k++) {
			struct ctl_entry e = entry_from(&in->entry[from->entry + k], map);
			if (!has_entry(&r->stop[i], &e))
				return false;
		}
		return true;
	}
	return false;
}

bool ctl_route_is(const struct ctl_route *r, const struct fan_install *in,
		  const struct fan_install_part *from, const uint32_t *map)
{
	if (r->server != mapped(map, from->server) || r->stops != from->stops)
		return false;
	for (uint32_t i = 0; i < r->ranks; i++)
		if (r->join[i] != mapped(map, from->join[i]))
			return false;
	for (uint32_t i = 0; i < from->stops; i++)
		if (!has_stop(r, in, &in->stop[from->stop + i], map))
			return false;
	return true;
}

/* ---- lines out ---- */

static json_t *install_json(const struct fan_ctl *c, const struct ctl_route *r, uint32_t stop)
{
	assert(stop < r->stops);
	const struct ctl_stop *s = &r->stop[stop];
	json_t *entries = json_array();

	for (uint32_t i = 0; i < s->entries; i++) {
		const struct ctl_entry *e = &s->entry[i];
		const char *from = e->from == CTL_NONE ? NULL : c->node[e->from].listen;
		json_array_append_new(entries, json_pack("{ss? so ss si sb}", "from", from, "ranks",
							 fan_ranks_json(e->ranks), "next",
							 c->node[e->next].listen, "depth",
							 (int)e->depth, "sums", e->sums));
	}
	return json_pack("{si si so}", "route", (int)r->number, "quota", (int)s->quota, "entries",
			 entries);
}

/* The id of a request and its answer: the route, its stop, and whether this removes it. */
static json_int_t id_of(const struct ctl_route *r, uint32_t stop, bool leaves)
{
	return (json_int_t)(((uint64_t)r->number << STOP_BITS | stop) << 1 | leaves);
}

void ctl_route_push(struct fan_ctl *c, struct ctl_route *r)
{
	for (uint32_t i = 0; i < r->stops && r->state != CTL_LEAVING; i++) {
		const struct ctl_node *n = &c->node[r->stop[i].node];
		if (r->stop[i].state != CTL_WANTED || n->conn == CTL_NONE)
			continue;
		r->stop[i].state = CTL_ASKED;
		ctl_send(c, n->conn,
			 json_pack("{sI so}", "id", id_of(r, i, false), "install",
				   install_json(c, r, i)));
	}
}

bool ctl_route_is_there(const struct ctl_route *r)
{
	for (uint32_t i = 0; i < r->stops; i++)
		if (r->stop[i].state != CTL_THERE)
			return false;
	return true;
}

void ctl_route_leave(struct fan_ctl *c, struct ctl_route *r, uint32_t ms)
{
	if (r->state == CTL_LEAVING)
		return;
	r->state = CTL_LEAVING;
	r->leave_ns = c->now_ns + ms * CTL_MS;
	for (uint32_t i = 0; i < r->stops; i++)
		if (r->stop[i].state == CTL_ASKED) /* ignore its answer to the installation */
			r->stop[i].state = CTL_THERE;
}

static void drop_stop(struct ctl_route *r, uint32_t stop)
{
	assert(stop < r->stops);
	free(r->stop[stop].entry);
	r->stop[stop].entry = NULL;
	r->stop[stop].entries = 0;
	r->stop[stop].state = CTL_WANTED; /* of a leaving route: nothing is left to be done */
}

static bool is_removed(const struct ctl_route *r)
{
	for (uint32_t i = 0; i < r->stops; i++)
		if (r->stop[i].state != CTL_WANTED)
			return false;
	return true;
}

/* Remove a route from its switches.  One that is down has lost it, or removes it when it is
 * back. */
static void push_leave(struct fan_ctl *c, struct ctl_route *r)
{
	for (uint32_t i = 0; i < r->stops; i++) {
		const struct ctl_node *n = &c->node[r->stop[i].node];
		if (r->stop[i].state != CTL_THERE)
			continue;
		r->stop[i].state = CTL_ASKED;
		if (n->conn == CTL_NONE)
			drop_stop(r, i);
		else
			ctl_send(c, n->conn,
				 json_pack("{sI si}", "id", id_of(r, i, true), "remove",
					   (int)r->number));
	}
	if (is_removed(r))
		ctl_route_free(c, r);
}

void ctl_route_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i] && c->route[i]->state == CTL_LEAVING &&
		    c->now_ns >= c->route[i]->leave_ns) {
			c->route[i]->leave_ns = UINT64_MAX;
			push_leave(c, c->route[i]);
		}
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct ctl_node *n = &c->node[i];
		if (!n->strays || c->now_ns < n->stray_ns)
			continue;
		ctl_note(c, "%s: removed %u routes of an earlier controller", n->name, n->strays);
		for (uint32_t k = 0; k < n->strays; k++)
			if (!is_ours(c, n->stray[k])) /* not restored since then */
				ctl_send(c, n->conn,
					 json_pack("{si si}", "id", 0, "remove", (int)n->stray[k]));
		n->strays = 0;
	}
}

uint64_t ctl_route_deadline(const struct fan_ctl *c)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i] && c->route[i]->state == CTL_LEAVING && c->route[i]->leave_ns < due)
			due = c->route[i]->leave_ns;
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].strays && c->node[i].stray_ns < due)
			due = c->node[i].stray_ns;
	return due;
}

/* ---- lines in ---- */

/* Handle a refusal by a switch: another plan, with another number, may be accepted. */
static void refused(struct fan_ctl *c, struct ctl_route *r, const struct ctl_node *n,
		    const char *why)
{
	assert(r->job < c->jobs);
	struct ctl_job *j = &c->job[r->job];

	ctl_note(c, "%s refuses route %u of %s: %s", n->name, r->number, j->name, why);
	ctl_print(j->why, sizeof j->why, "%s refuses route %u: %.200s", n->name, r->number, why);
	r->broken = true;
	if (++j->refusals <= CTL_REFUSALS_MAX)
		ctl_plan_in(c, FAN_CTL_ARRIVAL_MS, "%s refused a route", n->name);
}

void ctl_route_answer(struct fan_ctl *c, uint32_t node, int64_t id, const char *error)
{
	assert(node < c->nodes);
	uint32_t stop = (uint32_t)(id >> 1) & ((1u << STOP_BITS) - 1);
	int64_t number = id >> (STOP_BITS + 1);
	struct ctl_route *r = number >= 1 && number <= UINT16_MAX
				      ? ctl_route_numbered(c, (uint16_t)number)
				      : NULL;
	bool leaves = id & 1;

	if (!r || stop >= r->stops || r->stop[stop].node != node ||
	    r->stop[stop].state != CTL_ASKED || leaves != (r->state == CTL_LEAVING))
		return; /* the answer is outdated */
	if (leaves) {
		drop_stop(r, stop);
		if (is_removed(r))
			ctl_route_free(c, r);
		return;
	}
	if (error) {
		refused(c, r, &c->node[node], error);
		return;
	}
	r->stop[stop].state = CTL_THERE;
	ctl_job_settle(c, r->job);
}

static void greet_number(struct fan_ctl *c, uint32_t node, uint16_t number)
{
	assert(node < c->nodes);
	struct ctl_node *n = &c->node[node];
	struct ctl_route *r = ctl_route_numbered(c, number);

	for (uint32_t i = 0; r && i < r->stops; i++)
		if (r->stop[i].node == node && r->state != CTL_LEAVING) {
			r->stop[i].state = CTL_WANTED; /* sent again, which changes nothing there */
			return;
		}
	if (r || is_ours(c, number))
		ctl_send(c, n->conn, json_pack("{si si}", "id", 0, "remove", (int)number));
	else if (n->strays < FAN_ROUTES_MAX)
		n->stray[n->strays++] = number;
}

void ctl_route_greet(struct fan_ctl *c, uint32_t node, const json_t *numbers)
{
	struct ctl_node *n = &c->node[node];

	n->strays = 0;
	n->stray_ns = c->now_ns + FAN_CTL_STRAY_MS * CTL_MS;
	for (size_t i = 0; i < json_array_size(numbers); i++) {
		json_int_t number = json_integer_value(json_array_get(numbers, i));
		if (number >= 1 && number <= UINT16_MAX)
			greet_number(c, node, (uint16_t)number);
	}
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i])
			ctl_route_push(c, c->route[i]);
}

void ctl_route_forget(struct fan_ctl *c, uint32_t node)
{
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++) {
		struct ctl_route *r = c->route[i];
		for (uint32_t s = 0; r && s < r->stops; s++) {
			if (r->stop[s].node != node)
				continue;
			if (r->state == CTL_LEAVING)
				drop_stop(r, s);
			else
				r->stop[s].state = CTL_WANTED;
		}
		if (r && r->state == CTL_LEAVING && is_removed(r))
			ctl_route_free(c, r);
	}
}

uint32_t ctl_routes_at(const struct fan_ctl *c, uint32_t node, bool leaving)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++) {
		const struct ctl_route *r = c->route[i];
		if (!r || (r->state == CTL_LEAVING && !leaving))
			continue;
		count += leaving && r->server == node;
		for (uint32_t s = 0; s < r->stops; s++)
			count += r->stop[s].node == node;
	}
	return count;
}
