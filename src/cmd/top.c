/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - `fanin top`: shows what the jobs of a switch do and wait for. */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "ask.h"
#include "cmd.h"
#include "cmd/metrics/metrics_jobs.h"
#include "file/file.h"
#include "net/clock.h"
#include "net/logline.h"
#include "net/udp.h"
#include "ps.h"

#define ADDRESS_BYTES  80
#define INTERVAL_MAX_S 3600

struct top_args {
	char switches[ARGS_TEXT_BYTES]; /* with commas between */
	fan_peer sw[TOP_SWITCHES_MAX];
	unsigned sws;
	int interval_s, shards;
	bool once;
	char json[ARGS_TEXT_BYTES]; /* empty: none */
	char prometheus[ARGS_TEXT_BYTES];
	struct top_live *live; /* draws; NULL: tables are printed */
	char controller[ARGS_TEXT_BYTES];
};

#define AT(field) offsetof(struct top_args, field)
static const struct fan_option options[] = {
	{"switch", 's', ARGS_TEXT, AT(switches), 0, 0, NULL, "ADDR:PORT[,...]",
	 "the switch to ask; with several, also the share of a job that each has (none: the ranks of "
	 "this host)"},
	{"controller", 'c', ARGS_TEXT, AT(controller), 0, 0, NULL, "PATH",
	 "the --socket of a controller to ask instead: nodes, jobs, and the trees that sum them"},
	{"once", '1', ARGS_FLAG, AT(once), 0, 0, NULL, NULL, "print once and exit"},
	{"interval", 'i', ARGS_NUMBER, AT(interval_s), 1, INTERVAL_MAX_S, NULL, "SECONDS",
	 "between two tables (1)"},
	{"shards", 't', ARGS_NUMBER, AT(shards), 1, FAN_SHARDS_MAX, NULL, "N",
	 "ask only this many shards, which listen on consecutive ports (all)"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write the jobs to FILE as JSON; - for the standard output, without the table"},
	{"prometheus", 0, ARGS_TEXT, AT(prometheus), 0, 0, NULL, "FILE",
	 "write the jobs to FILE as metrics, for node_exporter's textfile collector"},
};

static const struct args_command command = {
	.name = "top",
	.help = "Show what the jobs of a switch do, and which ranks and fragments they wait for.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

/* The answers so far. */
struct table {
	const struct top_args *a;
	bool begun;	  /* the first table's head has been printed */
	bool head_told;	  /* it says that a stranger asks */
	bool sees_less;	  /* a job in it does */
	bool slots_begun; /* the second table's head has been printed */
	json_t *jobs;
	json_t *slots; /* of shared slots */
	bool ranks_begun;
	json_t *ranks; /* of jobs whose ranks run ahead of each other */
	struct metrics_jobs metrics;
	unsigned sw;		   /* number of the switch that is asked */
	struct top_shares *shares; /* keeps earlier answers, too */
};

static bool is_silent(const struct top_args *a)
{
	return a->live || strcmp(a->json, "-") == 0;
}

/* Print the head once, when a switch has answered. */
static void begin(struct table *t, const struct fan_report *r)
{
	const struct top_args *a = t->a;
	char at[ADDRESS_BYTES];

	if (t->begun || is_silent(a))
		return;
	t->begun = true;
	t->head_told = top_live_sees_less(r);
	printf("switch %s%s\n", fan_peer_text(&a->sw[t->sw], at, sizeof at),
	       top_live_sees_less(r) ? TOP_LIVE_STRANGER : "");
	printf("%-5s %-20s %-8s %5s %6s %12s %9s %-9s %7s %12s %8s  %s\n", "shard", "job", "state",
	       "ranks", "window", "results", "replays", "by", "waiting", "oldest", "age",
	       "waits for");
}

static void print_job(const struct fan_report *r, unsigned shard)
{
	struct fan_line name = {.used = 0};
	char ranks[FAN_RANKS_BYTES], oldest[24] = "-", age[TOP_LIVE_AGE_BYTES];

	fan_line_escaped(&name, r->name, r->name_bytes);
	if (r->waiting && r->oldest != UINT64_MAX)
		snprintf(oldest, sizeof oldest, "%" PRIu64, r->oldest);
	printf("%-5u %-20s %-8s %5u %6u %12" PRIu64 " %9" PRIu64 " %-9s %7" PRIu32 " %12s %8s  ",
	       shard, name.text, fan_job_state_text(r->state), r->ranks, r->window, r->results,
	       r->replays, r->multicast ? "multicast" : "unicast", r->waiting, oldest,
	       top_live_age(r, age));
	fan_ranks_text(r->missing, ranks, sizeof ranks);
	if (r->state == FAN_JOB_FAILED)
		printf("%s: blamed %s\n", fan_err_text(r->err), ranks);
	else if (r->state == FAN_JOB_FORMING)
		printf("ranks %s to join\n", ranks);
	else
		printf("%s%s\n", r->waiting ? "ranks " : "", r->waiting ? ranks : "nobody");
}

static void add_json(const struct table *t, const struct fan_report *r, unsigned shard)
{
	struct fan_line name = {.used = 0};
	char at[ADDRESS_BYTES];
	json_t *missing = json_array();

	fan_line_escaped(&name, r->name, r->name_bytes);
	for (unsigned i = fan_ranks_first(r->missing); i < FAN_RANKS_MAX;
	     i = fan_ranks_next(r->missing, i + 1))
		json_array_append_new(missing, json_integer((int)i));
	json_t *j =
		json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:b, s:I, s:o}", "name", name.text,
			  "state", fan_job_state_text(r->state), "shard", (int)shard, "ranks",
			  (int)r->ranks, "window", (int)r->window, "results",
			  (json_int_t)r->results, "replays", (json_int_t)r->replays, "multicast",
			  (int)r->multicast, "waiting", (json_int_t)r->waiting, "missing", missing);
	if (r->waiting && r->oldest != UINT64_MAX)
		json_object_set_new(j, "oldest", json_integer((json_int_t)r->oldest));
	if (r->waiting && r->age_ms != FAN_AGE_NOT_TOLD)
		json_object_set_new(j, "age_s", json_real(r->age_ms / 1000.0));
	if (r->state == FAN_JOB_FAILED)
		json_object_set_new(j, "cause", json_string(fan_err_name(r->err)));
	if (t->a->sws > 1)
		json_object_set_new(j, "switch",
				    json_string(fan_peer_text(&t->a->sw[t->sw], at, sizeof at)));
	json_array_append_new(t->jobs, j);
}

