/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "clock.h"
#include "shard.h"

#define EVENTS_PER_ROUND FAN_EVENTS_MAX

static void log_line(struct fan_shard *s, const struct fan_text *l)
{
	pthread_mutex_lock(&s->log->lock);
	s->log->line(s->log->ctx, l->at);
	pthread_mutex_unlock(&s->log->lock);
}

void fan_shard_log_events(struct fan_shard *s)
{
	struct fan_event ev;
	if (!s->aggregator)
		return;
	for (unsigned i = 0; i < EVENTS_PER_ROUND && fan_aggregator_event(s->aggregator, &ev);
	     i++) {
		if (!s->log->line)
			continue;
		struct fan_text l = FAN_LINE();
		fan_line_event(&l, &ev, s->index, &s->cfg.aggregator);
		log_line(s, &l);
	}
}

static void fill_traffic(const struct fan_shard *s, struct fan_shard_traffic *t)
{
	struct timespec cpu = {0, 0};
	for (unsigned i = 0; i < s->sockets; i++) {
		t->datagrams_in += s->udp[i].datagrams_in;
		t->bytes_in += s->udp[i].bytes_in;
		t->receives += s->udp[i].recvs;
		t->overflows += fan_udp_overflows(&s->udp[i]);
		fan_inlets_join(&t->inlets, &s->udp[i].inlets);
	}
	t->datagrams_out = s->udp[0].datagrams_out;
	t->bytes_out = s->udp[0].bytes_out;
	t->sends = s->udp[0].sends;
	t->send_drops = s->udp[0].send_drops;
	t->marked = s->marked;
	t->lost = s->node->stats.lost;
	if (s->gate) {
		const struct fan_gate_stats *g = fan_gate_stats(s->gate);
		t->sealed = true;
		t->forged = g->drops[FAN_SEAL_TAG];
		t->replayed = g->drops[FAN_SEAL_REPLAY];
		t->clear = g->drops[FAN_SEAL_CLEAR] + g->refused;
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	t->cpu_ns = (uint64_t)cpu.tv_sec * 1000 * FAN_MS + (uint64_t)cpu.tv_nsec;
}

/* Add the counters of socket and thread. */
static void add_traffic(struct fan_text *l, const struct fan_shard *s)
{
	struct fan_shard_traffic t = {0};
	fill_traffic(s, &t);
	fan_text_add(l, " datagrams_in=%llu receives=%llu datagrams_out=%llu sends=%llu",
		     (unsigned long long)t.datagrams_in, (unsigned long long)t.receives,
		     (unsigned long long)t.datagrams_out, (unsigned long long)t.sends);
	if (t.sealed)
		fan_text_add(l, " forged=%llu replayed=%llu clear=%llu",
			     (unsigned long long)t.forged, (unsigned long long)t.replayed,
			     (unsigned long long)t.clear);
	if (t.marked)
		fan_text_add(l, " marked=%llu", (unsigned long long)t.marked);
	if (t.lost)
		fan_text_add(l, " lost=%llu", (unsigned long long)t.lost);
	if (t.send_drops)
		fan_text_add(l, " send_drops=%llu last_errno=%d", (unsigned long long)t.send_drops,
			     s->udp[0].last_errno);
}

static void add_drops(struct fan_text *l, const uint64_t *drops)
{
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		if (drops[i])
			fan_text_add(l, " drop_%s=%" PRIu64, fan_drop_text(i), drops[i]);
}

static void add_stats(struct fan_text *l, const struct fan_aggregator_stats *s, unsigned shard)
{
	fan_text_add(l, "event=counters shard=%u packets=%" PRIu64 " contributions=%" PRIu64, shard,
		     s->packets, s->contributions);
	fan_text_add(l, " results=%" PRIu64 " replays=%" PRIu64 " needs=%" PRIu64, s->results,
		     s->replays, s->needs);
	if (s->events_lost)
		fan_text_add(l, " events_lost=%" PRIu64, s->events_lost);
	if (s->partials)
		fan_text_add(l, " partials=%" PRIu64, s->partials);
	if (s->flushes)
		fan_text_add(l, " reminders=%" PRIu64, s->flushes);
	if (s->challenges)
		fan_text_add(l, " challenges=%" PRIu64, s->challenges);
	add_drops(l, s->drops);
}

static void add_slots(struct fan_text *l, const struct fan_switch_stats *s, unsigned shard)
{
	fan_text_add(l,
		     "event=slots shard=%u packets=%" PRIu64 " hits=%" PRIu64 " taken=%" PRIu64
		     " completions=%" PRIu64,
		     shard, s->packets, s->hits, s->taken, s->completions);
	fan_text_add(l, " collisions=%" PRIu64 " over_quota=%" PRIu64 " passed=%" PRIu64,
		     s->collisions, s->over_quota, s->passed);
	fan_text_add(l, " preemptions=%" PRIu64 " evictions=%" PRIu64 " flushes=%" PRIu64,
		     s->preemptions, s->evictions, s->flushes);
	fan_text_add(l, " partials=%" PRIu64 " results=%" PRIu64 " unknown=%" PRIu64, s->partials,
		     s->results, s->unknown);
	if (s->progress_sent) /* with run-ahead */
		fan_text_add(l,
			     " progress=%" PRIu64 " yields=%" PRIu64 " lent=%" PRIu64
			     " late=%" PRIu64,
			     s->progress_sent, s->yields, s->lent, s->late);
	add_drops(l, s->drops);
}

static void add_slot_stats(struct fan_text *l, const struct fan_slot_stats *t, unsigned shard)
{
	fan_text_add(l, "event=job_slots");
	fan_text_quoted(l, "job", t->name, t->name_bytes);
	fan_text_add(l, " held=%u quota=%u hits=%" PRIu64 " taken=%" PRIu64, t->held, t->quota,
		     t->hits, t->taken);
	fan_text_add(l, " completions=%" PRIu64 " collisions=%" PRIu64 " over_quota=%" PRIu64,
		     t->completions, t->collisions, t->over_quota);
	fan_text_add(l,
		     " passed=%" PRIu64 " preemptions=%" PRIu64 " evictions=%" PRIu64
		     " flushes=%" PRIu64,
		     t->passed, t->preemptions, t->evictions, t->flushes);
	fan_text_add(l, " shard=%u", shard);
}

static void tell_aggregator_jobs(struct fan_shard *s)
{
	struct fan_report r = {.index = 0};
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++) {
		r.index = (uint16_t)i;
		fan_aggregator_report(s->aggregator, &r);
		if (i >= r.jobs)
			break;
		struct fan_text l = FAN_LINE();
		fan_line_report(&l, &r, s->index);
		log_line(s, &l);
	}
}

