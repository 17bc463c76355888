/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - jobs and their workers: which parts and routes they have.
 *
 * Once a worker has a job's parts, these do not change, since all ranks must cut alike; only their
 * paths do.  If a part's server is lost, all workers begin again with new parts. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/awake.h"
#include "ctl_priv.h"
#include "plan/topo_json.h"

/* ---- lines out ---- */

/* The part's name at its aggregator.  It begins with the job's name and '/', since it has the job's
 * tenant, and differs in each life, since a later life must not meet members of an earlier one.
 * Parts of groups share one name, under which their parent adds them up. */
static void part_name(const struct ctl_job *j, uint32_t part, char *text)
{
	const int bytes = (int)fan_job_name_bytes(j->name, j->groups);

	if (j->life)
		snprintf(text, CTL_PART_BYTES, "%.*s/%u~%u", bytes, j->name, part, j->life % 1000);
	else
		snprintf(text, CTL_PART_BYTES, "%.*s/%u", bytes, j->name, part);
}

static json_t *part_json(const struct fan_ctl *c, const struct ctl_job *j, uint32_t part,
			 uint32_t rank)
{
	assert(part < j->parts && rank < j->ranks);
	const struct ctl_part *p = &j->part[part];
	char name[CTL_PART_BYTES];

	part_name(j, part, name);
	return json_pack("{si ss si s[II] ss ss sf}", "number", (int)part, "name", name, "route",
			 (int)p->route->number, "cut", (json_int_t)p->from, (json_int_t)p->to, "at",
			 c->node[p->route->join[rank]].listen, "aggregator",
			 c->node[p->server].listen, "gbps", p->gbps);
}

static json_t *parts_json(const struct fan_ctl *c, const struct ctl_job *j, uint32_t rank)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < j->parts; i++)
		json_array_append_new(list, part_json(c, j, i, rank));
	return list;
}

static void send_parts(struct fan_ctl *c, struct ctl_job *j, uint32_t rank)
{
	assert(rank < j->ranks);
	struct ctl_rank *r = &j->rank[rank];

	if (r->parts_state == CTL_PARTS_AGAIN)
		ctl_send(c, r->conn,
			 json_pack("{s{ss so}}", "again", "why", j->why, "parts",
				   parts_json(c, j, rank)));
	else
		ctl_send(c, r->conn,
			 json_pack("{s{ss si so}}", "job", "name", j->name, "ranks", (int)j->ranks,
				   "parts", parts_json(c, j, rank)));
	r->parts_state = CTL_PARTS_SENT;
	if (j->state == CTL_JOB_FREE)
		j->state = CTL_JOB_BOUND;
	for (uint32_t i = 0; i < j->parts; i++)
		fan_ranks_set(j->part[i].route->moved, rank);
}

static void send_move(struct fan_ctl *c, const struct ctl_job *j, uint32_t part, uint32_t rank)
{
	assert(part < j->parts && j->rank[rank].conn != CTL_NONE);
	const struct ctl_route *r = j->part[part].route;

	ctl_send(c, j->rank[rank].conn,
		 json_pack("{s{si si ss sf}}", "move", "part", (int)part, "route", (int)r->number,
			   "at", c->node[r->join[rank]].listen, "gbps", j->part[part].gbps));
}

/* ---- settling ---- */

static bool routes_are_there(const struct ctl_job *j)
{
	for (uint32_t i = 0; i < j->parts; i++)
		if (!ctl_route_is_there(j->part[i].route))
			return false;
	return j->parts > 0;
}

/* May `rank` still use old routes, as it is connected or was so a short while ago? */
static bool holds(const struct fan_ctl *c, const struct ctl_job *j, uint32_t rank)
{
	const struct ctl_rank *r = &j->rank[rank];

	if (r->conn != CTL_NONE)
		return r->parts_state == CTL_PARTS_SENT;
	return r->absent_ns && c->now_ns - r->absent_ns < FAN_CTL_ABSENT_MS * CTL_MS;
}

