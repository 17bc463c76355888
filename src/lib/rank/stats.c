/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - a rank's counters, from those of its connections; and its last reported state and wait
 * (registry.h). */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "net/clock.h"
#include "net/logline.h"
#include "registry.h"
#include "thread.h"

#define ADDRESS_BYTES 80
#define NS_PER_S      1e9
#define SHARE_WHOLE   4294967296.0 /* FAN_CUT_WHOLE */

/* How far it runs ahead of others, and what it keeps for them. */
static void add_run_ahead(struct fanin_stats *s, const struct fan_connection *cn,
			  const struct fan_worker_stats *w)
{
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	uint32_t burst = m ? m->burst : 0;
	s->window_frags += burst ? burst : w->window;
	if (!burst)
		return;
	s->ahead_frags += w->window;
	s->ahead_now_frags += w->next > w->slowest ? (uint32_t)(w->next - w->slowest) : 0;
	s->cache_frags += w->cache.frags;
	s->cache_open += w->cache.open;
	s->cache_peak += w->cache.peak;
	s->cache_parts += w->cache.parts;
	s->cache_done += w->cache.done;
	s->cache_early += w->cache.early;
	s->cache_over += w->cache.over;
}

static void add_stats(struct fanin_stats *s, const struct fan_connection *cn)
{
	const struct fan_worker_stats *w = fan_worker_stats(cn->w);
	s->fragments += w->results;
	s->sent += w->sent;
	s->retransmits += w->resent;
	s->probes += w->probes;
	s->replays += w->replays;
	s->marks += w->marks;
	s->collisions += w->collisions;
	s->cwnd_frags += w->cwnd;
	s->moves += cn->failover.moves;
	s->server |= cn->failover.at_server;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		s->drops += w->drops[i];
	for (unsigned i = 0; i < FAN_SEAL_COUNT && cn->seal; i++)
		s->forged += cn->seal->drops[i];
	s->srtt_ns = s->srtt_ns > w->srtt_ns ? s->srtt_ns : w->srtt_ns;
	add_run_ahead(s, cn, w);
	s->segment_offload &= cn->udp.segment;
	s->receive_offload &= cn->udp.gro;
	s->multicast &= cn->by_group && w->multicast;
}

/* Add counters of events, which go on where connections were closed (regroup.c). */
static void add_before(struct fanin_stats *s, const struct fanin_stats *before)
{
	s->fragments += before->fragments;
	s->sent += before->sent;
	s->retransmits += before->retransmits;
	s->probes += before->probes;
	s->replays += before->replays;
	s->marks += before->marks;
	s->collisions += before->collisions;
	s->moves += before->moves;
	s->drops += before->drops;
	s->forged += before->forged;
}

struct fanin_stats fan_rank_collect_stats(const struct fan_rank *r)
{
	struct fanin_stats s = {
		.size = sizeof s,
		.ops = r->ops.done,
		.bytes = r->ops.bytes_done,
		.packet_bytes = FAN_HEAD_BYTES + r->cfg.payload_bytes +
				(r->cfg.keys.count ? FAN_SEAL_MORE : 0),
		.sealed = r->cfg.keys.count != 0,
		.shards = r->connections,
		.parts = r->regroup ? r->regroup->all : r->parts.count,
		.result_ns = r->when.result_ns,
		.gap_ns = r->when.gap_ns,
		.ahead_asked = (uint32_t)r->cfg.ahead,
		.multicast = 1,
		.segment_offload = 1,
		.receive_offload = 1,
	};
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].w)
			add_stats(&s, &r->connection[i]);
	if (atomic_load(&r->met))
		fan_meeting_count_idle(r->hosts, &s);
	if (r->regroup)
		add_before(&s, &r->regroup->before);
	return s;
}

