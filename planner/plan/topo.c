/* SPDX-License-Identifier: Apache-2.0 */
#include "topo.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/limits.h"
#include "file/text.h"

const char *const fan_node_kinds[] = {"worker", "switch", "server"};

int fan_why_set(struct fan_why *why, int err, const char *format, ...)
{
	va_list args;

	if (!why || why->text[0])
		return err;
	va_start(args, format);
	vsnprintf(why->text, sizeof why->text, format, args);
	va_end(args);
	fan_text_plain(why->text);
	return err;
}

void fan_topo_init(struct fan_topo *t)
{
	memset(t, 0, sizeof *t);
}

void fan_topo_free(struct fan_topo *t)
{
	for (uint32_t j = 0; j < t->jobs; j++) {
		free(t->job[j].worker);
		free(t->job[j].server);
	}
	free(t->node);
	free(t->link);
	free(t->job);
	free(t->out);
	free(t->cap);
	fan_topo_init(t);
}

/* Make room for one more element of `bytes` each; the table may move. */
static int grow(void **table, uint32_t count, uint32_t *room, uint32_t max, size_t bytes)
{
	if (count >= max)
		return FAN_E_INVALID;
	if (count < *room)
		return FAN_OK;
	uint32_t more = *room ? *room * 2 : 64;
	void *moved = realloc(*table, more * bytes);
	if (!moved)
		return FAN_E_NOMEM;
	*table = moved;
	*room = more;
	return FAN_OK;
}

int fan_topo_add_node(struct fan_topo *t, const char *name, enum fan_node_kind kind, double gbps)
{
	int err = grow((void **)&t->node, t->nodes, &t->node_room, FAN_TOPO_NODES_MAX,
		       sizeof *t->node);
	if (err)
		return err;
	struct fan_node *n = &t->node[t->nodes++];
	memset(n, 0, sizeof *n);
	snprintf(n->name, sizeof n->name, "%s", name);
	n->kind = kind;
	n->gbps = gbps;
	n->parent = FAN_NODE_NONE;
	return FAN_OK;
}

int fan_topo_add_link(struct fan_topo *t, uint32_t a, uint32_t b, double gbps)
{
	int err = grow((void **)&t->link, t->links, &t->link_room, FAN_TOPO_LINKS_MAX,
		       sizeof *t->link);
	if (err)
		return err;
	t->link[t->links++] = (struct fan_link){.a = a, .b = b, .gbps = gbps};
	return FAN_OK;
}

int fan_topo_add_job(struct fan_topo *t, const char *name, uint32_t workers, uint32_t servers)
{
	int err = grow((void **)&t->job, t->jobs, &t->job_room, FAN_TOPO_JOBS_MAX, sizeof *t->job);
	if (err)
		return err;
	struct fan_job *j = &t->job[t->jobs];
	memset(j, 0, sizeof *j);
	snprintf(j->name, sizeof j->name, "%s", name);
	j->weight = 1;
	j->worker = calloc(workers + 1, sizeof *j->worker);
	j->server = calloc(servers + 1, sizeof *j->server);
	if (!j->worker || !j->server) {
		free(j->worker);
		free(j->server);
		return FAN_E_NOMEM;
	}
	t->jobs++;
	return FAN_OK;
}

uint32_t fan_topo_children(const struct fan_topo *t, uint32_t node)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < t->nodes; i++)
		count += t->node[i].parent == node;
	return count;
}

int fan_topo_add_all(struct fan_topo *t, const char *name)
{
	int err = fan_topo_add_job(t, name, t->nodes, t->nodes);
	if (err)
		return err;
	struct fan_job *j = &t->job[t->jobs - 1];
	for (uint32_t i = 0; i < t->nodes; i++) {
		if (t->node[i].kind == FAN_NODE_WORKER)
			j->worker[j->workers++] = i;
		else if (t->node[i].kind == FAN_NODE_SERVER && !fan_topo_children(t, i))
			j->server[j->servers++] = i;
	}
	return FAN_OK;
}

/* ---- groups ---- */