/* Remove the part's earlier routes once no rank uses them. */
static void remove_old(struct fan_ctl *c, uint32_t job, uint32_t part)
{
	assert(job < c->jobs && part < c->job[job].parts);
	const struct ctl_job *j = &c->job[job];
	const struct ctl_route *now = j->part[part].route;

	if (now->state != CTL_READY)
		return;
	for (uint32_t r = 0; r < j->ranks; r++)
		if (!fan_ranks_has(now->moved, r) && holds(c, j, r))
			return;
	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++) {
		struct ctl_route *old = c->route[i];
		if (old && old != now && old->job == job && old->part == part &&
		    old->state == CTL_READY)
			ctl_route_leave(c, old, 0);
	}
}

/* Move workers to the part's new route, which all switches have. */
static void begin_route(struct fan_ctl *c, struct ctl_job *j, uint32_t part)
{
	assert(part < j->parts);
	struct ctl_route *r = j->part[part].route;
	uint32_t moving = 0;

	r->state = CTL_READY;
	for (uint32_t rank = 0; rank < j->ranks; rank++)
		if (j->rank[rank].conn != CTL_NONE && j->rank[rank].parts_state == CTL_PARTS_SENT &&
		    !fan_ranks_has(r->moved, rank)) {
			send_move(c, j, part, rank);
			moving++;
		}
	if (moving)
		ctl_note(c, "%s/%u: %u ranks move to route %u", j->name, part, moving, r->number);
}

void ctl_job_pace(struct fan_ctl *c, const struct ctl_job *j, uint32_t part)
{
	const struct ctl_route *r = j->part[part].route;

	for (uint32_t rank = 0; rank < j->ranks && r->state == CTL_READY; rank++)
		if (j->rank[rank].conn != CTL_NONE && j->rank[rank].parts_state == CTL_PARTS_SENT &&
		    fan_ranks_has(r->moved, rank))
			send_move(c, j, part, rank);
}

void ctl_job_settle(struct fan_ctl *c, uint32_t job)
{
	assert(job < c->jobs);
	struct ctl_job *j = &c->job[job];

	for (uint32_t i = 0; i < j->parts; i++) {
		if (j->part[i].route->state == CTL_INSTALLING &&
		    ctl_route_is_there(j->part[i].route))
			begin_route(c, j, i);
		remove_old(c, job, i);
	}
	if (!routes_are_there(j))
		return;
	j->refusals = 0;
	if (!j->announced)
		ctl_note(c, "%s: its %u routes are there", j->name, j->parts);
	j->announced = true;
	for (uint32_t r = 0; r < j->ranks; r++)
		if (j->rank[r].conn != CTL_NONE && j->rank[r].parts_state != CTL_PARTS_SENT &&
		    j->rank[r].parts_state != CTL_PARTS_FOREIGN)
			send_parts(c, j, r);
}

/* ---- lines in ---- */

struct join {
	const char *job;
	json_int_t rank, ranks;
	uint64_t launch;
	const json_t *routes; /* by part: the routes that it uses already; NULL: none */
};

static uint32_t read_join(struct fan_ctl *c, uint32_t conn, const json_t *line, struct join *m)
{
	const json_t *o = json_object_get(line, "join");

	m->job = json_string_value(json_object_get(o, "job"));
	m->routes = json_object_get(o, "routes");
	const json_t *rank = json_object_get(o, "rank"), *ranks = json_object_get(o, "ranks");
	const char *launch = json_string_value(json_object_get(o, "launch"));
	m->launch = launch ? strtoull(launch, NULL, 16) : 0;
	m->rank = json_integer_value(rank);
	m->ranks = json_integer_value(ranks);
	if (!m->job || !json_is_integer(rank) || !json_is_integer(ranks)) {
		ctl_refuse(c, conn, "join: expected job, rank and ranks");
		return CTL_NONE;
	}
	uint32_t job = ctl_job_named(c, m->job);
	if (job == CTL_NONE)
		ctl_refuse(c, conn, "join: no job \"%.63s\"; `admit` adds one to those of %s",
			   m->job, c->o.file);
	else if (m->ranks != (json_int_t)c->job[job].ranks)
		ctl_refuse(c, conn, "join: job \"%s\" has %u workers in %s, not %lld",
			   c->job[job].name, c->job[job].ranks, c->o.file, (long long)m->ranks);
	else if (m->rank < 0 || m->rank >= m->ranks)
		ctl_refuse(c, conn, "join: expected a rank from 0 to %lld, got %lld",
			   (long long)m->ranks - 1, (long long)m->rank);
	else
		return job;
	return CTL_NONE;
}

