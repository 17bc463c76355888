/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment.h"
#include "model.h"
#include "tensor.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const levels[] = {"packets", "flows", NULL};
const char *const fan_tcp_kinds[] = {"cubic", "dctcp", NULL};

#define AT(field) offsetof(struct fan_scenario, field)
static const struct fan_field fields[] = {
	{"name", FAN_FIELD_TEXT, AT(name), 0, 0, NULL},
	{"seed", FAN_FIELD_U64, AT(seed), 0, 0, NULL},
	{"limit_s", FAN_FIELD_S, AT(limit_ns), 1e-6, 1e6, NULL},
	{"sample_us", FAN_FIELD_US, AT(sample_ns), 1, 1e9, NULL},
	{"ecmp", FAN_FIELD_BOOL, AT(ecmp), 0, 0, NULL},
	{"level", FAN_FIELD_WORD, AT(level), 0, 0, levels},
	{"comment", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"topology", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"jobs", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"job_trace", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"background", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"flows", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"changes", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"plan", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"routes", FAN_FIELD_OTHER, 0, 0, 0, NULL},
};
#undef AT

#define AT(field) offsetof(struct fan_scenario_flow, field)
static const struct fan_field flow_fields[] = {
	{"from", FAN_FIELD_TEXT, AT(from_name), 0, 0, NULL},
	{"to", FAN_FIELD_TEXT, AT(to_name), 0, 0, NULL},
	{"gbps", FAN_FIELD_GBPS, AT(bps), 1e-6, 1e5, NULL},
	{"packet_bytes", FAN_FIELD_U16, AT(packet_bytes), 64, 9000, NULL},
	{"start_s", FAN_FIELD_S, AT(start_ns), 0, 1e6, NULL},
	{"stop_s", FAN_FIELD_S, AT(stop_ns), 0, 1e6, NULL},
	{"jitter", FAN_FIELD_SHARE, AT(jitter), 0, 1, NULL},
};
#undef AT

#define AT(field) offsetof(struct fan_scenario_tcp, field)
static const struct fan_field tcp_fields[] = {
	{"from", FAN_FIELD_TEXT, AT(from_name), 0, 0, NULL},
	{"to", FAN_FIELD_TEXT, AT(to_name), 0, 0, NULL},
	{"kind", FAN_FIELD_WORD, AT(kind), 0, 0, fan_tcp_kinds},
	{"start_s", FAN_FIELD_S, AT(start_ns), 0, 1e6, NULL},
	{"stop_s", FAN_FIELD_S, AT(stop_ns), 0, 1e6, NULL},
	{"bytes", FAN_FIELD_U64, AT(bytes), 1, 1e15, NULL},
	{"ack_segments", FAN_FIELD_U32, AT(ack_segments), 1, 64, NULL},
};
#undef AT

#define AT(field) offsetof(struct fan_scenario_change, field)
static const struct fan_field change_fields[] = {
	{"at_s", FAN_FIELD_S, AT(at_ns), 0, 1e6, NULL},
	{"a", FAN_FIELD_TEXT, AT(a), 0, 0, NULL},
	{"b", FAN_FIELD_TEXT, AT(b), 0, 0, NULL},
	{"gbps", FAN_FIELD_GBPS, AT(bps), 1e-6, 1e5, NULL},
	{"down", FAN_FIELD_BOOL, AT(down), 0, 0, NULL},
	{"up", FAN_FIELD_BOOL, AT(up), 0, 0, NULL},
	{"node", FAN_FIELD_TEXT, AT(node_name), 0, 0, NULL},
	{"restart_s", FAN_FIELD_S, AT(restart_ns), 0, 1e6, NULL},
};
#undef AT

static int check_node(const struct fan_scenario *s, struct fan_reader *r, const char *key,
		      const char *name, uint32_t *node)
{
	*node = fan_scenario_find(s, name);
	if (*node != FAN_SIM_NONE)
		return 0;
	if (!name[0])
		return fan_reader_fail(r, NULL, "lacks the key \"%s\"", key);
	return fan_reader_fail(r, key, "no node \"%s\"", name);
}

