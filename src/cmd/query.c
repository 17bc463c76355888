/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - `fanin query`: what switches and servers tell of their jobs, as JSON for `fanin top`.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "ask.h"
#include "cmd.h"
#include "cmd/metrics/metrics_jobs.h"
#include "net/clock.h"
#include "net/logline.h"
#include "net/udp.h"

#define WITHIN_MAX 60000

struct query_args {
	struct args_many at;
	int within_ms;
	bool jobs;
	char prometheus[ARGS_TEXT_BYTES]; /* empty: none */
};

#define AT(field) offsetof(struct query_args, field)
static const struct fan_option options[] = {
	{"switch", 's', ARGS_MANY, AT(at), 0, ARGS_MANY_MAX, NULL, "ADDR:PORT",
	 "a switch or server to ask; may be repeated"},
	{"jobs", 'j', ARGS_FLAG, AT(jobs), 0, 0, NULL, NULL, "ask about jobs alone"},
	{"within", 'w', ARGS_NUMBER, AT(within_ms), 1, WITHIN_MAX, NULL, "MS",
	 "end after so long, with what has been told so far"},
	{"prometheus", 0, ARGS_TEXT, AT(prometheus), 0, 0, NULL, "FILE",
	 "write the jobs of the last switch to FILE as metrics"},
};

static const struct args_command command = {
	.name = "query",
	.help = "Print what switches tell of their jobs: a line of JSON for each.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

/* One switch, and its answers so far. */
struct told {
	const struct query_args *a;
	fan_peer at;
	uint64_t by_ns;
	json_t *jobs, *slots, *ranks;
	struct metrics_jobs metrics;
};

static bool is_late(const struct told *t)
{
	return fan_clock_ns() > t->by_ns;
}

/* As it is, or with escapes where it is no UTF-8. */
static json_t *name_json(const char *name, size_t bytes)
{
	struct fan_line escaped = {.used = 0};
	json_t *whole = json_stringn(name, bytes);

	if (whole)
		return whole;
	fan_line_escaped(&escaped, name, bytes);
	return json_string(escaped.text);
}

static json_t *missing_json(const uint64_t *set)
{
	json_t *missing = json_array();

	for (unsigned i = fan_ranks_first(set); i < FAN_RANKS_MAX; i = fan_ranks_next(set, i + 1))
		json_array_append_new(missing, json_integer((int)i));
	return missing;
}

static void add_job(json_t *jobs, const struct fan_report *r, unsigned shard)
{
	json_t *j =
		json_pack("{s:o, s:s, s:i, s:i, s:i, s:I, s:I, s:b, s:I, s:i, s:o}", "name",
			  name_json(r->name, r->name_bytes), "state", fan_job_state_text(r->state),
			  "shard", (int)shard, "ranks", (int)r->ranks, "window", (int)r->window,
			  "results", (json_int_t)r->results, "replays", (json_int_t)r->replays,
			  "multicast", (int)r->multicast, "waiting", (json_int_t)r->waiting,
			  "operations", (int)r->operations, "missing", missing_json(r->missing));

	if (r->waiting && r->oldest != UINT64_MAX)
		json_object_set_new(j, "oldest", json_integer((json_int_t)r->oldest));
	if (r->waiting && r->age_ms != FAN_AGE_NOT_TOLD)
		json_object_set_new(j, "age_s", json_real(r->age_ms / 1000.0));
	if (r->state == FAN_JOB_FAILED) {
		json_object_set_new(j, "cause", json_string(fan_err_name(r->err)));
		json_object_set_new(j, "cause_text", json_string(fan_err_text(r->err)));
	}
	json_array_append_new(jobs, j);
}

static void add_slots(json_t *slots, const struct fan_slot_stats *m, unsigned shard)
{
	json_t *j = json_pack("{s:o, s:i, s:I, s:I, s:I, s:I}", "name",
			      name_json(m->name, m->name_bytes), "shard", (int)shard, "slots",
			      (json_int_t)m->slots, "slots_used", (json_int_t)m->slots_used, "held",
			      (json_int_t)m->held, "quota", (json_int_t)m->quota);
	json_t *counts = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "hits", (json_int_t)m->hits,
		"taken", (json_int_t)m->taken, "collisions", (json_int_t)m->collisions,
		"over_quota", (json_int_t)m->over_quota, "passed", (json_int_t)m->passed,
		"preemptions", (json_int_t)m->preemptions, "evictions", (json_int_t)m->evictions,
		"flushes", (json_int_t)m->flushes, "completions", (json_int_t)m->completions);

	json_object_update_new(j, counts);
	json_array_append_new(slots, j);
}