/* Note which routes a worker uses that was here before and lost its connection.  False: its parts
 * are not, or no longer, those of this job.  In a restored job a rank may name a route that the
 * earlier controller was removing; rejoin moves it. */
static bool knows_routes(struct fan_ctl *c, uint32_t job, uint32_t rank, const json_t *routes)
{
	const struct ctl_job *j = &c->job[job];

	if (json_array_size(routes) != j->parts || j->state == CTL_JOB_FREE || !j->parts)
		return false;
	for (uint32_t i = 0; i < j->parts; i++) {
		json_int_t number = json_integer_value(json_array_get(routes, i));
		struct ctl_route *r = number >= 1 && number <= UINT16_MAX
					      ? ctl_route_numbered(c, (uint16_t)number)
					      : NULL;
		bool fits = r && r->job == job && r->part == i && r->state != CTL_LEAVING;
		if (fits)
			fan_ranks_set(r->moved, rank);
		else if (j->state != CTL_JOB_RESTORED)
			return false;
	}
	return true;
}

/* Note if a rank uses the routes of a restored job not planned yet.  False: it has other parts. */
static bool knows_restored(struct fan_ctl *c, uint32_t job, uint32_t rank, const json_t *routes)
{
	struct ctl_job *j = &c->job[job];
	bool same = true;

	if (!j->restores || json_array_size(routes) != j->restores)
		return false;
	for (uint32_t i = 0; i < j->restores; i++)
		same &= json_integer_value(json_array_get(routes, i)) == j->restore[i];
	if (same)
		fan_ranks_set(j->rejoined, rank);
	return true;
}

/* Keep all routes of an earlier controller, since the rank uses some. */
static void keep_strays(struct fan_ctl *c, const char *name, uint32_t rank)
{
	for (uint32_t i = 0; i < c->nodes; i++)
		c->node[i].stray_ns = UINT64_MAX;
	ctl_note(c, "%s: rank %u goes by routes of an earlier controller, and is left alone", name,
		 rank);
}

/* Move a rank that has its parts to the routes that it does not use yet. */
static void rejoin(struct fan_ctl *c, struct ctl_job *j, uint32_t rank)
{
	assert(rank < j->ranks);
	j->rank[rank].parts_state = CTL_PARTS_SENT;
	for (uint32_t i = 0; i < j->parts; i++)
		if (j->part[i].route->state == CTL_READY &&
		    !fan_ranks_has(j->part[i].route->moved, rank))
			send_move(c, j, i, rank);
}

/* Is the job at work for another launch of the program?  Then the join is refused. */
static bool is_of_another(struct fan_ctl *c, uint32_t conn, const struct ctl_job *j,
			  const struct join *m)
{
	for (uint32_t r = 0; r < j->ranks; r++) {
		const uint64_t other = j->rank[r].launch;
		if (r == (uint32_t)m->rank || j->rank[r].conn == CTL_NONE || !other || !m->launch ||
		    other == m->launch)
			continue;
		ctl_refuse(
			c, conn,
			"join: rank %u of \"%s\", at %s, is of another launch of the program than "
			"rank %u, at %s: give each launch a job of its own",
			r, j->name, c->node[j->worker[r]].name, (uint32_t)m->rank,
			c->node[j->worker[m->rank]].name);
		return true;
	}
	return false;
}

