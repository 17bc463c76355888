/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_jobs.c - jobs, their models, and job traces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/recovery/congestion.h"
#include "csv.h"
#include "file/file.h"
#include "scenario.h"

#define COUNT(a)	(sizeof(a) / sizeof *(a))
#define FILE_BYTES_MAX	(64 << 20)
#define STALL_MS	3600000u
#define TRACE_HEAD	"num_gpu,duration,submit_time,iterations,model"
#define COPY_NAME_BYTES 40
#define WHAT_COMPUTE	0 /* index in `whats` */
#define WHAT_SENDING	1

static const char *const modes[] = {"native", "fixed", NULL};
static const char *const wires[] = {"float32", "float16", "bfloat16", "int8", NULL};
static const char *const reduces[] = {"fanin", "ring", "tree", "two-level-ring", NULL};
static const char *const whats[] = {"compute", "sending", "both", NULL};
static const char *const priorities[] = {"remaining", "attained", "started", "none", NULL};
static const char *const congestions[] = {FAN_CONGESTION_NAMES, NULL};

/* A job as JSON has it, before it becomes a fan_scenario_job. */
struct job_entry {
	char name[FAN_FIELD_NAME], at[FAN_FIELD_NAME], tensor[FAN_FIELD_NAME];
	uint16_t payload_bytes, window, ahead, route;
	uint32_t workers, iterations, jitter, pareto, copies, cache_frags;
	uint64_t arrival_ns, interval_ns, bucket_bytes, alive_ns, stall_ns, pace_bps;
	int mode, wire, reduce, priority, congestion;
	bool overlap, verify;
	uint32_t retries;
};

#define AT(field) offsetof(struct job_entry, field)
static const struct fan_field job_fields[] = {
	{"name", FAN_FIELD_TEXT, AT(name), 0, 0, NULL},
	{"model", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"workers", FAN_FIELD_U32, AT(workers), 2, FAN_WORKERS_MAX, NULL},
	{"hosts", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"at", FAN_FIELD_TEXT, AT(at), 0, 0, NULL},
	{"tensor", FAN_FIELD_TEXT, AT(tensor), 0, 0, NULL},
	{"reduce", FAN_FIELD_WORD, AT(reduce), 0, 0, reduces},
	{"copies", FAN_FIELD_U32, AT(copies), 1, FAN_SCENARIO_JOBS_MAX, NULL},
	{"arrival_s", FAN_FIELD_S, AT(arrival_ns), 0, 1e6, NULL},
	{"interval_s", FAN_FIELD_S, AT(interval_ns), 0, 1e6, NULL},
	{"iterations", FAN_FIELD_U32, AT(iterations), 1, 1e6, NULL},
	{"payload_bytes", FAN_FIELD_U16, AT(payload_bytes), FAN_PAYLOAD_MIN, FAN_PAYLOAD_MAX, NULL},
	{"pace_gbps", FAN_FIELD_GBPS, AT(pace_bps), 1e-6, 1e5, NULL},
	{"window", FAN_FIELD_U16, AT(window), 2, FAN_WINDOW_MAX, NULL},
	{"ahead", FAN_FIELD_U16, AT(ahead), 0, FAN_AHEAD_MAX, NULL},
	{"cache_frags", FAN_FIELD_U32, AT(cache_frags), 0, FAN_CACHE_MAX, NULL},
	{"bucket_bytes", FAN_FIELD_U64, AT(bucket_bytes), 0, 0, NULL},
	{"mode", FAN_FIELD_WORD, AT(mode), 0, 0, modes},
	{"wire", FAN_FIELD_WORD, AT(wire), 0, 0, wires},
	{"priority", FAN_FIELD_WORD, AT(priority), 0, 0, priorities},
	{"congestion", FAN_FIELD_WORD, AT(congestion), 0, 0, congestions},
	{"overlap", FAN_FIELD_BOOL, AT(overlap), 0, 0, NULL},
	{"verify", FAN_FIELD_BOOL, AT(verify), 0, 0, NULL},
	{"jitter", FAN_FIELD_SHARE, AT(jitter), 0, 1, NULL},
	{"pareto", FAN_FIELD_TIMES, AT(pareto), 0, 1000, NULL},
	{"slow", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"route", FAN_FIELD_U16, AT(route), 1, UINT16_MAX, NULL},
	{"cut", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"joins", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"groups", FAN_FIELD_OTHER, 0, 0, 0, NULL},
	{"retries", FAN_FIELD_U32, AT(retries), 0, 1000, NULL},
	{"alive_s", FAN_FIELD_S, AT(alive_ns), 0.1, 600, NULL},
	{"stall_s", FAN_FIELD_S, AT(stall_ns), 0.1, 1e5, NULL},
};
#undef AT

