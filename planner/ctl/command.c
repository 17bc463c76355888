/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - commands from people, which come by the Unix socket, and their answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_priv.h"
#include "plan/topo_json.h"

#define SECOND 1e9

/* ---- as JSON ---- */

static const char *const states[] = {"never", "up", "gone"};

static json_t *node_json(const struct fan_ctl *c, uint32_t node)
{
	const struct ctl_node *n = &c->node[node];

	return json_pack("{ss ss ss ss si sf si si sf sb s{sI sI sI sI sI sI}}", "name", n->name,
			 "kind", fan_node_kinds[n->kind], "state", states[n->state], "listen",
			 n->listen, "routes", (int)ctl_routes_at(c, node, false), "since_s",
			 (double)(c->now_ns - n->since_ns) / SECOND, "shards", (int)n->shards,
			 "strays", (int)n->strays, "load_gbps", n->load_gbps, "drained", n->drained,
			 "health", "packets", (json_int_t)n->packets, "hits", (json_int_t)n->hits,
			 "passed", (json_int_t)n->passed, "collisions", (json_int_t)n->collisions,
			 "results", (json_int_t)n->results, "drops", (json_int_t)n->drops);
}

static json_t *summed_at(const struct fan_ctl *c, const struct ctl_route *r)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < r->stops; i++) {
		bool sums = false;
		for (uint32_t k = 0; k < r->stop[i].entries; k++)
			sums |= r->stop[i].entry[k].sums;
		if (sums)
			json_array_append_new(list, json_string(c->node[r->stop[i].node].name));
	}
	return list;
}

/* The entries that switches have of the route. */
static json_t *entries_json(const struct fan_ctl *c, const struct ctl_route *r)
{
	json_t *list = json_array();

	for (uint32_t s = 0; s < r->stops; s++)
		for (uint32_t k = 0; k < r->stop[s].entries; k++) {
			const struct ctl_entry *e = &r->stop[s].entry[k];
			json_array_append_new(
				list, json_pack("{ss ss? ss si si sb}", "at",
						c->node[r->stop[s].node].name, "from",
						e->from == CTL_NONE ? NULL : c->node[e->from].name,
						"next", c->node[e->next].name, "depth",
						(int)e->depth, "ranks",
						(int)fan_ranks_count(e->ranks), "sums", e->sums));
		}
	return list;
}

static json_t *part_json(const struct fan_ctl *c, const struct ctl_job *j, uint32_t part)
{
	static const char *const words[] = {"installing", "ready", "leaving"};
	const struct ctl_part *p = &j->part[part];

	return json_pack("{si si ss sf sf si si ss so so}", "number", (int)part, "route",
			 (int)p->route->number, "server", c->node[p->server].name, "share",
			 p->share, "gbps", p->gbps, "ranks", (int)j->ranks, "moved",
			 (int)fan_ranks_count(p->route->moved), "state", words[p->route->state],
			 "summed_at", summed_at(c, p->route), "entries", entries_json(c, p->route));
}

static uint32_t count_joined(const struct ctl_job *j)
{
	uint32_t joined = 0;

	for (uint32_t r = 0; r < j->ranks; r++)
		joined += j->rank[r].conn != CTL_NONE;
	return joined;
}

static json_t *job_json(const struct fan_ctl *c, const struct ctl_job *j)
{
	json_t *parts = json_array();

	for (uint32_t i = 0; i < j->parts; i++)
		json_array_append_new(parts, part_json(c, j, i));
	return json_pack("{ss si si si sb so sf ss}", "name", j->name, "ranks", (int)j->ranks,
			 "joined", (int)count_joined(j), "life", (int)j->life, "ready",
			 j->announced, "parts", parts, "planned_gbps", j->gbps, "why", j->why);
}

