/* SPDX-License-Identifier: Apache-2.0 */
/* planned.c - jobs that follow a plan: routes in switches, and a job for each part.
 *
 * The plan comes as `fanin plan --install` writes it.  A job of the scenario that the plan names
 * becomes one job for each of its parts, with its share of every layer, its server and its
 * route. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#define CUT_BITS   32	/* cuts are in units of 2^-32 of a tensor */
#define WINDOW_MIN 4	/* the least window of a part, however small */
#define PACE_MIN   1e-6 /* Gb/s: a part whose pace is lower has next to nothing to send */

/* ---- parts ---- */

/* Names in the plan by rank of the job: the workers or, with a `route`, where they join for it. */
static json_t *names_of(const json_t *plan, const char *job, json_int_t route)
{
	json_t *names = json_array();
	size_t i, k;
	json_t *w, *join;
	json_array_foreach (json_object_get(plan, "workers"), i, w) {
		const char *name = json_string_value(json_object_get(w, "job"));
		if (!name || strcmp(name, job) != 0)
			continue;
		if (!route)
			json_array_append(names, json_object_get(w, "worker"));
		json_array_foreach (json_object_get(w, "joins"), k, join) {
			if (route && json_integer_value(json_object_get(join, "route")) == route)
				json_array_append(names, json_object_get(join, "at"));
		}
	}
	return names;
}

static json_int_t size_of(const json_t *part)
{
	const json_t *cut = json_object_get(part, "cut");
	return json_integer_value(json_array_get(cut, 1)) -
	       json_integer_value(json_array_get(cut, 0));
}

/* Is `part` a part of the job, or of a group of it such as "JOB@2"? */
static bool is_of(const json_t *part, const char *job)
{
	const char *of = json_string_value(json_object_get(part, "job"));
	size_t bytes = of && json_object_get(part, "group") ? strcspn(of, "@") : 0;
	return job && of &&
	       (strcmp(of, job) == 0 ||
		(bytes && strncmp(of, job, bytes) == 0 && strlen(job) == bytes));
}

/* Give the job's window to its largest part, and to others in proportion to their shares.  Parts
 * divide a shared link by window: with equal windows, small parts would end early, and large ones
 * alone cannot fill what the plan has all of them fill. */
static void set_window(const json_t *plan, const char *name, json_t *copy, const json_t *part)
{
	const json_t *given = json_object_get(copy, "window");
	json_int_t largest = 1, window = given ? json_integer_value(given) : FAN_WINDOW_QUOTA;
	size_t i;
	json_t *other;
	json_array_foreach (json_object_get(plan, "parts"), i, other) {
		if (is_of(other, name) && size_of(other) > largest)
			largest = size_of(other);
	}
	if (window < WINDOW_MIN || window > FAN_WINDOW_MAX || size_of(part) <= 0 ||
	    largest >> CUT_BITS > 1)
		return; /* an invalid value: it is reported later */
	window = window * size_of(part) / largest;
	json_object_set_new(copy, "window",
			    json_integer(window < WINDOW_MIN ? WINDOW_MIN : window));
}

/* Set the part's pace to its planned rate, as the library does (`pace`): no part takes capacity of
 * a link that is planned for others. */
static void set_pace(json_t *copy, const json_t *part)
{
	double gbps = json_number_value(json_object_get(part, "gbps"));

	if (gbps >= PACE_MIN && !json_object_get(copy, "pace_gbps"))
		json_object_set_new(copy, "pace_gbps", json_real(gbps));
}

static json_int_t group_of(const json_t *part)
{
	return json_integer_value(json_array_get(json_object_get(part, "group"), 0));
}

/* Make the job of one part or, if it has groups, of all its groups, which share its workers. */
static json_t *part_of(const json_t *plan, const json_t *job, const char *name, const json_t *part)
{
	json_t *copy = json_deep_copy(job), *hosts = json_array(), *joins = json_array();
	json_t *routes = json_array(), *other;
	json_int_t groups = json_integer_value(json_array_get(json_object_get(part, "group"), 1));
	size_t i;
	for (json_int_t g = 0; g < (groups ? groups : 1); g++) {
		json_array_foreach (json_object_get(plan, "parts"), i, other) {
			const char *of = json_string_value(json_object_get(other, "job"));
			json_int_t route = json_integer_value(json_object_get(other, "route"));
			if (groups ? !is_of(other, name) || group_of(other) != g : other != part)
				continue;
			json_t *its_hosts = names_of(plan, of, 0), *its = names_of(plan, of, route);
			json_array_append_new(routes, json_integer(route));
			json_array_extend(hosts, its_hosts);
			json_array_extend(joins, its);
			json_decref(its_hosts);
			json_decref(its);
		}
	}
	json_object_set(copy, "name", json_object_get(part, "name"));
	json_object_set(copy, "at", json_object_get(part, "server"));
	json_object_set(copy, "cut", json_object_get(part, "cut"));
	json_object_set(copy, "route", json_object_get(part, "route"));
	json_object_set_new(copy, "workers", json_integer((json_int_t)json_array_size(hosts)));
	json_object_set_new(copy, "hosts", hosts);
	json_object_set_new(copy, "joins", joins);
	if (groups)
		json_object_set(copy, "groups", routes);
	json_decref(routes);
	set_window(plan, name, copy, part);
	set_pace(copy, part);
	return copy;
}