struct slow_entry {
	uint32_t rank, ranks, speed, chance;
	int what;
	uint64_t from_ns, to_ns, interval_ns;
};

#define AT(field) offsetof(struct slow_entry, field)
static const struct fan_field slow_fields[] = {
	{"rank", FAN_FIELD_U32, AT(rank), 0, FAN_WORKERS_MAX - 1, NULL},
	{"ranks", FAN_FIELD_U32, AT(ranks), 0, FAN_WORKERS_MAX, NULL},
	{"what", FAN_FIELD_WORD, AT(what), 0, 0, whats},
	{"speed", FAN_FIELD_SHARE, AT(speed), 1e-6, 1, NULL},
	{"from_s", FAN_FIELD_S, AT(from_ns), 0, 1e6, NULL},
	{"to_s", FAN_FIELD_S, AT(to_ns), 0, 1e6, NULL},
	{"interval_ms", FAN_FIELD_MS, AT(interval_ns), 0.001, 1e9, NULL},
	{"chance", FAN_FIELD_SHARE, AT(chance), 0, 1, NULL},
};
#undef AT

char *fan_scenario_file(struct fan_reader *r, const char *key, const char *name)
{
	char path[4096];
	const char *slash = strrchr(r->file, '/');
	int folder = slash && name[0] != '/' ? (int)(slash - r->file + 1) : 0;
	snprintf(path, sizeof path, "%.*s%s", folder, r->file, name);
	char why[256];
	FILE *f = fan_file_stream(path, FAN_FILE_INPUT, why, sizeof why);
	char *text = malloc(FILE_BYTES_MAX);
	size_t n = f && text ? fread(text, 1, FILE_BYTES_MAX, f) : 0;
	bool bad = !f || !text || ferror(f) || n == FILE_BYTES_MAX || memchr(text, '\0', n);
	if (f)
		fclose(f);
	if (bad) {
		if (!f)
			fan_reader_fail(r, key, "%s", why);
		else
			fan_reader_fail(r, key, "%s: cannot be read as a text of less than 64 MiB",
					path);
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static int read_slow(struct fan_job_config *c, const json_t *list, struct fan_reader *r)
{
	if (!json_is_array(list) || json_array_size(list) > FAN_JOB_SLOWS_MAX)
		return fan_reader_fail(r, "slow", "expected an array of at most %d entries",
				       FAN_JOB_SLOWS_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		struct slow_entry e = {.ranks = json_object_get(o, "rank") ? 1 : c->ranks,
				       .speed = 1000000,
				       .chance = 1000000,
				       .to_ns = UINT64_MAX};
		size_t back = fan_reader_enter(r, "slow[%zu]", i);
		if (fan_fields_read(r, o, slow_fields, COUNT(slow_fields), &e))
			return -1;
		if (e.rank >= c->ranks)
			return fan_reader_fail(r, "rank", "%u: the job has %u workers", e.rank,
					       c->ranks);
		if (e.ranks > c->ranks - e.rank)
			return fan_reader_fail(r, "ranks", "%u from %u on: the job has %u workers",
					       e.ranks, e.rank, c->ranks);
		if (e.to_ns <= e.from_ns)
			return fan_reader_fail(r, "to_s", "expected more than from_s");
		if (e.chance < 1000000 && !e.interval_ns)
			return fan_reader_fail(r, "chance", "needs interval_ms");
		fan_reader_leave(r, back);
		c->slow[c->slows++] = (struct fan_slow){
			.rank = e.rank,
			.ranks = e.ranks,
			.computes = e.what != WHAT_SENDING,
			.sends = e.what != WHAT_COMPUTE,
			.speed = e.speed,
			.from_ns = e.from_ns,
			.to_ns = e.to_ns,
			.interval_ns = e.interval_ns,
			.chance = e.chance,
		};
	}
	return 0;
}

static int read_hosts(struct fan_scenario *s, struct fan_job_config *c, const json_t *list,
		      struct fan_reader *r)
{
	if (!json_is_array(list) || json_array_size(list) != c->ranks)
		return fan_reader_fail(r, "hosts", "expected an array of %u names, one a worker",
				       c->ranks);
	c->host = calloc(c->ranks, sizeof *c->host);
	if (!c->host)
		return fan_reader_fail(r, "hosts", "out of memory");
	for (uint32_t i = 0; i < c->ranks; i++) {
		char key[32];
		snprintf(key, sizeof key, "hosts[%u]", i);
		const char *name = json_string_value(json_array_get(list, i));
		uint32_t n = name ? fan_scenario_find(s, name) : FAN_SIM_NONE;
		if (n == FAN_SIM_NONE || s->node[n].kind != FAN_NODE_WORKER)
			return fan_reader_fail(r, key, "\"%.63s\": no worker node of that name",
					       name ? name : "");
		for (uint32_t k = 0; k < i; k++)
			if (c->host[k] == n)
				return fan_reader_fail(r, key, "\"%s\" is there twice", name);
		c->host[i] = n;
	}
	return 0;
}

static void fill(struct fan_scenario *s, struct fan_scenario_job *j, const struct job_entry *e)
{
	struct fan_job_config *c = &j->cfg;
	j->reduce = e->reduce;
	j->bucket_bytes = e->bucket_bytes;
	j->at = FAN_SIM_NONE;
	memcpy(j->at_name, e->at, sizeof j->at_name);
	memcpy(j->tensor, e->tensor, sizeof j->tensor);
	c->ranks = e->workers;
	c->arrival_ns = e->arrival_ns;
	c->iterations = e->iterations;
	c->payload_bytes = (uint16_t)(e->payload_bytes / 8 * 8);
	c->window = e->window;
	c->pace_bps = e->pace_bps;
	c->ahead = e->ahead;
	c->cache_frags = e->cache_frags;
	c->mode = e->mode ? FAN_FIXED : FAN_NATIVE;
	static const uint8_t dtypes[] = {FAN_FLOAT32, FAN_FLOAT16, FAN_BFLOAT16, FAN_BLOCK8};
	c->wire = dtypes[e->wire];
	c->priority = (uint8_t)e->priority;
	c->congestion = (uint8_t)e->congestion;
	c->route = e->route;
	c->overlap = e->overlap;
	c->verify = e->verify;
	c->retries = e->retries;
	c->jitter = e->jitter;
	c->pareto = e->pareto;
	c->alive_ms = (uint32_t)(e->alive_ns / FAN_MS);
	c->stall_ms = (uint32_t)(e->stall_ns / FAN_MS);
	c->seed = fan_rng_mix(s->seed ^ fan_rng_mix(s->jobs + UINT64_C(77)));
}

static uint32_t hosts_of(const struct fan_scenario *s)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->nodes; i++)
		n += s->node[i].kind == FAN_NODE_WORKER;
	return n;
}

