/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - `fanin query`: the jobs of switches and servers, as JSON for `fanin top`.
 * They are asked by QUERY, by topic, which any switch answers. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cmd.h"
#include "core/wire/ctlmsg.h"
#include "net/clock.h"
#include "net/logline.h"
#include "net/udp.h"

#define ASK_ADDRESS_BYTES 80

/* A conversation with one shard: one at a time in a process. */
struct ask_talk {
	struct fan_udp udp; /* to be closed */
	char at[ASK_ADDRESS_BYTES];
};

/* A question, and where its answer goes: the topic's struct. */
struct ask_question {
	enum fan_topic topic;
	uint16_t index, first; /* `first`: of topics RANKS and HELPERS */
	void *answer;
};

#define TRIES	     5 /* questions before a switch counts as silent */
#define RANK_TRIES   3 /* since one or its answer may be lost */
#define ANSWER_MS    200
#define BUFFER_BYTES (256 * 1024)
#define STRAYS_MAX   64 /* datagrams without an answer, before the question is repeated */

static uint8_t buffer[FAN_UDP_RECV_BYTES];

/* Begin one with shard `shard` of the switch at `at`.  0, or -errno. */
static int ask_open(struct ask_talk *t, const fan_peer *at, unsigned shard)
{
	struct fan_udp_options o = {.connect = *at, .buffer_bytes = BUFFER_BYTES};

	o.connect.port += shard;
	fan_peer_text(&o.connect, t->at, sizeof t->at);
	return fan_udp_open(&t->udp, &o);
}

static void put(struct ask_talk *t, const struct ask_question *w, uint64_t nonce)
{
	struct fan_out_item item;
	struct fan_out out;
	uint8_t scratch[FAN_CTL_BYTES_MAX + FAN_REPORT_BYTES];
	struct fan_query q = {.index = w->index, .first = w->first};
	struct fan_frag h = {.type = FAN_TYPE_QUERY,
			     .topic = (uint8_t)w->topic,
			     .sender = FAN_RANK_NONE,
			     .nonce = nonce};

	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	struct fan_out_item *it = fan_out_add(&out, FAN_TO_PEER);
	fan_ctl_finish(it, &h, scratch, fan_ctl_put(scratch, &q));
	fan_udp_send(&t->udp, &out, true);
}

static bool is_answer(const struct ask_question *w, const struct fan_frag *f)
{
	static const enum fan_body bodies[] = {[FAN_TOPIC_JOB] = FAN_BODY_REPORT,
					       [FAN_TOPIC_SLOTS] = FAN_BODY_SLOT_STATS,
					       [FAN_TOPIC_RANKS] = FAN_BODY_RANK_STATS,
					       [FAN_TOPIC_HELPERS] = FAN_BODY_HELPER_STATS};
	const struct fan_rank_stats *r = w->answer;
	const struct fan_helper_stats *h = w->answer;

	if (f->type != FAN_TYPE_REPORT || f->topic != w->topic ||
	    fan_ctl_get_body(bodies[w->topic], w->answer, f) != FAN_OK)
		return false;
	return w->topic == FAN_TOPIC_RANKS     ? r->index == w->index && r->first == w->first
	       : w->topic == FAN_TOPIC_HELPERS ? h->index == w->index && h->first == w->first
					       : true;
}

/* Is one of the datagrams of the batch the answer to `nonce`? */
static bool answers(const struct fan_udp_batch *b, uint64_t nonce, const struct ask_question *w)
{
	struct fan_frag f;

	for (size_t at = 0; at < b->bytes; at += fan_udp_datagram_bytes(b, at))
		if (fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(b, at)) < 0 &&
		    f.nonce == nonce && is_answer(w, &f))
			return true;
	return false;
}