void fan_rank_collect_trips(const struct fan_rank *r, struct fan_rtt_histogram *h)
{
	*h = (struct fan_rtt_histogram){.sum_ns = 0};
	if (r->regroup)
		*h = r->regroup->trips_before;
	for (unsigned i = 0; i < r->connections; i++) {
		if (!r->connection[i].w)
			continue;
		const struct fan_rtt_histogram *one = fan_worker_trips(r->connection[i].w);
		h->sum_ns += one->sum_ns;
		for (unsigned k = 0; k <= FAN_RTT_BINS; k++)
			h->count[k] += one->count[k];
	}
}

/* ---- what it does ---- */

void fan_rank_snapshot_add(struct fan_rank_snapshot *s, const struct fanin_op *op)
{
	if (s->ops == FAN_RANK_SNAPSHOT_OPS)
		return;
	s->op[s->ops++] = (struct fan_rank_op_shown){
		.name = fan_op_name(op),
		.bytes = op->op.count * fan_dtype_bytes(op->op.dtype),
		.started_ns = op->started_ns,
	};
}

static json_t *ops_json(const struct fan_rank_snapshot *s, uint64_t now_ns)
{
	json_t *ops = json_array();
	for (unsigned i = 0; i < s->ops; i++) {
		const struct fan_rank_op_shown *op = &s->op[i];
		const double age = op->started_ns && op->started_ns < now_ns
					   ? (double)(now_ns - op->started_ns) / NS_PER_S
					   : 0;
		json_array_append_new(ops, json_pack("{s:s, s:I, s:f}", "kind", op->name, "bytes",
						     (json_int_t)op->bytes, "age_s", age));
	}
	return ops;
}

static json_t *places_json(const struct fan_rank_snapshot *s)
{
	json_t *places = json_array();
	char at[ADDRESS_BYTES];
	for (unsigned i = 0; i < s->places; i++)
		json_array_append_new(places,
				      json_pack("{s:s, s:o}", "at",
						fan_peer_text(&s->place[i].at, at, sizeof at),
						"job", fan_json_text(s->place[i].job)));
	return places;
}

static json_t *parts_json(const struct fan_rank_shown *s)
{
	json_t *parts = json_array();
	char at[ADDRESS_BYTES];
	for (unsigned k = 0; k < s->stats.parts && k < FAN_PARTS_MAX; k++) {
		const struct fan_part_shown *p = &s->part[k];
		if (!p->at.port)
			continue;
		json_array_append_new(
			parts, json_pack("{s:s, s:i, s:f, s:f, s:b}", "aggregator",
					 fan_peer_text(&p->at, at, sizeof at), "inside", p->inside,
					 "share", (double)p->share / SHARE_WHOLE, "rtt_s",
					 (double)p->rtt_us / 1e6, "lost", (int)p->lost));
	}
	return parts;
}

static json_t *ranks_json(const uint64_t *set)
{
	json_t *ranks = json_array();
	for (unsigned r = fan_ranks_first(set); r < FAN_RANKS_MAX; r = fan_ranks_next(set, r + 1))
		json_array_append_new(ranks, json_integer((json_int_t)r));
	return ranks;
}

/* The ranks of the job that a column has, by its own numbers. */
static json_t *globals_json(const struct fan_rank *r)
{
	json_t *ranks = json_array();
	for (int h = 0; h < r->cfg.ranks; h++)
		json_array_append_new(ranks, json_integer(r->column.global[h]));
	return ranks;
}

static json_t *stats_json(const struct fanin_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:i}", "ops",
			 (json_int_t)s->ops, "bytes", (json_int_t)s->bytes, "fragments",
			 (json_int_t)s->fragments, "sent", (json_int_t)s->sent, "retransmits",
			 (json_int_t)s->retransmits, "probes", (json_int_t)s->probes, "drops",
			 (json_int_t)s->drops, "moves", (json_int_t)s->moves, "rtt_s",
			 (double)s->srtt_ns / NS_PER_S, "server", s->server);
}

static const char *mode_of(const struct fan_rank *r)
{
	if (*r->cfg.controller_addr)
		return "controller";
	if (!r->kind->has_sockets)
		return "memory";
	return *r->cfg.switch_addr ? "switch" : "hosts";
}