/* Check numbers that depend on each other. */
static int check_entry(const struct fan_scenario *s, struct job_entry *e, const json_t *o,
		       struct fan_reader *r)
{
	uint32_t hosts = hosts_of(s);
	if (!e->name[0])
		snprintf(e->name, sizeof e->name, "job%u", s->jobs);
	if (!e->workers && hosts >= 2)
		e->workers = hosts < FAN_WORKERS_MAX ? hosts : FAN_WORKERS_MAX;
	if (e->workers > hosts || !e->workers)
		return fan_reader_fail(r, "workers", "%u: the topology has %u worker nodes",
				       e->workers, hosts);
	if (e->ahead && e->ahead < e->window)
		return fan_reader_fail(r, "ahead", "%u: expected 0, or the window of %u or more",
				       e->ahead, e->window);
	if (e->cache_frags && !e->ahead)
		return fan_reader_fail(r, "cache_frags",
				       "goes with ahead: else none is slow alone");
	if (e->mode && e->wire)
		return fan_reader_fail(r, "mode", "fixed goes with wire float32 only");
	if (!json_object_get(o, "model"))
		return fan_reader_fail(r, NULL, "lacks the key \"model\"");
	return 0;
}

/* Sums of models up to this size are checked, unless the scenario says otherwise. */
#define VERIFY_NUMEL (UINT64_C(4) << 20)

static int add_job(struct fan_scenario *s, const struct job_entry *e, const json_t *o,
		   struct fan_reader *r, uint32_t copy)
{
	if (s->jobs == FAN_SCENARIO_JOBS_MAX)
		return fan_reader_fail(r, NULL, "more than %d jobs", FAN_SCENARIO_JOBS_MAX);
	struct fan_scenario_job *j = &s->job[s->jobs];
	memset(j, 0, sizeof *j);
	fill(s, j, e);
	struct fan_job_config *c = &j->cfg;
	c->arrival_ns += copy * e->interval_ns;
	if (e->copies > 1)
		snprintf(c->name, sizeof c->name, "%.*s%u", COPY_NAME_BYTES, e->name, copy);
	else
		memcpy(c->name, e->name, sizeof c->name);
	for (uint32_t i = 0; i < s->jobs; i++)
		if (strcmp(s->job[i].cfg.name, c->name) == 0)
			return fan_reader_fail(r, "name", "there are two jobs \"%s\"", c->name);
	s->jobs++; /* from here on it is freed with the scenario */
	if (fan_scenario_read_model(&c->model, json_object_get(o, "model"), r))
		return -1;
	if (!json_object_get(o, "verify"))
		c->verify =
			e->reduce == FAN_REDUCE_FANIN && fan_model_numel(&c->model) <= VERIFY_NUMEL;
	const json_t *slow = json_object_get(o, "slow"), *hosts = json_object_get(o, "hosts");
	const json_t *cut = json_object_get(o, "cut"), *joins = json_object_get(o, "joins");
	if (cut && fan_scenario_read_cut(&c->model, cut, r))
		return -1;
	if (joins && fan_scenario_read_joins(s, c, joins, json_object_get(o, "groups"), r))
		return -1;
	if (slow && read_slow(c, slow, r))
		return -1;
	if (hosts && read_hosts(s, c, hosts, r))
		return -1;
	if (!fan_job_cut(c, j->bucket_bytes))
		return fan_reader_fail(r, NULL, "out of memory");
	return 0;
}

