/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "clock.h"
#include "shard.h"

#define EVENTS_PER_ROUND FAN_EVENTS_MAX

static void log_line(struct fan_shard *s, const struct fan_line *l)
{
	pthread_mutex_lock(&s->log->lock);
	s->log->line(s->log->ctx, l->text);
	pthread_mutex_unlock(&s->log->lock);
}

void fan_shard_log_events(struct fan_shard *s)
{
	struct fan_event ev;
	struct fan_line l;
	if (!s->aggregator)
		return;
	for (unsigned i = 0; i < EVENTS_PER_ROUND && fan_aggregator_event(s->aggregator, &ev);
	     i++) {
		if (!s->log->line)
			continue;
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
	t->lost = fan_node_stats(s->node)->lost;
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
static void add_traffic(struct fan_line *l, const struct fan_shard *s)
{
	struct fan_shard_traffic t = {0};
	fill_traffic(s, &t);
	fan_line_add(l, " datagrams_in=%llu receives=%llu datagrams_out=%llu sends=%llu",
		     (unsigned long long)t.datagrams_in, (unsigned long long)t.receives,
		     (unsigned long long)t.datagrams_out, (unsigned long long)t.sends);
	if (t.sealed)
		fan_line_add(l, " forged=%llu replayed=%llu clear=%llu",
			     (unsigned long long)t.forged, (unsigned long long)t.replayed,
			     (unsigned long long)t.clear);
	if (t.marked)
		fan_line_add(l, " marked=%llu", (unsigned long long)t.marked);
	if (t.lost)
		fan_line_add(l, " lost=%llu", (unsigned long long)t.lost);
	if (t.send_drops)
		fan_line_add(l, " send_drops=%llu last_errno=%d", (unsigned long long)t.send_drops,
			     s->udp[0].last_errno);
}

void fan_shard_log_counters(struct fan_shard *s)
{
	struct fan_line l;
	if (!s->log->line)
		return;
	if (s->slots) {
		fan_line_slots(&l, fan_switch_stats(s->slots), s->index);
		if (!s->aggregator)
			add_traffic(&l, s);
		log_line(s, &l);
	}
	if (s->aggregator) {
		fan_line_stats(&l, fan_aggregator_stats(s->aggregator), s->index);
		add_traffic(&l, s);
		log_line(s, &l);
	}
}

static void tell_aggregator_jobs(struct fan_shard *s)
{
	struct fan_report r = {.index = 0};
	struct fan_line l;
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++) {
		r.index = (uint16_t)i;
		fan_aggregator_report(s->aggregator, &r);
		if (i >= r.jobs)
			break;
		fan_line_report(&l, &r, s->index);
		log_line(s, &l);
	}
}

static void tell_slots_jobs(struct fan_shard *s)
{
	struct fan_slot_stats t = {0};
	struct fan_line l;
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++) {
		t.index = (uint16_t)i;
		fan_switch_slot_stats(s->slots, &t);
		if (i >= t.jobs)
			break;
		fan_line_slot_stats(&l, &t, s->index);
		log_line(s, &l);
	}
}

void fan_shard_log_jobs(struct fan_shard *s)
{
	if (!s->log->line)
		return;
	if (s->aggregator)
		tell_aggregator_jobs(s);
	if (s->slots)
		tell_slots_jobs(s);
}

/* Packets that no interface takes are lost for good: log that, once.  (Sockets here are not
 * connected, so no ICMP message makes them refuse anything.) */
void fan_shard_log_too_long(struct fan_shard *s)
{
	struct fan_line l = {.used = 0};
	if (s->told_too_long || !s->udp[0].send_drops || s->udp[0].last_errno != EMSGSIZE)
		return;
	s->told_too_long = true;
	if (!s->log->line)
		return;
	fan_line_add(&l,
		     "event=warning shard=%u text=\"packets are longer than the interface to some "
		     "peer takes; give workers and switches a smaller mtu\"",
		     s->index);
	log_line(s, &l);
}

void fan_shard_log_above(struct fan_shard *s)
{
	struct fan_line l = {.used = 0};
	char addr[80];
	if (!s->log->line)
		return;
	fan_line_add(&l,
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
	if (!s->aggregator)
		return;
	h->has_aggregator = true;
	h->aggregator = *fan_aggregator_stats(s->aggregator);
	for (unsigned i = 0; i < h->jobs; i++) {
		h->report[i].index = (uint16_t)i;
		fan_aggregator_report(s->aggregator, &h->report[i]);
	}
}

uint64_t fan_shard_health_drops(const struct fan_shard_health *h)
{
	const uint64_t *drops = h->has_slots ? h->slots.drops : h->aggregator.drops;
	uint64_t all = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		all += drops[i];
	return all;
}

uint64_t fan_shard_health_packets(const struct fan_shard_health *h)
{
	return h->has_slots ? h->slots.packets : h->aggregator.packets;
}
