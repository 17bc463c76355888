/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the counters of a communicator, from those of its connections. */
#include "rank.h"

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

void fan_rank_add_stats(struct fanin_stats *s, const struct fan_rank *r)
{
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].w)
			add_stats(s, &r->connection[i]);
}

/* Add counters of events, which go on where connections were closed (regroup.h). */
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
	fan_rank_add_stats(&s, r);
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