static const struct job_entry usual = {
	.payload_bytes = FAN_PAYLOAD_1500,
	.window = FAN_WINDOW_QUOTA,
	.iterations = 1,
	.copies = 1,
	.alive_ns = FAN_ALIVE_MS * FAN_MS,
	.stall_ns = STALL_MS * FAN_MS,
};

static int read_job(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct job_entry e = usual;
	if (fan_fields_read(r, o, job_fields, COUNT(job_fields), &e) || check_entry(s, &e, o, r))
		return -1;
	for (uint32_t i = 0; i < e.copies; i++)
		if (add_job(s, &e, o, r, i))
			return -1;
	return 0;
}

/* ---- job traces ---- */

/* Read one line of a trace; `o` has the other fields of the job. */
static int read_trace_line(struct fan_scenario *s, const struct fan_csv *c, const json_t *o,
			   struct fan_reader *r)
{
	struct job_entry e = usual;
	uint64_t workers, iterations, duration_ns;
	if (fan_fields_read(r, o, job_fields, COUNT(job_fields), &e))
		return -1;
	if (c->fields != 5)
		return fan_reader_fail(r, "file", "line %u: expected 5 fields", c->line);
	if (!fan_csv_number(c->field[0], FAN_WORKERS_MAX, &workers) ||
	    !fan_csv_seconds(c->field[1], &duration_ns) ||
	    !fan_csv_seconds(c->field[2], &e.arrival_ns) ||
	    !fan_csv_number(c->field[3], 1000000, &iterations))
		return fan_reader_fail(r, "file", "line %u: expected numbers in " TRACE_HEAD,
				       c->line);
	if (workers < 2)
		return 0; /* it reduces nothing */
	json_t *job = json_copy((json_t *)o);
	json_object_set_new(job, "model", json_string(c->field[4]));
	e.workers = (uint32_t)workers;
	e.iterations = iterations ? (uint32_t)iterations : 1;
	snprintf(e.name, sizeof e.name, "line%u", c->line);
	int bad = check_entry(s, &e, job, r) || add_job(s, &e, job, r, 0);
	json_decref(job);
	return bad ? -1 : 0;
}

static int read_trace(struct fan_scenario *s, const json_t *o, struct fan_reader *r)
{
	struct fan_csv c;
	json_t *job = json_is_object(o) ? json_copy((json_t *)o) : NULL;
	const char *name = json_string_value(json_object_get(o, "file"));
	char *text = name ? fan_scenario_file(r, "file", name) : NULL;
	int bad = text ? 0 : -1;
	if (!name)
		fan_reader_fail(r, "file", "expected the name of a CSV file");
	if (text && !fan_csv_open(&c, text, TRACE_HEAD))
		bad = fan_reader_fail(r, "file", "%s: expected the columns " TRACE_HEAD, name);
	json_object_del(job, "file");
	while (!bad && fan_csv_next(&c))
		bad = read_trace_line(s, &c, job, r);
	free(text);
	json_decref(job);
	return bad;
}

int fan_scenario_read_jobs(struct fan_scenario *s, const json_t *root, struct fan_reader *r)
{
	const json_t *list = json_object_get(root, "jobs"), *trace;
	trace = json_object_get(root, "job_trace");
	s->job = malloc(FAN_SCENARIO_JOBS_MAX * sizeof *s->job);
	if (!s->job)
		return fan_reader_fail(r, NULL, "out of memory");
	if (list && !json_is_array(list))
		return fan_reader_fail(r, "jobs", "expected an array");
	for (size_t i = 0; i < json_array_size(list); i++) {
		size_t back = fan_reader_enter(r, "jobs[%zu]", i);
		if (read_job(s, json_array_get(list, i), r))
			return -1;
		fan_reader_leave(r, back);
	}
	if (trace) {
		size_t back = fan_reader_enter(r, "job_trace");
		if (read_trace(s, trace, r))
			return -1;
		fan_reader_leave(r, back);
	}
	return s->jobs ? 0 : fan_reader_fail(r, "jobs", "expected at least one job");
}