/* Ask once.  1: answered; 0: no answer in time; -1: ICMP reports that nothing listens. */
static int ask_once(struct ask_talk *t, const struct ask_question *w)
{
	uint64_t nonce = fan_clock_nonce();
	struct pollfd p = {t->udp.fd, POLLIN, 0};
	struct fan_udp_batch b;
	uint64_t end = fan_clock_ns() + ANSWER_MS * FAN_MS;

	put(t, w, nonce);
	for (unsigned i = 0; i < STRAYS_MAX; i++) {
		int n = fan_udp_recv(&t->udp, buffer, &b);
		if (n == -ECONNREFUSED)
			return -1;
		if (n == 1 && answers(&b, nonce, w))
			return 1;
		int wait = fan_clock_timeout_ms(end, -1);
		if (wait == 0)
			return 0;
		if (n == 0)
			poll(&p, 1, wait);
	}
	return 0;
}

/* Ask a few times.  False: no answer. */
static bool ask_again(struct ask_talk *t, const struct ask_question *w)
{
	int n = 0;

	for (unsigned i = 0; i < RANK_TRIES && n != 1; i++)
		n = ask_once(t, w);
	return n == 1;
}

/* Ask repeatedly until there is an answer, or it is `by_ns`.  0; or -1 and the cause in `why`,
 * ARGS_WHY_BYTES. */
static int ask_until(struct ask_talk *t, const struct ask_question *w, uint64_t by_ns, char *why)
{
	bool refused = false;

	for (unsigned i = 0; i < TRIES && fan_clock_ns() < by_ns; i++) {
		int n = ask_once(t, w);
		if (n == 1)
			return 0;
		if (n < 0) {
			refused = true;
			poll(NULL, 0, ANSWER_MS);
		}
	}
	snprintf(why, ARGS_WHY_BYTES,
		 refused ? "%s: ICMP reports that nothing listens there; does `fanin switch` run, "
			   "and on this port?"
			 : "%s: no answer within %d ms; is it a switch, and does a firewall drop "
			   "UDP?",
		 t->at, TRIES * ANSWER_MS);
	return -1;
}

/* ---- the ranks of a job ---- */

/* Most answers about pairs from a switch: some are full, the others have scanned as many pairs as
 * they may. */
#define PAIRS	    (FAN_RANKS_MAX * FAN_RANKS_MAX)
#define ANSWERS_MAX (PAIRS / FAN_STATS_PAIRS + PAIRS / FAN_STATS_SCAN + 1)

/* The ranks of a job, as one shard reports them. */
struct team {
	char name[FAN_LINE_BYTES]; /* escaped */
	unsigned shard, ranks;
	unsigned copy; /* teams of its name in the shard that were asked before */
	struct fan_standing rank[FAN_RANKS_MAX];
	bool paired; /* `kept` is known, by helper and rank */
	uint32_t kept[FAN_RANKS_MAX][FAN_RANKS_MAX];
};

/* For whom `rank` keeps sums, and how many; only ranks with any. */
static json_t *kept_json(const struct team *t, unsigned rank)
{
	json_t *o = json_object();
	char who[16];

	for (unsigned r = 0; r < t->ranks; r++) {
		if (!t->kept[rank][r])
			continue;
		snprintf(who, sizeof who, "%u", r);
		json_object_set_new(o, who, json_integer(t->kept[rank][r]));
	}
	return o;
}

static void add_rank(json_t *ranks, const struct team *t, unsigned rank)
{
	const struct fan_standing *s = &t->rank[rank];
	json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I}", "job", t->name, "shard",
			      (int)t->shard, "rank", (int)rank, "behind", (int)s->behind,
			      "behind_most", (int)s->most, "deferred", (json_int_t)s->deferred,
			      "lent", (json_int_t)s->lent);
	json_t *cache = json_pack(
		"{s:b, s:b, s:b, s:i, s:i, s:i}", "straggles", (s->flags & FAN_RANK_STRAGGLES) != 0,
		"offers", (s->flags & FAN_RANK_OFFERS) != 0, "full",
		(s->flags & FAN_RANK_FULL) != 0, "cache_frags", (int)s->cache.frags, "cache_open",
		(int)s->cache.open, "cache_peak", (int)s->cache.peak);

	json_object_update_new(j, cache);
	if (t->copy)
		json_object_set_new(j, "copy", json_integer(t->copy));
	if (t->paired)
		json_object_set_new(j, "helps", kept_json(t, rank));
	json_array_append_new(ranks, j);
}