/* The name by which the plan knows the job; a job without a name is the plan's only one. */
static const char *name_of(const json_t *plan, const json_t *job)
{
	const char *name = json_string_value(json_object_get(job, "name"));
	const json_t *first = json_array_get(json_object_get(plan, "parts"), 0);
	return name ? name : json_string_value(json_object_get(first, "job"));
}

/* Add the parts of a job, or the job itself, to the list. */
static void expand(const json_t *plan, json_t *job, json_t *list, size_t *used)
{
	const char *name = name_of(plan, job);
	size_t i, before = *used;
	json_t *part;
	json_array_foreach (json_object_get(plan, "parts"), i, part) {
		if (!is_of(part, name))
			continue;
		++*used;
		if (group_of(part) == 0) /* this job has all groups' workers */
			json_array_append_new(list, part_of(plan, job, name, part));
	}
	if (*used == before)
		json_array_append(list, job);
}

static json_t *load_plan(const json_t *value, struct fan_reader *r)
{
	json_error_t e;
	if (json_is_object(value))
		return json_incref((json_t *)value);
	if (!json_is_string(value)) {
		fan_reader_fail(r, "plan", "expected an object, or the name of a file");
		return NULL;
	}
	char *text = fan_scenario_file(r, "plan", json_string_value(value));
	json_t *plan = text ? json_loads(text, JSON_REJECT_DUPLICATES, &e) : NULL;
	if (text && !plan)
		fan_reader_fail(r, "plan", "%s: line %d: not JSON: %s", json_string_value(value),
				e.line, e.text);
	free(text);
	return plan;
}

json_t *fan_scenario_planned(const json_t *root, struct fan_reader *r)
{
	const json_t *value = json_object_get(root, "plan");
	if (!value)
		return json_incref((json_t *)root);
	json_t *plan = load_plan(value, r);
	if (!plan)
		return NULL;
	json_t *copy = json_copy((json_t *)root), *list = json_array(), *job;
	size_t i, used = 0;
	json_array_foreach (json_object_get(root, "jobs"), i, job) {
		expand(plan, job, list, &used);
	}
	size_t parts = json_array_size(json_object_get(plan, "parts"));
	bool known = json_is_array(json_object_get(plan, "switches")) && parts;
	json_object_set_new(copy, "jobs", list);
	json_object_set(copy, "routes", json_object_get(plan, "switches"));
	json_object_del(copy, "plan");
	json_decref(plan);
	if (known && used == parts)
		return copy;
	json_decref(copy);
	if (!known)
		fan_reader_fail(r, "plan",
				"expected \"parts\" and \"switches\", as fanin plan "
				"--install writes them");
	else
		fan_reader_fail(r, "plan", "%zu of its %zu parts are of jobs of this scenario",
				used, parts);
	return NULL;
}

int fan_scenario_read_cut(struct fan_model *m, const json_t *cut, struct fan_reader *r)
{
	json_int_t from = json_integer_value(json_array_get(cut, 0));
	json_int_t to = json_integer_value(json_array_get(cut, 1));
	if (json_array_size(cut) != 2 || from < 0 || to <= from || to > (json_int_t)1 << CUT_BITS)
		return fan_reader_fail(
			r, "cut", "expected two whole numbers, from 0 to 2^%d, rising", CUT_BITS);
	for (uint32_t i = 0; i < m->layers; i++) {
		uint64_t all = m->layer[i].numel, low = all & UINT32_MAX, high = all >> CUT_BITS;
		uint64_t end = high * (uint64_t)to + (low * (uint64_t)to >> CUT_BITS);
		m->layer[i].numel =
			end - high * (uint64_t)from - (low * (uint64_t)from >> CUT_BITS);
	}
	return 0;
}

/* ---- routes of switches ---- */

/* Read a set of ranks such as "0-3,7".  False: `text` is none. */
static bool read_ranks(const char *text, uint64_t *set)
{
	while (text && *text) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;
		if (end == text)
			return false;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
		}
		if (end == text || last < first || last >= FAN_RANKS_MAX || (*end && *end != ','))
			return false;
		for (unsigned long i = first; i <= last; i++)
			fan_ranks_set(set, (unsigned)i);
		text = *end ? end + 1 : end;
	}
	return text != NULL;
}