static int write_json(const struct table *t, char *why)
{
	const struct top_args *a = t->a;
	json_t *root = json_pack("{s:s, s:O, s:O, s:O}", "switch", a->switches, "jobs", t->jobs,
				 "slots", t->slots, "ranks", t->ranks);
	if (a->sws > 1)
		json_object_set_new(root, "shares", top_shares_json(t->shares, a->sw, a->sws));
	bool out = strcmp(a->json, "-") == 0;
	char what[ARGS_WHY_BYTES / 2] = "-: could not be written whole";
	FILE *f = out ? stdout : fan_file_stream(a->json, FAN_FILE_OUTPUT, what, sizeof what);
	int e = !f || json_dumpf(root, f, JSON_INDENT(2)) || fputc('\n', f) == EOF ? -1 : 0;

	if (f && (out ? fflush(f) : fan_file_done(f, a->json, what, sizeof what)))
		e = -1;
	if (e)
		snprintf(why, ARGS_WHY_BYTES, "--json: %s", what);
	json_decref(root);
	return e;
}

static int write_metrics(const struct table *t, char *why)
{
	const char *file = t->a->prometheus;
	struct fan_expose x = {.full = t->metrics.lost};

	metrics_put_jobs(&x, &t->metrics);
	metrics_put_ranks(&x, t->ranks);
	char what[ARGS_WHY_BYTES / 2];
	int e = fan_expose_write(&x, file, what, sizeof what);
	if (e)
		snprintf(why, ARGS_WHY_BYTES, "--prometheus: %s", what);
	free(x.text);
	return e ? -1 : 0;
}

static void print_slots(struct table *table, const struct fan_slot_stats *m, unsigned shard)
{
	struct fan_line name = {.used = 0};

	fan_line_escaped(&name, m->name, m->name_bytes);
	if (!table->slots_begun)
		printf("\n%-5s %-20s %6s %6s %10s %10s %10s %10s %10s %9s %9s %9s\n", "shard",
		       "shared slots of job", "held", "quota", "sums", "hits", "collisions",
		       "over quota", "unsummed", "preempts", "evicted", "flushes");
	table->slots_begun = true;
	printf("%-5u %-20s %6" PRIu32 " %6" PRIu32 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
	       " %10" PRIu64 " %10" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
	       shard, name.used ? name.text : "?", m->held, m->quota, m->completions, m->hits,
	       m->collisions, m->over_quota, m->passed, m->preemptions, m->evictions, m->flushes);
}

