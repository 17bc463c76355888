/* SPDX-License-Identifier: Apache-2.0 */
/* install_json.c - an installation as JSON. */
#include <stdio.h>
#include <string.h>

#include "file/text.h"
#include "install.h"

#define RANKS_BYTES 1024 /* the longest text, every third of 256 ranks missing, has 609 bytes */
#define NAME_BYTES  (FAN_TOPO_NAME_MAX + 16)

/* A set of ranks as text such as "0-3,7": a new reference. */
static json_t *ranks_json(const uint64_t *ranks)
{
	char text[RANKS_BYTES];
	struct fan_text t = fan_text_in(text, sizeof text);
	for (uint32_t r = 0; r < FAN_RANKS_MAX; r++) {
		uint32_t end = r;
		while (end < FAN_RANKS_MAX && fan_ranks_has(ranks, end))
			end++;
		if (end == r)
			continue;
		fan_text_add(&t, t.used ? ",%u" : "%u", r);
		if (end - r > 1)
			fan_text_add(&t, "-%u", end - 1);
		r = end;
	}
	return json_string(text);
}

static json_t *entry_json(const struct fan_install *in, const struct fan_install_entry *e)
{
	const char *from = e->from == FAN_NODE_NONE ? NULL : in->t->node[e->from].name;
	return json_pack("{ss? so ss si so}", "from", from, "ranks", ranks_json(e->ranks), "next",
			 in->t->node[e->next].name, "depth", (int)e->depth, "sums",
			 e->sums ? json_integer(fan_ranks_count(e->ranks)) : json_false());
}

static json_t *stop_json(const struct fan_install *in, uint16_t route,
			 const struct fan_install_stop *stop)
{
	json_t *entries = json_array();
	for (uint32_t i = 0; i < stop->entries; i++)
		json_array_append_new(entries, entry_json(in, &in->entry[stop->entry + i]));
	return json_pack("{si si so}", "route", (int)route, "quota", (int)stop->quota, "entries",
			 entries);
}

/* The length in bytes of a job's name without the suffix of a group. */
static uint32_t job_name_bytes(const char *name, uint32_t groups)
{
	const char *at = groups ? strrchr(name, '@') : NULL;
	return (uint32_t)(at ? (size_t)(at - name) : strlen(name));
}

static json_t *part_json(const struct fan_install *in, const struct fan_install_part *part)
{
	const struct fan_job *job = &in->t->job[part->job];
	double whole = (double)(UINT64_C(1) << FAN_CUT_BITS);
	char text[NAME_BYTES];
	snprintf(text, sizeof text, "%.*s/%u", (int)job_name_bytes(job->name, job->groups),
		 job->name, part->number);
	json_t *o = json_pack(
		"{si ss si ss ss sf s[II] sf si}", "route", (int)part->route, "job", job->name,
		"part", (int)part->number, "name", text, "server", in->t->node[part->server].name,
		"share", (double)(part->to - part->from) / whole, "cut", (json_int_t)part->from,
		(json_int_t)part->to, "gbps", part->gbps, "ranks", (int)job->workers);
	if (o && job->groups)
		json_object_set_new(o, "group",
				    json_pack("[ii]", (int)job->group, (int)job->groups));
	return o;
}

static json_t *worker_json(const struct fan_install *in, uint32_t job, uint32_t rank)
{
	json_t *joins = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		if (in->part[i].job == job)
			json_array_append_new(
				joins, json_pack("{si ss}", "route", (int)in->part[i].route, "at",
						 in->t->node[in->part[i].join[rank]].name));
	return json_pack("{ss ss si so}", "worker", in->t->node[in->t->job[job].worker[rank]].name,
			 "job", in->t->job[job].name, "rank", (int)rank, "joins", joins);
}

static json_t *switch_json(const struct fan_install *in, uint32_t node)
{
	json_t *routes = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		for (uint32_t s = 0; s < in->part[i].stops; s++)
			if (in->stop[in->part[i].stop + s].node == node)
				json_array_append_new(routes,
						      stop_json(in, in->part[i].route,
								&in->stop[in->part[i].stop + s]));
	if (json_array_size(routes))
		return json_pack("{ss so}", "name", in->t->node[node].name, "routes", routes);
	json_decref(routes);
	return NULL;
}

static json_t *server_json(const struct fan_install *in, uint32_t node)
{
	json_t *routes = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		if (in->part[i].server == node)
			json_array_append_new(routes, json_integer(in->part[i].route));
	if (json_array_size(routes))
		return json_pack("{ss so}", "name", in->t->node[node].name, "routes", routes);
	json_decref(routes);
	return NULL;
}

json_t *fan_install_json(const struct fan_install *in)
{
	json_t *parts = json_array(), *workers = json_array();
	json_t *switches = json_array(), *servers = json_array();
	for (uint32_t i = 0; i < in->parts; i++)
		json_array_append_new(parts, part_json(in, &in->part[i]));
	for (uint32_t j = 0; j < in->t->jobs; j++)
		for (uint32_t r = 0; r < in->t->job[j].workers; r++)
			json_array_append_new(workers, worker_json(in, j, r));
	for (uint32_t n = 0; n < in->t->nodes; n++) {
		json_t *at = switch_json(in, n), *server = server_json(in, n);
		if (at)
			json_array_append_new(switches, at);
		if (server)
			json_array_append_new(servers, server);
	}
	return json_pack("{so so so so}", "parts", parts, "workers", workers, "switches", switches,
			 "servers", servers);
}