static int read_entry(struct fan_scenario *s, struct fan_scenario_entry *e, const json_t *o,
		      struct fan_reader *r)
{
	const json_t *from = json_object_get(o, "from"), *sums = json_object_get(o, "sums");
	const char *name = json_string_value(from);
	const char *next = json_string_value(json_object_get(o, "next"));
	json_int_t depth = json_integer_value(json_object_get(o, "depth"));
	*e = (struct fan_scenario_entry){.from = name ? fan_scenario_find(s, name) : FAN_SIM_NONE,
					 .next = next ? fan_scenario_find(s, next) : FAN_SIM_NONE,
					 .depth = (uint8_t)depth,
					 .sums = sums && !json_is_false(sums)};
	if (from && !json_is_null(from) && e->from == FAN_SIM_NONE)
		return fan_reader_fail(r, "from", "\"%.63s\": no node of that name",
				       name ? name : "");
	if (e->next == FAN_SIM_NONE)
		return fan_reader_fail(r, "next", "\"%.63s\": no node of that name",
				       next ? next : "");
	if (depth < 1 || depth > FAN_ROUTE_HOPS_MAX)
		return fan_reader_fail(r, "depth", "expected a number from 1 to %d",
				       FAN_ROUTE_HOPS_MAX);
	if (!read_ranks(json_string_value(json_object_get(o, "ranks")), e->ranks))
		return fan_reader_fail(r, "ranks", "expected a text like \"0-3,7\"");
	return 0;
}

/* Check that a switch would accept the route. */
static int check_route(const struct fan_scenario_route *route, struct fan_reader *r)
{
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	struct fan_route *scratch = malloc(sizeof *scratch);
	const struct fan_route_config c = {
		.number = route->number, .entry = entry, .entries = route->entries};
	for (uint32_t i = 0; i < route->entries; i++)
		fan_scenario_entry_put(&entry[i], &route->entry[i],
				       fan_sim_peer(route->entry[i].from),
				       fan_sim_peer(route->entry[i].next));
	int err = scratch ? fan_route_set(scratch, &c) : FAN_E_NOMEM;
	free(scratch);
	return err ? fan_reader_fail(r, "entries", "contradict each other") : 0;
}

static int read_route(struct fan_scenario *s, uint32_t node, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_route *route = &s->route[s->routes];
	const json_t *list = json_object_get(o, "entries");
	json_int_t number = json_integer_value(json_object_get(o, "route"));
	json_int_t quota = json_integer_value(json_object_get(o, "quota"));
	if (number < 1 || number > UINT16_MAX)
		return fan_reader_fail(r, "route", "expected a number from 1 to %d", UINT16_MAX);
	if (quota < 0 || quota > FAN_SLOTS_MAX)
		return fan_reader_fail(r, "quota", "expected a number from 0 to %d", FAN_SLOTS_MAX);
	if (!json_array_size(list) || json_array_size(list) > FAN_ROUTE_ENTRIES_MAX)
		return fan_reader_fail(r, "entries", "expected an array of 1 to %d",
				       FAN_ROUTE_ENTRIES_MAX);
	*route = (struct fan_scenario_route){
		.node = node, .number = (uint16_t)number, .quota = (uint32_t)quota};
	route->entry = calloc(json_array_size(list), sizeof *route->entry);
	if (!route->entry)
		return fan_reader_fail(r, NULL, "out of memory");
	s->routes++;
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "entries[%zu]", i);
		struct fan_scenario_entry *e = &route->entry[route->entries++];
		if (read_entry(s, e, json_array_get(list, i), r))
			return -1;
		if (e->sums && s->node[node].kind == FAN_NODE_ROUTER)
			return fan_reader_fail(r, "sums", "\"%s\" cannot sum", s->node[node].name);
		fan_reader_leave(r, back);
	}
	return check_route(route, r);
}

static int read_switch(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	const json_t *list = json_object_get(o, "routes");
	const char *name = json_string_value(json_object_get(o, "name"));
	uint32_t node = name ? fan_scenario_find(s, name) : FAN_SIM_NONE;
	if (node == FAN_SIM_NONE ||
	    (s->node[node].kind != FAN_NODE_SWITCH && s->node[node].kind != FAN_NODE_ROUTER))
		return fan_reader_fail(r, "name", "\"%.63s\": no switch of that name",
				       name ? name : "");
	if (!json_array_size(list) || json_array_size(list) > FAN_ROUTES_MAX)
		return fan_reader_fail(r, "routes", "expected an array of 1 to %d", FAN_ROUTES_MAX);
	if (!fan_scenario_shares(&s->node[node]))
		s->node[node].policy = FAN_POLICY_ATP;
	struct fan_scenario_route *more =
		realloc(s->route, (s->routes + json_array_size(list)) * sizeof *more);
	if (!more)
		return fan_reader_fail(r, NULL, "out of memory");
	s->route = more;
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "routes[%zu]", i);
		if (read_route(s, node, json_array_get(list, i), r))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}