void ctl_job_join(struct fan_ctl *c, uint32_t conn, const json_t *line)
{
	struct join m;
	uint32_t job = read_join(c, conn, line, &m);

	if (job == CTL_NONE)
		return;
	struct ctl_job *j = &c->job[job];
	uint32_t rank = (uint32_t)m.rank;
	struct ctl_rank *r = &j->rank[rank];
	if (!ctl_node_is_from(c, conn, j->worker[rank]) || is_of_another(c, conn, j, &m))
		return;
	if (r->conn != CTL_NONE && c->o.is_beside && !c->o.is_beside(c->o.ctx, conn, r->conn)) {
		ctl_refuse(c, conn, "join: rank %u of \"%s\" is connected from another host", rank,
			   j->name);
		return;
	}
	if (r->conn != CTL_NONE) { /* the worker lost its connection: the new one counts */
		uint32_t old = r->conn;
		memset(&c->conn[old], 0, sizeof c->conn[old]);
		c->o.close(c->o.ctx, old);
	}
	c->conn[conn].kind = CTL_CONN_WORKER;
	c->conn[conn].job = job;
	c->conn[conn].rank = rank;
	r->conn = conn;
	r->launch = m.launch;
	r->absent_ns = 0;
	r->parts_state = CTL_PARTS_NONE;
	if (!m.routes)
		ctl_note(c, "%s: rank %u is there", j->name, rank);
	else if (knows_routes(c, job, rank, m.routes) || knows_restored(c, job, rank, m.routes))
		rejoin(c, j, rank);
	else if (j->life)
		r->parts_state = CTL_PARTS_AGAIN;
	else {
		r->parts_state = CTL_PARTS_FOREIGN;
		keep_strays(c, j->name, rank);
		return;
	}
	ctl_job_settle(c, job);
}

static void take_moved(struct fan_ctl *c, uint32_t conn, const json_t *o)
{
	struct ctl_job *j = &c->job[c->conn[conn].job];
	json_int_t part = json_integer_value(json_object_get(o, "part"));
	json_int_t route = json_integer_value(json_object_get(o, "route"));

	if (part < 0 || part >= (json_int_t)j->parts ||
	    route != (json_int_t)j->part[part].route->number)
		return; /* it has been told to move again since */
	fan_ranks_set(j->part[part].route->moved, c->conn[conn].rank);
	ctl_job_settle(c, c->conn[conn].job);
}

void ctl_job_line(struct fan_ctl *c, uint32_t conn, const json_t *line)
{
	const json_t *moved = json_object_get(line, "moved");

	if (json_is_object(moved))
		take_moved(c, conn, moved);
	else if (json_object_get(line, "join"))
		ctl_refuse(c, conn, "a second join: expected one for each connection");
	else
		ctl_refuse(c, conn, "expected moved");
}

void ctl_job_closed(struct fan_ctl *c, uint32_t job, uint32_t rank)
{
	struct ctl_job *j = &c->job[job];
	struct ctl_rank *r = &j->rank[rank];

	ctl_note(c, "%s: rank %u has gone, or its line was cut", j->name, rank);
	r->conn = CTL_NONE;
	r->absent_ns = r->parts_state == CTL_PARTS_SENT ? c->now_ns : 0;
	r->parts_state = CTL_PARTS_NONE;
}

void ctl_job_slept(struct fan_ctl *c, uint64_t late_ns)
{
	for (uint32_t i = 0; i < c->jobs; i++)
		for (uint32_t r = 0; r < c->job[i].ranks; r++) {
			uint64_t *absent_ns = &c->job[i].rank[r].absent_ns;
			if (*absent_ns)
				*absent_ns = fan_awake_shift(*absent_ns, late_ns, c->now_ns);
		}
}

/* Ranks that have been disconnected for too long count as gone: old routes do not wait for them,
 * and once all are gone the next plan may change the job's parts. */