static void add_slots_json(json_t *slots, const struct fan_slot_stats *m, unsigned shard)
{
	struct fan_line name = {.used = 0};

	fan_line_escaped(&name, m->name, m->name_bytes);
	json_t *j =
		json_pack("{s:s, s:i, s:I, s:I, s:I, s:I}", "name", name.text, "shard", (int)shard,
			  "slots", (json_int_t)m->slots, "slots_used", (json_int_t)m->slots_used,
			  "held", (json_int_t)m->held, "quota", (json_int_t)m->quota);
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
static void ask_slots(struct table *table, struct ask_talk *t, unsigned shard)
{
	struct fan_slot_stats m = {.jobs = 1};

	for (unsigned i = 0; i < FAN_JOBS_MAX && i < m.jobs; i++) {
		const struct ask_question w = {
			.topic = FAN_TOPIC_SLOTS, .index = (uint16_t)i, .slots = &m};
		if (ask_once(t, &w) != 1 || i >= m.jobs)
			return;
		if (!is_silent(table->a))
			print_slots(table, &m, shard);
		metrics_add_slots(&table->metrics, shard, &m);
		add_slots_json(table->slots, &m, shard);
	}
}

/* Ask about the ranks of its jobs. */
static void ask_ranks(struct table *table, struct ask_talk *t, unsigned shard)
{
	unsigned jobs = 1;

	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < jobs; i++)
		jobs = rank_stats_ask(t, i, shard, table->ranks,
				      is_silent(table->a) ? NULL : stdout, &table->ranks_begun);
}

/* Ask one shard about all its jobs, and how many `shards` the switch has. */
static int ask_shard(struct table *table, unsigned shard, unsigned *shards, char *why)
{
	struct ask_talk t;
	struct fan_report r = {.jobs = 1};
	int e = ask_open(&t, &table->a->sw[table->sw], shard);

	if (e) {
		snprintf(why, ARGS_WHY_BYTES, "%s: %s", t.at, strerror(-e));
		return -1;
	}
	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < r.jobs && !e; i++) {
		const struct ask_question w = {
			.topic = FAN_TOPIC_JOB, .index = (uint16_t)i, .job = &r};
		e = ask_until(&t, &w, why);
		if (e)
			break;
		*shards = r.shards;
		begin(table, &r);
		if (i >= r.jobs)
			break;
		table->sees_less |= top_live_sees_less(&r);
		if (!is_silent(table->a))
			print_job(&r, shard);
		add_json(table, &r, shard);
		top_shares_add(table->shares, table->sw, &r);
		metrics_add_job(&table->metrics, shard, &r);
	}
	if (!e && table->sees_less && !table->head_told && !is_silent(table->a))
		puts(&TOP_LIVE_STRANGER[3]); /* the first job there has not shown it */
	table->head_told |= table->sees_less;
	if (!e)
		ask_slots(table, &t, shard);
	if (!e)
		ask_ranks(table, &t, shard);
	fan_udp_close(&t.udp);
	return e;
}

static int ask_switch(struct table *t, char *why)
{
	const struct top_args *a = t->a;
	unsigned shards = 1;
	int e = 0;

	t->begun = t->slots_begun = t->ranks_begun = t->head_told = t->sees_less = false;
	for (unsigned i = 0; i < shards && i < FAN_SHARDS_MAX && !e; i++) {
		e = ask_shard(t, i, &shards, why);
		if (a->shards)
			shards = (unsigned)a->shards;
	}
	return e;
}