static bool is_named(const struct team *t, const char *name, size_t bytes)
{
	struct fan_text l = FAN_LINE();

	fan_text_escaped(&l, name, bytes);
	return !strcmp(l.at, t->name);
}

/* Ask who keeps for whom.  A switch whose jobs have changed in between does not answer about this
 * job. */
static bool ask_helpers(struct ask_talk *t, unsigned index, struct team *team)
{
	struct fan_helper_stats m = {.next = 0};
	uint16_t first = 0;
	bool any = false;

	for (unsigned r = 0; r < team->ranks; r++)
		any |= team->rank[r].lent > 0;
	if (!any)
		return true;
	for (unsigned n = 0; n < ANSWERS_MAX; n++) {
		const struct ask_question w = {FAN_TOPIC_HELPERS, (uint16_t)index, first, &m};
		if (!ask_again(t, &w) || m.ranks != team->ranks ||
		    !is_named(team, m.name, m.name_bytes))
			return false;
		for (unsigned i = 0; i < m.count; i++) {
			unsigned pair = m.help[i].pair;
			team->kept[pair / FAN_RANKS_MAX][pair % FAN_RANKS_MAX] = m.help[i].parts;
		}
		first = m.next;
		if (!first)
			return true;
	}
	return false;
}

/* Ask about all ranks, FAN_STATS_RANKS at a time.  Returns as rank_stats_ask does. */
static unsigned ask_team(struct ask_talk *t, unsigned index, struct team *team)
{
	struct fan_rank_stats m = {.jobs = 0};
	unsigned first = 0;

	do {
		const struct ask_question w = {FAN_TOPIC_RANKS, (uint16_t)index, (uint16_t)first,
					       &m};
		if (!ask_again(t, &w))
			return 0;
		struct fan_text name = fan_text_in(team->name, sizeof team->name);
		if (!first)
			fan_text_escaped(&name, m.name, m.name_bytes);
		if (!is_named(team, m.name, m.name_bytes))
			break;
		memcpy(&team->rank[first], m.rank, m.count * sizeof *m.rank);
		first += m.count;
	} while (m.count && first < m.ranks);
	team->ranks = first;
	team->paired = first && ask_helpers(t, index, team);
	return m.jobs;
}

static unsigned count_copies(const json_t *ranks, const struct team *t)
{
	unsigned copies = 0;

	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const json_t *r = json_array_get(ranks, i);
		copies += !json_integer_value(json_object_get(r, "rank")) &&
			  json_integer_value(json_object_get(r, "shard")) == t->shard &&
			  !strcmp(json_string_value(json_object_get(r, "job")), t->name);
	}
	return copies;
}

/* Ask one shard how far the ranks of its job number `index` have come, where they run ahead, and
 * who keeps sums for whom; append each rank to `ranks`.  Nothing is appended of a job whose ranks
 * go in step, nor if there is no answer.  Returns how many jobs the switch has seen; 0: none, or no
 * answer. */
static unsigned rank_stats_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks)
{
	struct team *team = calloc(1, sizeof *team);

	if (!team)
		return 0;
	team->shard = shard;
	unsigned jobs = ask_team(t, index, team);
	team->copy = count_copies(ranks, team);
	for (unsigned r = 0; r < team->ranks; r++)
		add_rank(ranks, team, r);
	free(team);
	return jobs;
}

/* ---- the program ---- */

#define WITHIN_MAX 60000

struct query_args {
	struct args_many at;
	int within_ms;
	bool jobs;
};

#define AT(field) offsetof(struct query_args, field)
static const struct fan_option options[] = {
	{"switch", 's', ARGS_MANY, AT(at), 0, ARGS_MANY_MAX, NULL, "ADDR:PORT",
	 "a switch or server to ask; may be repeated"},
	{"jobs", 'j', ARGS_FLAG, AT(jobs), 0, 0, NULL, NULL, "ask about jobs alone"},
	{"within", 'w', ARGS_NUMBER, AT(within_ms), 1, WITHIN_MAX, NULL, "MS",
	 "end after so long, with what has come so far"},
};

