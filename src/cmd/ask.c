/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "net/clock.h"
#include "net/logline.h"

#define TRIES	     5 /* questions before a switch counts as silent */
#define ANSWER_MS    200
#define BUFFER_BYTES (256 * 1024)
#define STRAYS_MAX   64 /* datagrams without an answer, before the question is repeated */

static uint8_t buffer[FAN_UDP_RECV_BYTES];

int ask_open(struct ask_talk *t, const fan_peer *at, unsigned shard)
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
	fan_ctl_finish(it, &h, scratch, fan_query_put(scratch, &q));
	fan_udp_send(&t->udp, &out, true);
}

static bool is_answer(const struct ask_question *w, const struct fan_frag *f)
{
	if (f->type != FAN_TYPE_REPORT || f->topic != w->topic)
		return false;
	if (w->job)
		return fan_report_get(w->job, f) == FAN_OK;
	if (w->ranks)
		return fan_rank_stats_get(w->ranks, f) == FAN_OK && w->ranks->index == w->index &&
		       w->ranks->first == w->first;
	if (w->helpers)
		return fan_helper_stats_get(w->helpers, f) == FAN_OK &&
		       w->helpers->index == w->index && w->helpers->first == w->first;
	return fan_slot_stats_get(w->slots, f) == FAN_OK;
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

int ask_once(struct ask_talk *t, const struct ask_question *w)
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

bool ask_times(struct ask_talk *t, const struct ask_question *w, unsigned tries)
{
	int n = 0;

	for (unsigned i = 0; i < tries && n != 1; i++)
		n = ask_once(t, w);
	return n == 1;
}

int ask_until(struct ask_talk *t, const struct ask_question *w, uint64_t by_ns, char *why)
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

#define RANK_TRIES 3 /* questions, since one or its answer may be lost */

/* Most answers about pairs from a switch: some are full, the others have scanned as many pairs as
 * they may. */
#define PAIRS	    (FAN_RANKS_MAX * FAN_RANKS_MAX)
#define ANSWERS_MAX (PAIRS / FAN_STATS_PAIRS + PAIRS / FAN_STATS_SCAN + 1)

/* The ranks of a job, as one shard reports them. */
struct team {
	struct fan_line name;
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
	json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I}", "job", t->name.text, "shard",
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
	struct fan_line l = {.used = 0};

	fan_line_escaped(&l, name, bytes);
	return l.used == t->name.used && memcmp(l.text, t->name.text, l.used) == 0;
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
		const struct ask_question w = {.topic = FAN_TOPIC_HELPERS,
					       .index = (uint16_t)index,
					       .first = first,
					       .helpers = &m};
		if (!ask_times(t, &w, RANK_TRIES) || m.ranks != team->ranks ||
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
		const struct ask_question w = {.topic = FAN_TOPIC_RANKS,
					       .index = (uint16_t)index,
					       .first = (uint16_t)first,
					       .ranks = &m};
		if (!ask_times(t, &w, RANK_TRIES))
			return 0;
		if (!first)
			fan_line_escaped(&team->name, m.name, m.name_bytes);
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
			  !strcmp(json_string_value(json_object_get(r, "job")), t->name.text);
	}
	return copies;
}

unsigned rank_stats_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks)
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