void ctl_job_tick(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->jobs; i++) {
		struct ctl_job *j = &c->job[i];
		bool any = false, late = false;
		for (uint32_t r = 0; r < j->ranks; r++) {
			struct ctl_rank *k = &j->rank[r];
			bool over = k->absent_ns &&
				    c->now_ns - k->absent_ns >= FAN_CTL_ABSENT_MS * CTL_MS;
			late |= over;
			k->absent_ns = over ? 0 : k->absent_ns;
			any |= k->absent_ns || k->conn != CTL_NONE;
		}
		if (late)
			ctl_job_settle(c, i);
		if (!any)
			j->state = CTL_JOB_FREE;
	}
}

/* ---- lives ---- */

void ctl_job_unplan(struct fan_ctl *c, struct ctl_job *j, uint32_t ms)
{
	uint32_t job = (uint32_t)(j - c->job);

	for (uint32_t i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		if (c->route[i] && c->route[i]->job == job)
			ctl_route_leave(c, c->route[i], ms);
	free(j->part);
	j->part = NULL;
	j->parts = 0;
	j->announced = false;
	json_decref(j->trees);
	json_decref(j->assignments);
	j->trees = j->assignments = NULL;
}

static void begin_again(struct fan_ctl *c, struct ctl_job *j, const char *why)
{
	ctl_note(c, "%s begins again: %s", j->name, why);
	ctl_job_unplan(c, j, FAN_CTL_LINGER_MS);
	ctl_print(j->why, sizeof j->why, "%s", why);
	j->life++;
	j->state = CTL_JOB_FREE;
	j->restores = 0;
	for (uint32_t r = 0; r < j->ranks; r++)
		if (j->rank[r].parts_state == CTL_PARTS_SENT)
			j->rank[r].parts_state = CTL_PARTS_AGAIN;
}

uint32_t ctl_tree_server(const struct fan_ctl *c, const json_t *tree)
{
	return ctl_node_named(c, json_string_value(json_object_get(tree, "server")));
}

/* Does a part summed at `server` need `node`?  A group needs its parent and all servers below. */
static bool is_at(const struct fan_ctl *c, const struct ctl_job *j, uint32_t server, uint32_t node)
{
	if (!j->groups || server == CTL_NONE)
		return server == node;
	const uint32_t parent = c->node[server].parent;
	return parent == node || c->node[node].parent == parent;
}

bool ctl_job_needs(const struct fan_ctl *c, const struct ctl_job *j, uint32_t node)
{
	const json_t *tree;
	size_t i;

	for (uint32_t p = 0; p < j->parts; p++)
		if (is_at(c, j, j->part[p].server, node))
			return true;
	if (j->state == CTL_JOB_RESTORED && !j->parts)
		json_array_foreach (j->trees, i, tree)
			if (is_at(c, j, ctl_tree_server(c, tree), node))
				return true;
	return false;
}

bool ctl_job_is_beside(const struct ctl_job *a, const struct ctl_job *b)
{
	const size_t bytes = fan_job_name_bytes(a->name, a->groups);

	return a->groups && b->groups && b->said &&
	       bytes == fan_job_name_bytes(b->name, b->groups) &&
	       memcmp(a->name, b->name, bytes) == 0;
}

void ctl_job_lost_aggregator(struct fan_ctl *c, uint32_t node, const char *what)
{
	bool lost[FAN_TOPO_JOBS_MAX] = {false};
	char why[FAN_WHY_BYTES];

	ctl_print(why, sizeof why, "server %s %s", c->node[node].name, what);
	for (uint32_t i = 0; i < c->jobs; i++) {
		if (!ctl_job_needs(c, &c->job[i], node))
			continue;
		lost[i] = true;
		for (uint32_t k = 0; k < c->jobs; k++)
			lost[k] |= ctl_job_is_beside(&c->job[i], &c->job[k]);
	}
	for (uint32_t i = 0; i < c->jobs; i++)
		if (lost[i])
			begin_again(c, &c->job[i], why);
}

void ctl_job_lost_absent(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].kind == FAN_NODE_SERVER && c->node[i].state == CTL_NEVER)
			ctl_job_lost_aggregator(c, i, "has not come");
}