static const struct args_command command = {
	.name = "query",
	.help = "Print what switches tell of their jobs: a line of JSON for each.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

/* One switch, and its answers so far. */
struct report {
	const struct query_args *a;
	fan_peer at;
	uint64_t by_ns;
	json_t *jobs, *slots, *ranks;
};

static bool is_late(const struct report *t)
{
	return fan_clock_ns() > t->by_ns;
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
			  fan_json_text(r->name), "state", fan_job_state_text(r->state), "shard",
			  (int)shard, "ranks", (int)r->ranks, "window", (int)r->window, "results",
			  (json_int_t)r->results, "replays", (json_int_t)r->replays, "multicast",
			  (int)r->multicast, "waiting", (json_int_t)r->waiting, "operations",
			  (int)r->operations, "missing", missing_json(r->missing));

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
	json_t *j = json_pack("{s:o, s:i, s:I, s:I, s:I, s:I}", "name", fan_json_text(m->name),
			      "shard", (int)shard, "slots", (json_int_t)m->slots, "slots_used",
			      (json_int_t)m->slots_used, "held", (json_int_t)m->held, "quota",
			      (json_int_t)m->quota);
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
static void ask_slots(struct report *report, struct ask_talk *t, unsigned shard)
{
	struct fan_slot_stats m = {.jobs = 1};

	for (unsigned i = 0; i < FAN_JOBS_MAX && i < m.jobs && !is_late(report); i++) {
		const struct ask_question w = {FAN_TOPIC_SLOTS, (uint16_t)i, 0, &m};
		if (ask_once(t, &w) != 1 || i >= m.jobs)
			return;
		add_slots(report->slots, &m, shard);
	}
}

static void ask_ranks(struct report *report, struct ask_talk *t, unsigned shard)
{
	unsigned jobs = 1;

	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < jobs && !is_late(report); i++)
		jobs = rank_stats_ask(t, i, shard, report->ranks);
}

static int ask_jobs(struct report *report, struct ask_talk *t, unsigned shard, unsigned *shards,
		    char *why)
{
	struct fan_report r = {.jobs = 1};

	for (unsigned i = 0; i < FAN_GROUPS_MAX && i < r.jobs; i++) {
		const struct ask_question w = {FAN_TOPIC_JOB, (uint16_t)i, 0, &r};
		if (ask_until(t, &w, report->by_ns, why))
			return -1;
		*shards = r.shards;
		if (i >= r.jobs)
			break;
		add_job(report->jobs, &r, shard);
	}
	return 0;
}

/* Ask one shard, also how many `shards` the switch has. */
static int ask_shard(struct report *report, unsigned shard, unsigned *shards, char *why)
{
	struct ask_talk t;
	int e = ask_open(&t, &report->at, shard);

	if (e) {
		snprintf(why, ARGS_WHY_BYTES, "%s: %s", t.at, strerror(-e));
		return -1;
	}
	e = ask_jobs(report, &t, shard, shards, why);
	if (!e && !report->a->jobs) {
		ask_slots(report, &t, shard);
		ask_ranks(report, &t, shard);
	}
	fan_udp_close(&t.udp);
	return e;
}

static int ask_switch(struct report *t, char *why)
{
	unsigned shards = 1;
	int e = 0;

	for (unsigned i = 0; i < shards && i < FAN_SHARDS_MAX && !e; i++)
		e = ask_shard(t, i, &shards, why);
	return e;
}

/* Ask the switch at `text` and print its line.  0; -1: standard output is lost. */
static int tell(const struct query_args *a, const char *text, uint64_t by_ns)
{
	char why[ARGS_WHY_BYTES] = "";
	struct report t = {.a = a,
			   .by_ns = by_ns,
			   .jobs = json_array(),
			   .slots = json_array(),
			   .ranks = json_array()};
	int e = fan_peer_parse(&t.at, text, why, sizeof why);

	if (!e)
		e = ask_switch(&t, why);
	json_t *line = json_pack("{s:s, s:s, s:o, s:o, s:o}", "at", text, "error", e ? why : "",
				 "jobs", t.jobs, "slots", t.slots, "ranks", t.ranks);
	e = !line || json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) ||
	    putchar('\n') == EOF;
	json_decref(line);
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