uint32_t fan_job_name_bytes(const char *name, uint32_t groups)
{
	const char *at = groups ? strrchr(name, '@') : NULL;

	return (uint32_t)(at ? (size_t)(at - name) : strlen(name));
}

/* Server `i` among the job's servers with this parent; FAN_NODE_NONE: there are fewer. */
static uint32_t below(const struct fan_topo *t, const struct fan_job *job, uint32_t parent,
		      uint32_t i)
{
	for (uint32_t s = 0; s < job->servers; s++)
		if (t->node[job->server[s]].parent == parent && i-- == 0)
			return job->server[s];
	return FAN_NODE_NONE;
}

/* Check that all servers of the job have a parent, and each parent has `groups` servers, all of
 * this job. */
static int check_parents(const struct fan_topo *t, uint32_t j, uint32_t groups, struct fan_why *why)
{
	const struct fan_job *job = &t->job[j];

	for (uint32_t s = 0; s < job->servers; s++)
		if (t->node[job->server[s]].parent == FAN_NODE_NONE)
			return fan_why_set(why, FAN_E_CONFIG,
					   "jobs[%u].servers[%u]: \"%s\" has no parent, as others "
					   "have",
					   j, s, t->node[job->server[s]].name);
	for (uint32_t s = 0; s < job->servers; s++) {
		const uint32_t parent = t->node[job->server[s]].parent;
		const uint32_t all = fan_topo_children(t, parent);
		uint32_t count = 0;
		while (below(t, job, parent, count) != FAN_NODE_NONE)
			count++;
		if (count != all)
			return fan_why_set(why, FAN_E_CONFIG,
					   "jobs[%u].servers: %u of the %u whose parent is \"%s\": "
					   "expected all, which it adds up",
					   j, count, all, t->node[parent].name);
		if (count != groups)
			return fan_why_set(why, FAN_E_CONFIG,
					   "jobs[%u].servers: %u have the parent \"%s\", others "
					   "%u: expected as many",
					   j, count, t->node[parent].name, groups);
	}
	return FAN_OK;
}

/* Check that the job can be split into as many groups as there are servers below `parent`. */
static int check_groups(const struct fan_topo *t, uint32_t j, uint32_t parent, uint32_t groups,
			struct fan_why *why)
{
	const struct fan_job *job = &t->job[j];
	int err = check_parents(t, j, groups, why);

	if (err)
		return err;
	if (groups < 2 || job->workers % groups || job->workers / groups < 2 ||
	    job->workers / groups > FAN_RANKS_MAX)
		return fan_why_set(why, FAN_E_CONFIG,
				   "jobs[%u].workers: %u for %u servers below \"%s\": expected 2 "
				   "servers or more, and as many workers for each, 2 to %d",
				   j, job->workers, groups, t->node[parent].name, FAN_RANKS_MAX);
	if (strlen(job->name) > FAN_TOPO_NAME_MAX - FAN_GROUP_NAME_BYTES)
		return fan_why_set(why, FAN_E_CONFIG,
				   "jobs[%u].name: expected at most %d bytes for a job of groups",
				   j, FAN_TOPO_NAME_MAX - FAN_GROUP_NAME_BYTES);
	return FAN_OK;
}

/* Add group `g` of job `j`, which is not split yet, as a job of its own. */
static int add_group(struct fan_topo *t, uint32_t j, uint32_t g, uint32_t groups,
		     struct fan_why *why)
{
	const struct fan_job from = t->job[j];
	const uint32_t each = from.workers / groups;
	char name[FAN_TOPO_NAME_MAX + 1];

