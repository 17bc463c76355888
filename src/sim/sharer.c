/* SPDX-License-Identifier: Apache-2.0 */
#include "sharer.h"

#include <stdlib.h>

#define ALIGN	      64u
#define SCRATCH_BYTES (FAN_SHARED_OUT_MAX * 256)

static void send_to(struct fan_sharer *h, const fan_peer *peer, const struct fan_out_item *it,
		    struct fan_sim_body *body)
{
	const struct fan_sim_packet p = {
		.body = body,
		.from = h->actor,
		.to = fan_sim_actor_of(peer),
		.len = (uint16_t)(FAN_HEAD_BYTES + it->payload_bytes),
	};
	if (p.to >= h->sim->actors) {
		h->unheard++;
		return;
	}
	h->tx_packets++;
	h->tx_bytes += p.len;
	fan_sim_send(h->sim, &p, false);
}

static void send_all(struct fan_sharer *h)
{
	for (unsigned i = 0; i < h->out.count; i++) {
		const struct fan_out_item *it = &h->out.item[i];
		struct fan_sim_body *body =
			fan_sim_body(h->sim, it->head, it->payload, it->payload_bytes);
		if (!body)
			break;
		if (it->dest == FAN_TO_PEER)
			send_to(h, &it->peer, it, body);
		for (unsigned r = 0; it->dest == FAN_TO_GROUP && r < it->group->ranks; r++)
			if (!fan_peer_is_none(&it->group->peers[r]))
				send_to(h, &it->group->peers[r], it, body);
		fan_body_put(&h->sim->pool, body);
	}
	fan_out_reset(&h->out);
}

struct fan_shared_stats fan_sharer_stats(const struct fan_sharer *h)
{
	const struct fan_shared_stats *now = fan_shared_stats(h->core);
	struct fan_shared_stats sum = h->past;
	sum.packets += now->packets;
	sum.hits += now->hits;
	sum.taken += now->taken;
	sum.collisions += now->collisions;
	sum.over_quota += now->over_quota;
	sum.passed += now->passed;
	sum.preemptions += now->preemptions;
	sum.evictions += now->evictions;
	sum.flushes += now->flushes;
	sum.completions += now->completions;
	sum.partials += now->partials;
	sum.results += now->results;
	sum.unknown += now->unknown;
	sum.paces += now->paces;
	sum.yields += now->yields;
	sum.lent += now->lent;
	sum.late += now->late;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		sum.drops[i] += now->drops[i];
	return sum;
}

static bool install(struct fan_sharer *h)
{
	bool ok = true;
	for (uint32_t i = 0; i < h->routes; i++)
		ok &= fan_shared_route(h->core, &h->route[i]) == FAN_OK;
	return ok;
}

void fan_sharer_restart(struct fan_sharer *h, uint64_t down_ns)
{
	h->past = fan_sharer_stats(h);
	h->restarts++;
	h->down_until_ns = h->sim->now_ns + down_ns;
	h->core = fan_shared_init(h->mem, &h->cfg);
	install(h);
}

bool fan_sharer_route(struct fan_sharer *h, struct fan_route_config *route, uint32_t routes)
{
	h->route = route;
	h->routes = routes;
	return install(h);
}

/* The entry of what `from` sends of this rank: that of its switch, or that of workers. */
static const struct fan_route_entry *entry_of(const struct fan_route_config *r,
					      const fan_peer *from, unsigned rank)
{
	const struct fan_route_entry *of_worker = NULL;
	for (unsigned i = 0; i < r->entries; i++) {
		const struct fan_route_entry *e = &r->entry[i];
		bool has = rank < FAN_RANKS_MAX && e->ranks[rank / 64] >> rank % 64 & 1;
		if (has && fan_peer_equal(&e->from, from))
			return e;
		if (has && fan_peer_is_none(&e->from))
			of_worker = e;
	}
	return of_worker;
}