static int read_flow(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_flow f = {.packet_bytes = 1500, .stop_ns = UINT64_MAX};
	if (fan_fields_read(r, o, flow_fields, COUNT(flow_fields), &f) ||
	    check_node(s, r, "from", f.from_name, &f.from) ||
	    check_node(s, r, "to", f.to_name, &f.to))
		return -1;
	if (!f.bps)
		return fan_reader_fail(r, NULL, "lacks the key \"gbps\"");
	if (f.from == f.to)
		return fan_reader_fail(r, "to", "is where it comes from");
	s->flow[s->flows++] = f;
	return 0;
}

static int read_tcp(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_tcp f = {.stop_ns = UINT64_MAX, .ack_segments = 2};
	if (fan_fields_read(r, o, tcp_fields, COUNT(tcp_fields), &f) ||
	    check_node(s, r, "from", f.from_name, &f.from) ||
	    check_node(s, r, "to", f.to_name, &f.to))
		return -1;
	if (!json_object_get(o, "kind"))
		return fan_reader_fail(r, NULL, "lacks the key \"kind\"");
	if (f.from == f.to)
		return fan_reader_fail(r, "to", "is where it comes from");
	if (f.stop_ns <= f.start_ns)
		return fan_reader_fail(r, "stop_s", "expected more than start_s");
	s->tcp[s->tcps++] = f;
	return 0;
}

static int read_restart(struct fan_scenario *s, struct fan_scenario_change *c, const json_t *o,
			struct fan_reader *r)
{
	if (check_node(s, r, "node", c->node_name, &c->node))
		return -1;
	if (s->node[c->node].kind == FAN_NODE_WORKER || s->node[c->node].kind == FAN_NODE_ROUTER)
		return fan_reader_fail(r, "node", "\"%s\": only switches and servers restart",
				       c->node_name);
	if (c->a[0] || c->b[0] || c->bps || c->down || c->up)
		return fan_reader_fail(r, "node", "goes with at_s and restart_s only");
	if (!json_object_get(o, "restart_s"))
		return fan_reader_fail(r, NULL, "lacks the key \"restart_s\"");
	s->change[s->changes++] = *c;
	return 0;
}

static int read_change(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_scenario_change c = {.link = FAN_SIM_NONE};
	uint32_t a, b;
	if (fan_fields_read(r, o, change_fields, COUNT(change_fields), &c))
		return -1;
	if (c.node_name[0])
		return read_restart(s, &c, o, r);
	if (check_node(s, r, "a", c.a, &a) || check_node(s, r, "b", c.b, &b))
		return -1;
	for (uint32_t i = 0; i < s->links && c.link == FAN_SIM_NONE; i++) {
		const struct fan_scenario_link *l = &s->link[i];
		if ((l->a == a && l->b == b) || (l->a == b && l->b == a))
			c.link = i;
	}
	if (c.link == FAN_SIM_NONE)
		return fan_reader_fail(r, NULL, "no link between \"%s\" and \"%s\"", c.a, c.b);
	if (!c.bps && !c.down && !c.up)
		return fan_reader_fail(r, NULL, "changes nothing: needs gbps, down or up");
	s->change[s->changes++] = c;
	return 0;
}

static int read_list(struct fan_scenario *s, const json_t *root, struct fan_reader *r,
		     const char *key, size_t most,
		     int (*read)(struct fan_scenario *, const json_t *, struct fan_reader *))
{
	const json_t *list = json_object_get(root, key);
	if (list && (!json_is_array(list) || json_array_size(list) > most))
		return fan_reader_fail(r, key, "expected an array of at most %zu entries", most);
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "%s[%zu]", key, i);
		if (read(s, json_array_get(list, i), r))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}

/* ---- jobs that are parts of one tensor (tensor.h) ---- */

/* Check the part `k` against the first one, `i`. */
static int check_pair(const struct fan_scenario *s, uint32_t i, uint32_t k, struct fan_reader *r)
{
	const struct fan_job_config *a = &s->job[i].cfg, *b = &s->job[k].cfg;
	if (a->ranks != b->ranks || a->iterations != b->iterations ||
	    a->arrival_ns != b->arrival_ns)
		return fan_reader_fail(r, "tensor",
				       "\"%s\": expected the workers, iterations and arrival_s of "
				       "\"%s\"",
				       s->job[k].tensor, a->name);
	if (memcmp(a->host, b->host, a->ranks * sizeof *a->host) != 0)
		return fan_reader_fail(r, "tensor", "\"%s\": expected the hosts of \"%s\"",
				       s->job[k].tensor, a->name);
	return 0;
}