static void tell_slots_jobs(struct fan_shard *s)
{
	struct fan_slot_stats t = {0};
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++) {
		t.index = (uint16_t)i;
		fan_switch_slot_stats(s->slots, &t);
		if (i >= t.jobs)
			break;
		struct fan_text l = FAN_LINE();
		add_slot_stats(&l, &t, s->index);
		log_line(s, &l);
	}
}

void fan_shard_log_counters(struct fan_shard *s, bool jobs)
{
	if (!s->log->line)
		return;
	if (jobs && s->aggregator)
		tell_aggregator_jobs(s);
	if (jobs && s->slots)
		tell_slots_jobs(s);
	if (s->slots) {
		struct fan_text l = FAN_LINE();
		add_slots(&l, fan_switch_stats(s->slots), s->index);
		if (!s->aggregator)
			add_traffic(&l, s);
		log_line(s, &l);
	}
	if (s->aggregator) {
		struct fan_text l = FAN_LINE();
		add_stats(&l, fan_aggregator_stats(s->aggregator), s->index);
		add_traffic(&l, s);
		log_line(s, &l);
	}
}

/* Packets that no interface takes are lost for good: log that, once.  (Sockets here are not
 * connected, so no ICMP message makes them refuse anything.) */
void fan_shard_log_too_long(struct fan_shard *s)
{
	struct fan_text l = FAN_LINE();
	if (s->told_too_long || !s->udp[0].send_drops || s->udp[0].last_errno != EMSGSIZE)
		return;
	s->told_too_long = true;
	if (!s->log->line)
		return;
	fan_text_add(&l,
		     "event=warning shard=%u text=\"packets are longer than the interface to some "
		     "peer takes; give workers and switches a smaller mtu\"",
		     s->index);
	log_line(s, &l);
}

void fan_shard_log_above(struct fan_shard *s)
{
	struct fan_text l = FAN_LINE();
	char addr[80];
	if (!s->log->line)
		return;
	fan_text_add(&l,
		     "event=warning shard=%u text=\"the path to %s loses packets of %u bytes, of "
		     "short ones it does not; give ranks and switches a smaller mtu\"",
		     s->index, fan_peer_text(&s->cfg.above, addr, sizeof addr), s->above.bytes);
	log_line(s, &l);
}

static unsigned at_most_jobs(unsigned jobs)
{
	return jobs < FAN_JOBS_MAX ? jobs : FAN_JOBS_MAX;
}

static void fill_slots(const struct fan_shard *s, struct fan_shard_health *h)
{
	h->has_slots = true;
	h->slots = *fan_switch_stats(s->slots);
	fan_switch_slot_stats(s->slots, &h->slot_stats[0]);
	h->slot_jobs = at_most_jobs(h->slot_stats[0].jobs);
	for (unsigned i = 0; i < h->slot_jobs; i++) {
		h->slot_stats[i].index = (uint16_t)i;
		fan_switch_slot_stats(s->slots, &h->slot_stats[i]);
	}
}

void fan_shard_fill_health(const struct fan_shard *s, struct fan_shard_health *h)
{
	memset(h, 0, sizeof *h);
	fill_traffic(s, &h->traffic);
	if (s->slots)
		fill_slots(s, h);
	h->jobs = at_most_jobs(fan_node_jobs(s->node));
	h->packets = h->slots.packets;
	if (!s->aggregator)
		return;
	h->has_aggregator = true;
	h->aggregator = *fan_aggregator_stats(s->aggregator);
	if (!s->slots)
		h->packets = h->aggregator.packets;
	for (unsigned i = 0; i < h->jobs; i++) {
		h->report[i].index = (uint16_t)i;
		fan_aggregator_report(s->aggregator, &h->report[i]);
	}
}