	snprintf(name, sizeof name, "%.*s@%u", FAN_TOPO_NAME_MAX - FAN_GROUP_NAME_BYTES, from.name,
		 g % FAN_TOPO_JOBS_MAX);
	for (uint32_t i = 0; i < t->jobs; i++)
		if (strcmp(t->job[i].name, name) == 0)
			return fan_why_set(why, FAN_E_CONFIG,
					   "jobs[%u].name: \"%s\" is the name of a group of "
					   "\"%s\"",
					   i, name, from.name);
	int err = fan_topo_add_job(t, name, each, from.servers / groups);
	if (err)
		return err == FAN_E_INVALID ? fan_why_set(why, FAN_E_CONFIG,
							  "jobs: more than %d, groups counted",
							  FAN_TOPO_JOBS_MAX)
					    : err;
	struct fan_job *to = &t->job[t->jobs - 1];
	memcpy(to->worker, from.worker + g * each, each * sizeof *to->worker);
	to->workers = each;
	for (uint32_t s = 0; s < from.servers; s++) {
		const uint32_t parent = t->node[from.server[s]].parent;
		if (below(t, &from, parent, 0) == from.server[s])
			to->server[to->spares++] = below(t, &from, parent, g);
	}
	to->servers = 1;
	to->spares--;
	to->weight = from.weight;
	to->demand_gbps = from.demand_gbps;
	to->group = g;
	to->groups = groups;
	return FAN_OK;
}

/* Replace the whole job by the last job, which is one of its groups. */
static void replace_job(struct fan_topo *t, uint32_t j)
{
	free(t->job[j].worker);
	free(t->job[j].server);
	t->job[j] = t->job[--t->jobs];
}

int fan_topo_split(struct fan_topo *t, struct fan_why *why)
{
	int err = FAN_OK;

	for (uint32_t j = 0, jobs = t->jobs; j < jobs && !err; j++) {
		const struct fan_job *job = &t->job[j];
		uint32_t parent = FAN_NODE_NONE;
		for (uint32_t s = 0; s < job->servers && parent == FAN_NODE_NONE; s++)
			parent = t->node[job->server[s]].parent;
		if (parent == FAN_NODE_NONE || job->groups)
			continue;
		const uint32_t groups = fan_topo_children(t, parent);
		err = check_groups(t, j, parent, groups, why);
		for (uint32_t g = 1; g <= groups && !err; g++)
			err = add_group(t, j, g % groups, groups, why);
		if (!err)
			replace_job(t, j);
	}
	return err;
}

static void list_arcs(struct fan_topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		t->node[i].degree = 0;
	for (uint32_t a = 0; a < 2 * t->links; a++)
		t->node[fan_arc_from(t, a)].degree++;
	for (uint32_t i = 0, at = 0; i < t->nodes; i++) {
		t->node[i].first = at;
		at += t->node[i].degree;
		t->node[i].degree = 0;
	}
	for (uint32_t a = 0; a < 2 * t->links; a++) {
		struct fan_node *n = &t->node[fan_arc_from(t, a)];
		t->out[n->first + n->degree++] = a;
	}
}

void fan_topo_refresh(struct fan_topo *t)
{
	for (uint32_t a = 0; a < 2 * t->links; a++)
		t->cap[a] = t->link[a / 2].gbps - t->link[a / 2].background_gbps;
	for (uint32_t i = 0; i < t->nodes; i++) {
		const struct fan_node *n = &t->node[i];
		double *cap = &t->cap[fan_node_resource(t, i)];
		if (n->gbps > 0)
			*cap = n->gbps - n->background_gbps;
		else
			*cap = n->kind == FAN_NODE_SWITCH ? 0 : INFINITY;
	}
	for (uint32_t i = 0; i < fan_topo_resources(t); i++)
		if (t->cap[i] < FAN_TOPO_GBPS_MIN * (1 - 1e-9))
			t->cap[i] = 0;
}

/* Count the nodes on the shortest path through switches from `from` to each node, ends included; 0:
 * there is no path.  `queue`: room for all nodes. */
static void reach(const struct fan_topo *t, uint32_t from, uint32_t *hops, uint32_t *queue)
{
	uint32_t head = 0, tail = 0;

	memset(hops, 0, t->nodes * sizeof *hops);
	queue[tail++] = from;
	hops[from] = 1;
	while (head < tail) {
		uint32_t at = queue[head++];
		const struct fan_node *n = &t->node[at];
		if (n->kind != FAN_NODE_SWITCH && at != from)
			continue;
		for (uint32_t i = 0; i < n->degree; i++) {
			uint32_t to = fan_arc_to(t, t->out[n->first + i]);
			if (t->cap[t->out[n->first + i]] > 0 && !hops[to]) {
				hops[to] = hops[at] + 1;
				queue[tail++] = to;
			}
		}
	}
}