static struct ctl_job *place_for(struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->jobs; i++) {
		bool busy = c->job[i].said != NULL;
		for (uint32_t r = 0; r < FAN_CTL_ROUTES_MAX && !busy; r++)
			busy = c->route[r] && c->route[r]->job == i;
		if (!busy)
			return &c->job[i];
	}
	if (c->jobs == FAN_TOPO_JOBS_MAX)
		return NULL;
	struct ctl_job *more = realloc(c->job, (c->jobs + 1) * sizeof *more);
	if (!more)
		return NULL;
	c->job = more;
	return &c->job[c->jobs++];
}

static int no_room(struct fan_why *why)
{
	return fan_why_set(why, FAN_E_CONFIG, "jobs: more than %d", FAN_TOPO_JOBS_MAX);
}

int ctl_job_admit(struct fan_ctl *c, const struct fan_topo *t, uint32_t job, struct fan_why *why)
{
	const struct fan_job *from = &t->job[job];
	json_t *topo = fan_topo_to_json(t);
	json_t *said = json_array_get(json_object_get(topo, "jobs"), job);

	if (strlen(from->name) > CTL_JOB_NAME_MAX) {
		json_decref(topo);
		return fan_why_set(why, FAN_E_CONFIG,
				   "job \"%s\": expected a name of at most %d bytes", from->name,
				   CTL_JOB_NAME_MAX);
	}
	if (from->workers < 2 || from->workers > FAN_RANKS_MAX) {
		json_decref(topo);
		return fan_why_set(
			why, FAN_E_CONFIG,
			"job \"%s\" has %u workers: expected 2 to %d, which one aggregator "
			"takes; more need servers with a parent",
			from->name, from->workers, FAN_RANKS_MAX);
	}
	struct ctl_job *j = place_for(c);
	if (!j || !said) {
		json_decref(topo);
		return j ? FAN_E_NOMEM : no_room(why);
	}
	memset(j, 0, sizeof *j);
	memcpy(j->name, from->name, sizeof j->name);
	j->said = json_incref(said);
	json_decref(topo);
	j->group = from->group;
	j->groups = from->groups;
	j->ranks = from->workers;
	j->servers = from->servers + from->spares;
	j->worker = calloc(j->ranks, sizeof *j->worker);
	j->rank = calloc(j->ranks, sizeof *j->rank);
	j->server = calloc(j->servers + 1, sizeof *j->server);
	if (!j->worker || !j->rank || !j->server)
		return FAN_E_NOMEM;
	memcpy(j->worker, from->worker, j->ranks * sizeof *j->worker);
	memcpy(j->server, from->server, j->servers * sizeof *j->server);
	for (uint32_t r = 0; r < j->ranks; r++)
		j->rank[r].conn = CTL_NONE;
	snprintf(j->why, sizeof j->why, "it has not been planned yet");
	return FAN_OK;
}

void ctl_job_free(struct ctl_job *j)
{
	free(j->worker);
	free(j->rank);
	free(j->server);
	free(j->part);
	json_decref(j->trees);
	json_decref(j->assignments);
	json_decref(j->said);
	memset(j, 0, sizeof *j);
}

void ctl_job_end(struct fan_ctl *c, uint32_t job, const char *why)
{
	struct ctl_job *j = &c->job[job];

	ctl_note(c, "%s has ended: %s", j->name, why);
	for (uint32_t r = 0; r < j->ranks; r++)
		if (j->rank[r].conn != CTL_NONE)
			ctl_refuse(c, j->rank[r].conn, "job \"%s\" has ended: %s", j->name, why);
	ctl_job_unplan(c, j, FAN_CTL_LINGER_MS);
	ctl_job_free(j);
}