static json_t *events_json(const struct fan_ctl *c)
{
	uint64_t from = c->events > FAN_CTL_EVENTS_MAX ? c->events - FAN_CTL_EVENTS_MAX : 0;
	json_t *list = json_array();

	for (uint64_t i = from; i < c->events; i++) {
		const struct ctl_event *e = &c->event[i % FAN_CTL_EVENTS_MAX];
		json_array_append_new(list, json_pack("{sf ss}", "t_s",
						      (double)(e->at_ns - c->start_ns) / SECOND,
						      "what", e->what));
	}
	return list;
}

json_t *fan_ctl_status(const struct fan_ctl *c)
{
	json_t *nodes = json_array(), *jobs = json_array();

	for (uint32_t i = 0; i < c->nodes; i++)
		json_array_append_new(nodes, node_json(c, i));
	for (uint32_t i = 0; i < c->jobs; i++)
		if (c->job[i].said)
			json_array_append_new(jobs, job_json(c, &c->job[i]));
	return json_pack("{ss ss sI sI sf so so so so}", "topology", c->o.file, "algorithm",
			 c->given ? "given" : c->o.algorithm->name, "seed",
			 (json_int_t)c->o.plan.seed, "epoch", (json_int_t)c->plans, "up_s",
			 (double)(c->now_ns - c->start_ns) / SECOND, "nodes", nodes, "links",
			 ctl_links_json(c), "jobs", jobs, "events", events_json(c));
}

/* ---- as text ---- */

static void say_sums(FILE *t, const struct fan_ctl *c, const struct ctl_route *r)
{
	json_t *list = summed_at(c, r);

	fprintf(t, "%s", json_array_size(list) ? "summed at" : "summed at the server only");
	for (size_t i = 0; i < json_array_size(list); i++)
		fprintf(t, "%s %s", i ? "," : "", json_string_value(json_array_get(list, i)));
	json_decref(list);
}

static void say_job(FILE *t, const struct fan_ctl *c, const struct ctl_job *j)
{
	fprintf(t, "job %s: %u of %u ranks, %s, %.4g Gb/s planned\n", j->name, count_joined(j),
		j->ranks, j->announced ? "routes are there" : "waits for routes", j->gbps);
	for (uint32_t i = 0; i < j->parts; i++) {
		const struct ctl_part *p = &j->part[i];
		fprintf(t, "  part %u: %.2f %% to %s by route %u, %u ranks on it, ", i,
			100 * p->share, c->node[p->server].name, p->route->number,
			fan_ranks_count(p->route->moved));
		say_sums(t, c, p->route);
		fprintf(t, "\n");
	}
}

/* Print what plans do not use, or only in part. */
static void say_lacks(FILE *t, const struct fan_ctl *c)
{
	for (uint32_t i = 0; i < c->links; i++) {
		const struct ctl_link *l = &c->link[i];
		const char *a = c->node[l->end[0]].name, *b = c->node[l->end[1]].name;
		if (l->state == CTL_LINK_DOWN)
			fprintf(t, "link %s-%s: down for %.1f s, %u times of late", a, b,
				(double)(c->now_ns - l->since_ns) / SECOND, l->flaps);
		if (l->state == CTL_LINK_DOWN && l->heard_ns)
			fprintf(t, "; used again in %.1f s", ctl_link_back_s(c, l));
		if (l->state == CTL_LINK_DOWN)
			fprintf(t, "\n");
		if (ctl_load_of(l) > 0)
			fprintf(t, "link %s-%s: others use %.4g Gb/s", a, b, ctl_load_of(l));
		if (ctl_load_measured(l) > 0)
			fprintf(t, ", of which its ends measure %.4g", ctl_load_measured(l));
		if (ctl_load_of(l) > 0)
			fprintf(t, "\n");
	}
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].load_gbps > 0)
			fprintf(t, "%s %s: others use %.4g Gb/s\n", fan_node_kinds[c->node[i].kind],
				c->node[i].name, c->node[i].load_gbps);
}