static int tell(const struct top_args *a, struct top_shares *shares, char *why)
{
	struct table t = {.a = a,
			  .jobs = json_array(),
			  .slots = json_array(),
			  .ranks = json_array(),
			  .shares = shares};
	int e = 0;

	top_shares_begin(shares);
	for (t.sw = 0; t.sw < a->sws && !e; t.sw++)
		e = ask_switch(&t, why);
	if (!e && !is_silent(a) && json_array_size(t.jobs) == 0)
		printf("no jobs\n");
	if (!e && !is_silent(a) && a->sws > 1)
		top_shares_print(shares, a->sw, a->sws);
	if (!e && a->json[0])
		e = write_json(&t, why);
	if (!e && a->prometheus[0])
		e = write_metrics(&t, why);
	if (!e && a->live)
		top_live_take(a->live, fan_clock_ns(), &t.metrics, t.ranks);
	fflush(stdout);
	json_decref(t.jobs);
	json_decref(t.slots);
	json_decref(t.ranks);
	metrics_jobs_free(&t.metrics);
	return e;
}

/* Show tables on a terminal until a key or a signal ends it. */
static int run_live(const struct top_args *a)
{
	char why[ARGS_WHY_BYTES];
	struct top_shares shares = {.jobs = 0};
	enum top_live_key key = TOP_LIVE_TIME;
	uint64_t next_ns = fan_clock_ns();
	int e = 0;

	while (!e && key != TOP_LIVE_QUIT) {
		if (key == TOP_LIVE_TIME) {
			e = tell(a, &shares, why);
			next_ns += (uint64_t)a->interval_s * 1000 * FAN_MS;
		}
		if (e)
			break;
		top_live_draw(a->live);
		key = top_live_wait(a->live, next_ns);
	}
	top_live_close(a->live);
	top_shares_free(&shares);
	if (e)
		fprintf(stderr, "fanin top: %s\n", why);
	return e ? 1 : 0;
}

/* The addresses of a->switches.  0, or -1 with why. */
static int take_switches(struct top_args *a, char *why)
{
	char text[ARGS_TEXT_BYTES], *rest;

	memcpy(text, a->switches, sizeof text);
	for (char *one = text; one; one = rest) {
		rest = strchr(one, ',');
		if (rest)
			*rest++ = '\0';
		if (a->sws == TOP_SWITCHES_MAX) {
			snprintf(why, ARGS_WHY_BYTES, "%.100s: expected at most %d switches", one,
				 TOP_SWITCHES_MAX);
			return -1;
		}
		if (fan_peer_parse(&a->sw[a->sws], one, why, ARGS_WHY_BYTES))
			return -1;
		for (unsigned i = 0; i < a->sws; i++)
			if (fan_peer_equal(&a->sw[i], &a->sw[a->sws])) {
				snprintf(why, ARGS_WHY_BYTES,
					 "%.100s: named twice: expected different ones", one);
				return -1;
			}
		a->sws++;
	}
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct top_args a = {.interval_s = 1};
	struct top_shares shares = {.jobs = 0};
	char why[ARGS_WHY_BYTES];

	args_parse(&command, &a, argc, argv);
	if (!cmd_can_write("top", "json", a.json))
		return 2;
	if (a.controller[0] && !a.switches[0])
		return top_tree(&(struct top_tree_args){.path = a.controller,
							.json = a.json,
							.interval_s = a.interval_s,
							.once = a.once});
	if (a.switches[0] && a.controller[0]) {
		fprintf(stderr, "fanin top: --switch: expected ADDR:PORT of a running switch, or "
				"--controller PATH\n");
		return 2;
	}
	if (!a.switches[0] && (a.prometheus[0] || a.shards)) {
		fprintf(stderr, "fanin top: --%s: expected --switch ADDR:PORT as well\n",
			a.shards ? "shards" : "prometheus");
		return 2;
	}
	if (!a.switches[0])
		return ps_top(a.interval_s, a.once, a.json);
	if (take_switches(&a, why)) {
		fprintf(stderr, "fanin top: --switch: %s\n", why);
		return 2;
	}
	if (a.sws > 1 && a.prometheus[0]) {
		fprintf(stderr, "fanin top: --prometheus: expected one switch, because its metrics "
				"do not name it\n");
		return 2;
	}
	if (!a.once && strcmp(a.json, "-") != 0 && a.sws == 1)
		a.live = top_live_open(a.switches);
	if (a.live)
		return run_live(&a);
	int e;
	do
		e = tell(&a, &shares, why);
	while (!e && !a.once && poll(NULL, 0, a.interval_s * 1000) == 0);
	top_shares_free(&shares);
	if (e)
		fprintf(stderr, "fanin top: %s\n", why);
	return e ? 1 : 0;
}