static int check_path(const struct fan_topo *t, uint32_t j, uint32_t w, uint32_t s, uint32_t nodes,
		      struct fan_why *why)
{
	const char *worker = t->node[w].name, *server = t->node[s].name;

	if (nodes == 0)
		return fan_why_set(
			why, FAN_E_CONFIG,
			"jobs[%u]: worker \"%s\" (nodes[%u]) cannot reach server \"%s\" (nodes[%u]): no "
			"path of links with free capacity through switches",
			j, worker, w, server, s);
	if (nodes > FAN_HOPS_MAX)
		return fan_why_set(
			why, FAN_E_CONFIG,
			"jobs[%u]: worker \"%s\" (nodes[%u]) is %u links away from server "
			"\"%s\" (nodes[%u]), and a route has at most %u: put them nearer to each "
			"other, or the server in the middle",
			j, worker, w, nodes - 1, server, s, FAN_HOPS_MAX - 1);
	return FAN_OK;
}

static int check_job(const struct fan_topo *t, uint32_t j, uint32_t *hops, uint32_t *queue,
		     struct fan_why *why)
{
	const struct fan_job *job = &t->job[j];
	int err = FAN_OK;

	if (job->workers == 0)
		return fan_why_set(why, FAN_E_CONFIG, "jobs[%u].workers: no worker", j);
	if (job->servers == 0)
		return fan_why_set(why, FAN_E_CONFIG, "jobs[%u].servers: no server", j);
	for (uint32_t s = 0; s < job->servers + job->spares && !err; s++) {
		reach(t, job->server[s], hops, queue);
		for (uint32_t w = 0; w < job->workers && !err; w++)
			err = check_path(t, j, job->worker[w], job->server[s], hops[job->worker[w]],
					 why);
	}
	return err;
}

int fan_topo_seal(struct fan_topo *t, struct fan_why *why)
{
	uint32_t *hops = calloc(t->nodes + 1, sizeof *hops);
	uint32_t *queue = calloc(t->nodes + 1, sizeof *queue);
	int err = FAN_E_NOMEM;

	free(t->out);
	free(t->cap);
	t->out = calloc(2 * (size_t)t->links + 1, sizeof *t->out);
	t->cap = calloc(fan_topo_resources(t) + 1, sizeof *t->cap);
	if (!hops || !queue || !t->out || !t->cap)
		goto out;
	list_arcs(t);
	fan_topo_refresh(t);
	err = t->jobs ? FAN_OK : fan_why_set(why, FAN_E_CONFIG, "jobs: there is none");
	for (uint32_t j = 0; j < t->jobs && !err; j++)
		err = check_job(t, j, hops, queue, why);
out:
	free(hops);
	free(queue);
	return err;
}

static bool between_switches(const struct fan_topo *t, const struct fan_link *l)
{
	return t->node[l->a].kind == FAN_NODE_SWITCH && t->node[l->b].kind == FAN_NODE_SWITCH;
}

void fan_topo_lift_limits(struct fan_topo *t)
{
	double hosts = 0;

	for (uint32_t i = 0; i < t->links; i++)
		hosts += between_switches(t, &t->link[i]) ? 0 : t->link[i].gbps;
	for (uint32_t i = 0; i < t->links; i++)
		if (between_switches(t, &t->link[i])) {
			t->link[i].gbps = 2 * hosts;
			t->link[i].background_gbps = 0;
		}
	fan_topo_refresh(t);
}

uint32_t fan_topo_rack(const struct fan_topo *t, uint32_t host)
{
	const struct fan_node *n = &t->node[host];

	for (uint32_t i = 0; i < n->degree; i++) {
		uint32_t to = fan_arc_to(t, t->out[n->first + i]);
		if (t->node[to].kind == FAN_NODE_SWITCH)
			return to;
	}
	return FAN_NODE_NONE;
}