bool fan_sharer_sums(const void *self, const struct fan_sim_packet *p)
{
	const struct fan_sharer *h = self;
	struct fan_frag f;
	if (p->to != h->actor || !p->body || fan_wire_get(&f, p->body->bytes, p->len) >= 0 ||
	    f.type != FAN_TYPE_DATA || f.flags & FAN_F_PARTIAL)
		return false;
	fan_peer from = fan_sim_peer(p->from);
	for (uint32_t i = 0; i < h->routes; i++) {
		if (h->route[i].number != fan_route_number(f.job))
			continue;
		const struct fan_route_entry *e = entry_of(&h->route[i], &from, f.sender);
		return e && e->sums;
	}
	return false;
}

uint64_t fan_sharer_added(const struct fan_shared_stats *st)
{
	return st->hits + st->taken;
}

uint64_t fan_sharer_offered(const struct fan_shared_stats *st)
{
	return fan_sharer_added(st) + st->collisions + st->over_quota + st->passed;
}

static void sample(struct fan_sharer *h)
{
	const struct fan_shared_stats st = fan_sharer_stats(h);
	struct fan_shared_report r;
	fan_shared_report(h->core, &r);
	const uint64_t figure[FAN_SERIES_FIGURES] = {
		[FAN_SERIES_USED] = r.slots_used,
		[FAN_SERIES_LENT] = r.slots_used,
		[FAN_SERIES_OFFERED] = fan_sharer_offered(&st),
		[FAN_SERIES_ADDED] = fan_sharer_added(&st),
		[FAN_SERIES_RESULTS] = st.results,
		[FAN_SERIES_COLLISIONS] = st.collisions + st.over_quota,
		[FAN_SERIES_PREEMPTIONS] = st.preemptions,
		[FAN_SERIES_EVICTIONS] = st.evictions,
		[FAN_SERIES_FLUSHES] = st.flushes,
		[FAN_SERIES_RX_BYTES] = h->rx_bytes,
	};
	fan_series_add(&h->series, figure);
}

static void tick(void *self)
{
	struct fan_sharer *h = self;
	fan_shared_tick(h->core, h->sim->now_ns);
	if (h->sim->now_ns >= h->series.next_ns)
		sample(h);
}

static void recv_packet(void *self, const struct fan_sim_packet *p)
{
	struct fan_sharer *h = self;
	if (!p->body || h->sim->now_ns < h->down_until_ns)
		return;
	h->rx_packets++;
	h->rx_bytes += p->len;
	fan_shared_recv(h->core, h->sim->now_ns, fan_sim_peer(p->from), p->body->bytes, p->len,
			p->flags & FAN_PACKET_ECN, &h->out);
	if (h->out.count)
		send_all(h);
}

static uint64_t deadline(void *self)
{
	const struct fan_sharer *h = self;
	uint64_t at_ns = fan_shared_deadline(h->core);
	return h->series.next_ns < at_ns ? h->series.next_ns : at_ns;
}

static const struct fan_actor_ops ops = {recv_packet, tick, deadline};

bool fan_sharer_init(struct fan_sharer *h, struct fan_sim *s, uint32_t node, uint64_t sample_ns)
{
	memset(h, 0, sizeof *h);
	h->sim = s;
	fan_series_init(&h->series, s->now_ns, sample_ns);
	h->actor = fan_sim_add_actor(s, node, h, &ops);
	return h->actor != FAN_SIM_NONE;
}

bool fan_sharer_begin(struct fan_sharer *h, const struct fan_shared_config *cfg)
{
	h->cfg = *cfg;
	size_t bytes = fan_shared_bytes(cfg);
	struct fan_out_item *item = malloc(FAN_SHARED_OUT_MAX * sizeof *item);
	uint8_t *scratch = malloc(SCRATCH_BYTES);
	fan_out_init(&h->out, item, FAN_SHARED_OUT_MAX, scratch, SCRATCH_BYTES);
	h->mem = bytes ? aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN) : NULL;
	if (!h->mem || !item || !scratch)
		return false;
	h->core = fan_shared_init(h->mem, cfg);
	fan_sim_wake(h->sim, h->actor);
	return true;
}

void fan_sharer_free(struct fan_sharer *h)
{
	for (uint32_t i = 0; i < h->routes; i++)
		free((void *)h->route[i].entry);
	free(h->route);
	free(h->mem);
	free(h->out.item);
	free(h->out.scratch);
}