static int check_alone(const struct fan_scenario_job *j, struct fan_reader *r)
{
	const char *key = j->reduce != FAN_REDUCE_FANIN ? "reduce"
			  : j->cfg.ahead		? "ahead"
			  : j->cfg.retries		? "retries"
			  : j->cfg.overlap		? "overlap"
							: NULL;
	if (!key)
		return 0;
	return fan_reader_fail(r, key, "does not go with tensor: its parts proceed in step");
}

/* Check that the jobs that are parts of one tensor fit each other; after fan_scenario_place. */
static int check_tensors(const struct fan_scenario *s, struct fan_reader *r)
{
	for (uint32_t k = 0; k < s->jobs; k++) {
		const struct fan_scenario_job *j = &s->job[k];
		uint32_t first = k, parts = 0;
		if (!j->tensor[0])
			continue;
		for (uint32_t i = k + 1; i-- > 0;)
			if (strcmp(s->job[i].tensor, j->tensor) == 0) {
				first = i;
				parts++;
			}
		size_t back = fan_reader_enter(r, "jobs.%s", j->cfg.name);
		if (parts > FAN_TENSOR_PARTS_MAX)
			return fan_reader_fail(r, "tensor", "more than %d parts",
					       FAN_TENSOR_PARTS_MAX);
		if (check_alone(j, r) || check_pair(s, first, k, r))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}

/* ---- the whole scenario ---- */

static int read_all(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	if (fan_fields_read(r, root, fields, COUNT(fields), s))
		return -1;
	s->flow = malloc(FAN_SCENARIO_FLOWS_MAX * sizeof *s->flow);
	s->tcp = malloc(FAN_SCENARIO_TCPS_MAX * sizeof *s->tcp);
	s->change = malloc(FAN_SCENARIO_CHANGES_MAX * sizeof *s->change);
	if (!s->flow || !s->tcp || !s->change)
		return fan_reader_fail(r, NULL, "out of memory");
	if (!json_object_get(root, "topology"))
		return fan_reader_fail(r, NULL, "lacks the key \"topology\"");
	size_t back = fan_reader_enter(r, "topology");
	if (fan_scenario_read_topology(s, json_object_get(root, "topology"), r))
		return -1;
	fan_reader_leave(r, back);
	if (fan_scenario_read_routes(s, root, r) || fan_scenario_read_jobs(s, root, r) ||
	    read_list(s, root, r, "background", FAN_SCENARIO_FLOWS_MAX, read_flow) ||
	    read_list(s, root, r, "flows", FAN_SCENARIO_TCPS_MAX, read_tcp) ||
	    read_list(s, root, r, "changes", FAN_SCENARIO_CHANGES_MAX, read_change))
		return -1;
	if (fan_scenario_place(s, r) || check_tensors(s, r))
		return -1;
	return s->level == FAN_LEVEL_FLOWS ? fan_flow_check(s, r) : 0;
}

int fan_scenario_read(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	memset(s, 0, sizeof *s);
	s->seed = 1;
	s->limit_ns = UINT64_C(3600) * 1000000000;
	s->sample_ns = 100000;
	r->path[0] = '\0';
	json_t *planned = fan_scenario_planned(root, r);
	json_t *given = planned ? fan_scenario_given(planned, r) : NULL;
	int bad = given ? read_all(s, given, r) : -1;
	json_decref(planned);
	json_decref(given);
	if (bad)
		fan_scenario_free(s);
	return bad;
}

void fan_scenario_free(struct fan_scenario *s)
{
	for (uint32_t i = 0; i < s->jobs; i++) {
		fan_model_free(&s->job[i].cfg.model);
		free(s->job[i].cfg.bucket);
		free(s->job[i].cfg.host);
		free(s->job[i].cfg.seat);
	}
	for (uint32_t i = 0; i < s->routes; i++)
		free(s->route[i].entry);
	free(s->route);
	free(s->node);
	free(s->link);
	free(s->job);
	free(s->flow);
	free(s->tcp);
	free(s->change);
	memset(s, 0, sizeof *s);
}