/* Since when nothing has moved, in seconds; 0: nothing is under way, or it moves. */
static double waited_s(const struct fan_rank_snapshot *s, unsigned open, uint64_t now_ns)
{
	if (!s->at_ns || !open || !s->moved_ns || s->moved_ns + FAN_REGISTRY_WAIT_NS > now_ns)
		return 0;
	return (double)(now_ns - s->moved_ns) / NS_PER_S;
}

json_t *fan_rank_tell(const struct fan_rank *r, uint64_t now_ns, double rate, double over_s)
{
	struct fan_rank_shown shown;
	pthread_mutex_lock((pthread_mutex_t *)&r->lock);
	memcpy(&shown, &r->shown, sizeof shown);
	const bool ready = r->ready;
	pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
	const struct fan_rank_snapshot *s = &shown.snapshot;
	const bool failed = atomic_load_explicit(&r->error, memory_order_acquire) != 0;
	const unsigned open = atomic_load(&r->ops_open);
	const double waited = failed ? 0 : waited_s(s, open, now_ns);
	const int rank = r->column.global ? r->column.global[r->cfg.rank] : r->cfg.rank;
	const char *state = failed	 ? "failed"
			    : !ready	 ? "joins"
			    : waited > 0 ? "waits"
			    : open	 ? "works"
					 : "idle";
	json_t *j = json_pack(
		"{s:o, s:i, s:i, s:s, s:s, s:b, s:b, s:i, s:f, s:o, s:f, s:f, s:f}", "job",
		fan_json_text(r->cfg.job), "rank", rank, "ranks", r->cfg.ranks, "state", state,
		"mode", mode_of(r), "column", r->column.global != NULL, "sealed",
		r->cfg.keys.count != 0, "open", (int)open, "waited_s", waited, "waits",
		fan_json_text(open || !ready ? s->waits : ""), "rate", rate, "over_s", over_s,
		"told_s",
		s->at_ns && s->at_ns < now_ns ? (double)(now_ns - s->at_ns) / NS_PER_S : 0);
	if (!j)
		return NULL;
	json_object_set_new(j, "switch", fan_json_text(r->cfg.switch_addr));
	json_object_set_new(j, "hosts", json_integer(shown.stats.hosts));
	json_object_set_new(j, "missing", ranks_json(s->missing));
	json_object_set_new(j, "away", json_boolean(s->away));
	json_object_set_new(j, "under_way", ops_json(s, now_ns));
	json_object_set_new(j, "places", places_json(s));
	json_object_set_new(j, "parts", parts_json(&shown));
	json_object_set_new(j, "stats", stats_json(&shown.stats));
	if (r->column.global)
		json_object_set_new(j, "of", globals_json(r));
	json_object_set_new(j, "error", fan_json_text(failed ? r->sentence : ""));
	return j;
}

bool fan_rank_wait_sentence(const struct fan_rank *r, uint64_t asked_ns, char *text, size_t bytes)
{
	const uint64_t now_ns = fan_clock_ns();
	pthread_mutex_lock((pthread_mutex_t *)&r->lock);
	const struct fan_rank_snapshot s = r->shown.snapshot;
	pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
	const double waited = waited_s(&s, s.ops, now_ns);
	if (s.at_ns < asked_ns || waited <= 0)
		return false;
	const unsigned open = atomic_load(&r->ops_open);
	char more[48] = "";
	if (open > 1)
		snprintf(more, sizeof more, ", and %u more operations", open - 1);
	snprintf(text, bytes,
		 "rank %d of job \"%s\": nothing has moved for %.0f s: %s of %" PRIu64
		 " bytes%s; %.300s",
		 r->cfg.rank, r->cfg.job, waited, s.op[0].name, s.op[0].bytes, more,
		 *s.waits ? s.waits : "it is not known for whom it waits");
	return true;
}