int fan_scenario_read_routes(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	const json_t *list = json_object_get(root, "routes");
	if (list && (!json_is_array(list) || json_array_size(list) > s->nodes))
		return fan_reader_fail(r, "routes", "expected an array, a switch each");
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "routes[%zu]", i);
		if (read_switch(s, json_array_get(list, i), r))
			return -1;
		fan_reader_leave(r, back);
	}
	for (uint32_t i = 0; i < s->nodes && !s->routes; i++)
		if (s->node[i].sums_bps)
			return fan_reader_fail(r, NULL,
					       "node \"%s\" has sums_gbps: goes with a plan",
					       s->node[i].name);
	return 0;
}

void fan_scenario_entry_put(struct fan_route_entry *to, const struct fan_scenario_entry *e,
			    fan_peer from, fan_peer next)
{
	*to = (struct fan_route_entry){.next = next, .depth = e->depth, .sums = e->sums};
	if (e->from != FAN_SIM_NONE)
		to->from = from;
	memcpy(to->ranks, e->ranks, sizeof to->ranks);
}

/* ---- seats ---- */

int fan_scenario_read_joins(struct fan_scenario *s, struct fan_job_config *c, const json_t *list,
			    const json_t *groups, struct fan_reader *r)
{
	const uint32_t count = groups ? (uint32_t)json_array_size(groups) : 1;
	const uint32_t each = count ? c->ranks / count : 0;
	if (json_array_size(list) != c->ranks)
		return fan_reader_fail(r, "joins", "expected an array of %u names, one a worker",
				       c->ranks);
	if (each < 2 || each > FAN_RANKS_MAX || c->ranks % count)
		return fan_reader_fail(r, "groups",
				       "%u workers in %u groups: expected 2 to %d each", c->ranks,
				       count, FAN_RANKS_MAX);
	c->seat = calloc(c->ranks, sizeof *c->seat);
	if (!c->seat)
		return fan_reader_fail(r, NULL, "out of memory");
	for (uint32_t i = 0; i < c->ranks; i++) {
		const char *name = json_string_value(json_array_get(list, i));
		uint32_t n = name ? fan_scenario_find(s, name) : FAN_SIM_NONE;
		if (n == FAN_SIM_NONE)
			return fan_reader_fail(r, "joins", "\"%.63s\": no node of that name",
					       name ? name : "");
		json_int_t route =
			groups ? json_integer_value(json_array_get(groups, i / each)) : c->route;
		if (route < 0 || route > UINT16_MAX)
			return fan_reader_fail(r, "groups", "expected numbers of routes");
		c->seat[i] = (struct fan_job_seat){.node = n,
						   .rank = (uint16_t)(i % each),
						   .ranks = (uint16_t)each,
						   .place = i,
						   .route = (uint16_t)route};
	}
	return 0;
}

static bool has_route(const struct fan_scenario *s, uint32_t node, uint16_t number)
{
	for (uint32_t i = 0; i < s->routes; i++)
		if (s->route[i].node == node && s->route[i].number == number)
			return true;
	return false;
}

static bool is_sibling(const struct fan_scenario *s, uint32_t node, uint32_t other)
{
	return s->node[node].parent != FAN_SIM_NONE &&
	       s->node[node].parent == s->node[other].parent;
}

int fan_scenario_seat_routed(struct fan_scenario *s, struct fan_scenario_job *j,
			     struct fan_reader *r)
{
	const struct fan_job_config *c = &j->cfg;
	j->at = j->at_name[0] ? fan_scenario_find(s, j->at_name) : FAN_SIM_NONE;
	if (j->at == FAN_SIM_NONE || s->node[j->at].kind != FAN_NODE_SERVER)
		return fan_reader_fail(r, "at", "\"%s\": no server of that name", j->at_name);
	if (!c->seat)
		return fan_reader_fail(r, NULL,
				       "lacks the key \"joins\", which goes with \"route\"");
	for (uint32_t i = 0; i < c->ranks; i++) {
		const struct fan_job_seat *at = &c->seat[i];
		if (at->node != j->at && !is_sibling(s, at->node, j->at) &&
		    !has_route(s, at->node, at->route))
			return fan_reader_fail(r, "joins", "\"%s\" knows no route %u",
					       s->node[at->node].name, at->route);
	}
	j->shared = c->seat[0].ranks == c->ranks;
	if (!j->shared && s->node[j->at].parent == FAN_SIM_NONE)
		return fan_reader_fail(r, "at", "\"%s\" has no parent, which adds up groups",
				       j->at_name);
	if (!j->shared)
		j->at = s->node[j->at].parent;
	return 0;
}