double fan_topo_intake(const struct fan_topo *t, uint32_t node)
{
	double sum = 0, cap = t->cap[fan_node_resource(t, node)];

	for (uint32_t i = 0; i < t->node[node].degree; i++)
		sum += t->cap[t->out[t->node[node].first + i] ^ 1];
	return sum < cap ? sum : cap;
}

void fan_resource_text(const struct fan_topo *t, uint32_t resource, char *text, unsigned bytes)
{
	if (resource < 2 * t->links) {
		snprintf(text, bytes, "link %s-%s", t->node[fan_arc_from(t, resource)].name,
			 t->node[fan_arc_to(t, resource)].name);
		return;
	}
	const struct fan_node *n = &t->node[resource - 2 * t->links];
	snprintf(text, bytes, "%s %s", fan_node_kinds[n->kind], n->name);
}

/* ---- pieces ---- */

/* The connected pieces of a network. */
struct pieces {
	uint32_t *of;	       /* by node: the first node of its piece */
	uint32_t count, first; /* pieces; the first node of the largest */
	uint32_t largest;
};

static bool find_pieces(const struct fan_topo *t, struct pieces *p)
{
	uint32_t *size = calloc((size_t)t->nodes + 1, sizeof *size);

	*p = (struct pieces){.of = calloc((size_t)t->nodes + 1, sizeof *p->of)};
	for (uint32_t i = 0; p->of && i < t->nodes; i++)
		p->of[i] = i;
	for (bool more = p->of != NULL; more;) { /* it ends, as each turn lowers a number */
		more = false;
		for (uint32_t i = 0; i < t->links; i++) {
			uint32_t *a = &p->of[t->link[i].a], *b = &p->of[t->link[i].b];
			more |= *a != *b;
			*a = *b = *a < *b ? *a : *b;
		}
	}
	for (uint32_t i = 0; size && p->of && i < t->nodes; i++) {
		p->count += p->of[i] == i;
		if (++size[p->of[i]] > p->largest) {
			p->largest = size[p->of[i]];
			p->first = p->of[i];
		}
	}
	free(size);
	return p->count > 0;
}

/* Drop the nodes outside the largest piece, and their links. */
static void keep_largest(struct fan_topo *t, const struct pieces *p)
{
	uint32_t nodes = 0, links = 0, *now = p->of; /* new number by old number of a node */

	for (uint32_t i = 0; i < t->links; i++)
		if (p->of[t->link[i].a] == p->first)
			t->link[links++] = t->link[i];
	for (uint32_t i = 0; i < t->nodes; i++)
		if (t->node[i].parent != FAN_NODE_NONE && p->of[t->node[i].parent] != p->first)
			t->node[i].parent = FAN_NODE_NONE;
	for (uint32_t i = 0; i < t->nodes; i++) {
		if (p->of[i] != p->first)
			continue;
		t->node[nodes] = t->node[i];
		now[i] = nodes++;
	}
	for (uint32_t i = 0; i < nodes; i++)
		if (t->node[i].parent != FAN_NODE_NONE)
			t->node[i].parent = now[t->node[i].parent];
	for (uint32_t i = 0; i < links; i++) {
		t->link[i].a = now[t->link[i].a];
		t->link[i].b = now[t->link[i].b];
	}
	t->nodes = nodes;
	t->links = links;
}

int fan_topo_whole(struct fan_topo *t, bool largest, struct fan_why *why)
{
	struct pieces p;
	uint32_t other = 0;
	int err = find_pieces(t, &p) ? FAN_OK : FAN_E_NOMEM;

	while (!err && other < t->nodes && p.of[other] == p.first)
		other++;
	if (!err && largest)
		keep_largest(t, &p);
	else if (!err && p.count > 1)
		err = fan_why_set(why, FAN_E_CONFIG,
				  "the network is in %u pieces: %u of its %u nodes hang together "
				  "with \"%s\", but not \"%s\"; add links, or attach hosts with "
				  "largest=1 and leave out the rest",
				  p.count, p.largest, t->nodes, t->node[p.first].name,
				  t->node[other].name);
	free(p.of);
	return err;
}