/* Ask about shared slots, too.  A switch of an earlier version does not answer, and has none. */
static void ask_slots(struct told *told, struct ask_talk *t, unsigned shard)
{
	struct fan_slot_stats m = {.jobs = 1};

	for (unsigned i = 0; i < FAN_JOBS_MAX && i < m.jobs && !is_late(told); i++) {
		const struct ask_question w = {
			.topic = FAN_TOPIC_SLOTS, .index = (uint16_t)i, .slots = &m};
		if (ask_once(t, &w) != 1 || i >= m.jobs)
			return;
		metrics_add_slots(&told->metrics, shard, &m);
		add_slots(told->slots, &m, shard);
	}
}

static void ask_ranks(struct told *told, struct ask_talk *t, unsigned shard)
{
	unsigned jobs = 1;

	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < jobs && !is_late(told); i++)
		jobs = rank_stats_ask(t, i, shard, told->ranks);
}

static int ask_jobs(struct told *told, struct ask_talk *t, unsigned shard, unsigned *shards,
		    char *why)
{
	struct fan_report r = {.jobs = 1};

	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < r.jobs; i++) {
		const struct ask_question w = {
			.topic = FAN_TOPIC_JOB, .index = (uint16_t)i, .job = &r};
		if (ask_until(t, &w, told->by_ns, why))
			return -1;
		*shards = r.shards;
		if (i >= r.jobs)
			break;
		add_job(told->jobs, &r, shard);
		metrics_add_job(&told->metrics, shard, &r);
	}
	return 0;
}

/* Ask one shard, also how many `shards` the switch has. */
static int ask_shard(struct told *told, unsigned shard, unsigned *shards, char *why)
{
	struct ask_talk t;
	int e = ask_open(&t, &told->at, shard);

	if (e) {
		snprintf(why, ARGS_WHY_BYTES, "%s: %s", t.at, strerror(-e));
		return -1;
	}
	e = ask_jobs(told, &t, shard, shards, why);
	if (!e && !told->a->jobs) {
		ask_slots(told, &t, shard);
		ask_ranks(told, &t, shard);
	}
	fan_udp_close(&t.udp);
	return e;
}

static int ask_switch(struct told *t, char *why)
{
	unsigned shards = 1;
	int e = 0;

	for (unsigned i = 0; i < shards && i < FAN_SHARDS_MAX && !e; i++)
		e = ask_shard(t, i, &shards, why);
	return e;
}

static int write_metrics(const struct told *t, char *why)
{
	struct fan_expose x = {.full = t->metrics.lost};
	char what[ARGS_WHY_BYTES / 2];

	metrics_put_jobs(&x, &t->metrics);
	metrics_put_ranks(&x, t->ranks);
	const int e = fan_expose_write(&x, t->a->prometheus, what, sizeof what);
	if (e)
		snprintf(why, ARGS_WHY_BYTES, "--prometheus: %s", what);
	free(x.text);
	return e ? -1 : 0;
}

/* Ask the switch at `text` and print its line.  0; -1: standard output or a file is lost. */
static int tell(const struct query_args *a, const char *text, uint64_t by_ns)
{
	char why[ARGS_WHY_BYTES] = "";
	struct told t = {.a = a,
			 .by_ns = by_ns,
			 .jobs = json_array(),
			 .slots = json_array(),
			 .ranks = json_array()};
	int e = fan_peer_parse(&t.at, text, why, sizeof why);

	if (!e)
		e = ask_switch(&t, why);
	if (!e && *a->prometheus)
		e = write_metrics(&t, why);
	json_t *line = json_pack("{s:s, s:s, s:o, s:o, s:o}", "at", text, "error", e ? why : "",
				 "jobs", t.jobs, "slots", t.slots, "ranks", t.ranks);
	e = !line || json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) ||
	    putchar('\n') == EOF;
	json_decref(line);
	metrics_jobs_free(&t.metrics);
	return e ? -1 : 0;
}

int cmd_query(int argc, char **argv)
{
	static struct query_args a; /* static, as the list of a repeated flag is never freed */
	int e = 0;

	args_parse(&command, &a, argc, argv);
	const uint64_t by_ns =
		a.within_ms ? fan_clock_ns() + (uint64_t)a.within_ms * FAN_MS : UINT64_MAX;
	for (unsigned i = 0; i < a.at.count && !e; i++)
		e = tell(&a, a.at.text[i], by_ns);
	return e ? 1 : 0;
}