static void say_status(FILE *t, const struct fan_ctl *c)
{
	fprintf(t, "%s: algorithm %s, %llu plans made\n", c->o.file,
		c->given ? "given" : c->o.algorithm->name, (unsigned long long)c->plans);
	for (uint32_t i = 0; i < c->nodes; i++)
		if (c->node[i].kind != FAN_NODE_WORKER)
			fprintf(t, "%s %s: %s%s for %.1f s, %s, %u routes\n",
				fan_node_kinds[c->node[i].kind], c->node[i].name,
				states[c->node[i].state], c->node[i].drained ? ", drained," : "",
				(double)(c->now_ns - c->node[i].since_ns) / SECOND,
				c->node[i].listen, ctl_routes_at(c, i, false));
	say_lacks(t, c);
	for (uint32_t i = 0; i < c->jobs; i++)
		if (c->job[i].said)
			say_job(t, c, &c->job[i]);
}

/* Print the path of route `r`, switch by switch. */
static void say_route(FILE *t, const struct fan_ctl *c, const struct ctl_route *r)
{
	for (uint32_t s = 0; s < r->stops; s++)
		for (uint32_t k = 0; k < r->stop[s].entries; k++) {
			const struct ctl_entry *e = &r->stop[s].entry[k];
			fprintf(t, "    %s: %u ranks from %s, %s, to %s\n",
				c->node[r->stop[s].node].name, fan_ranks_count(e->ranks),
				e->from == CTL_NONE ? "workers" : c->node[e->from].name,
				e->sums ? "summed" : "passed on", c->node[e->next].name);
		}
}

static void say_why_of(FILE *t, const struct fan_ctl *c, const struct ctl_job *j)
{
	fprintf(t, "%s\n", j->why);
	say_lacks(t, c);
	say_job(t, c, j);
	for (uint32_t i = 0; i < j->parts; i++) {
		fprintf(t, "  route %u:\n", j->part[i].route->number);
		say_route(t, c, j->part[i].route);
	}
}

static void say_why(FILE *t, const struct fan_ctl *c, const char *name)
{
	bool any = false;

	for (uint32_t i = 0; i < c->jobs; i++)
		if (ctl_job_is_of(&c->job[i], name)) {
			any = true;
			say_why_of(t, c, &c->job[i]);
		}
	if (!any)
		fprintf(t, "error: no job \"%s\"\n", name);
}

/* ---- orders ---- */

/* Print the outcome of an order; `why` has the cause if it was refused. */
static void say_outcome(FILE *t, int err, const struct fan_why *why)
{
	if (err)
		fprintf(t, "error: %s\n", why->text[0] ? why->text : fan_err_text(err));
	else
		fputs("ok\n", t);
}

static bool is_taken(const struct fan_ctl *c, const char *name)
{
	for (uint32_t i = 0; i < c->jobs; i++)
		if (ctl_job_is_of(&c->job[i], name))
			return true;
	return false;
}

static void order_admit(FILE *t, struct fan_ctl *c, json_t *said)
{
	json_t *root = json_copy(c->root), *jobs = json_array();
	struct fan_why why = {""};
	struct fan_topo topo;
	const char *name = json_string_value(json_object_get(said, "name"));

	json_array_append(jobs, said);
	json_object_set_new(root, "jobs", jobs);
	int err = said ? fan_topo_from_json(&topo, root, &why) : FAN_E_CONFIG;
	json_decref(root);
	if (err) {
		fprintf(t, "error: %s\n",
			why.text[0] ? why.text : "expected a JSON object, one job");
		return;
	}
	for (uint32_t i = 0; i < topo.jobs && !err; i++)
		if (is_taken(c, name) || is_taken(c, topo.job[i].name))
			err = fan_why_set(&why, FAN_E_CONFIG, "job \"%s\" is there already", name);
	for (uint32_t i = 0; i < topo.jobs && !err; i++) {
		err = ctl_job_admit(c, &topo, i, &why);
		for (uint32_t k = 0; k < c->jobs && err; k++) /* all groups, or none */
			if (ctl_job_is_of(&c->job[k], name))
				ctl_job_free(&c->job[k]);
	}
	fan_topo_free(&topo);
	if (!err) {
		ctl_note(c, "%s is admitted", name);
		ctl_plan_in(c, 0, "job %s was admitted", name);
	}
	say_outcome(t, err, &why);
}

static void order_end(FILE *t, struct fan_ctl *c, const char *name)
{
	bool any = false;

	for (uint32_t i = 0; i < c->jobs; i++)
		if (ctl_job_is_of(&c->job[i], name)) {
			any = true;
			ctl_job_end(c, i, "by order");
		}
	if (!any) {
		fprintf(t, "error: no job \"%s\"\n", name);
		return;
	}
	ctl_plan_in(c, 0, "job %s has ended", name);
	fprintf(t, "ok\n");
}

static void order_install(FILE *t, struct fan_ctl *c, const json_t *plan)
{
	struct fan_why why = {"expected a plan as fanin plan --json writes it"};

	say_outcome(t, plan ? ctl_plan_take(c, plan, &why) : FAN_E_CONFIG, &why);
}

static void order_load(FILE *t, struct fan_ctl *c, const json_t *load)
{
	struct fan_why why = {""};

	say_outcome(t, ctl_load_set(c, load, &why), &why);
}

static void order_drain(FILE *t, struct fan_ctl *c, const char *name, bool drained)
{
	struct fan_why why = {""};

	say_outcome(t, ctl_drain_set(c, name, drained, &why), &why);
}

static void order_replan(FILE *t, struct fan_ctl *c)
{
	c->given = false;
	c->wanted = CTL_SEARCH;
	ctl_plan_in(c, 0, "it was asked for");
	fprintf(t, "ok\n");
}

static void say_json(FILE *t, json_t *value)
{
	if (value)
		json_dumpf(value, t, JSON_INDENT(1));
	fputc('\n', t);
	json_decref(value);
}

/* The text after the word if the line begins with it; else NULL. */
static const char *behind(const char *line, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' '))
		return NULL;
	while (line[n] == ' ')
		n++;
	return line + n;
}

static void answer(FILE *t, struct fan_ctl *c, const char *line)
{
	const char *rest;
	json_error_t e;
	json_t *value = NULL;

	if (strcmp(line, "status") == 0)
		say_status(t, c);
	else if (strcmp(line, "status json") == 0)
		say_json(t, fan_ctl_status(c));
	else if (strcmp(line, "plan json") == 0)
		say_json(t, ctl_plan_json(c));
	else if ((rest = behind(line, "why")))
		say_why(t, c, rest);
	else if (strcmp(line, "replan") == 0)
		order_replan(t, c);
	else if ((rest = behind(line, "drain")))
		order_drain(t, c, rest, true);
	else if ((rest = behind(line, "undrain")))
		order_drain(t, c, rest, false);
	else if ((rest = behind(line, "admit")))
		order_admit(t, c, value = json_loads(rest, JSON_REJECT_DUPLICATES, &e));
	else if ((rest = behind(line, "end")))
		order_end(t, c, rest);
	else if ((rest = behind(line, "install")))
		order_install(t, c, value = json_loads(rest, JSON_REJECT_DUPLICATES, &e));
	else if ((rest = behind(line, "load")))
		order_load(t, c, value = json_loads(rest, JSON_REJECT_DUPLICATES, &e));
	else
		fprintf(t,
			"error: \"%.60s\": expected status, status json, plan json, why JOB, replan, "
			"admit JSON, end JOB, load JSON, drain NODE, undrain NODE or install JSON\n",
			line);
	json_decref(value);
}

char *fan_ctl_ask(struct fan_ctl *c, uint64_t now_ns, const char *text, size_t bytes)
{
	char *answered = NULL;
	size_t length = 0;
	FILE *t = open_memstream(&answered, &length);

	if (!t)
		return NULL;
	c->now_ns = now_ns;
	if (memchr(text, '\0', bytes))
		fputs("error: a zero in the line\n", t);
	else
		answer(t, c, text);
	if (fclose(t) == 0)
		return answered;
	free(answered);
	return NULL;
}
