/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define RESTARTS_MAX 5 /* the jobs must get on at some time */
#define OUT_BYTES    (FAN_SHARED_OUT_MAX * 256)

static void check_item(struct sim *s, const struct fan_out_item *it)
{
	static uint8_t packet[FAN_PACKET_MAX];
	SIM_CHECK(s, it->payload_bytes == 0 || it->payload, "an item without its payload");
	SIM_CHECK(s, it->payload_bytes <= sizeof packet - FAN_HEAD_BYTES, "an item too long");
	memcpy(packet, it->head, FAN_HEAD_BYTES);
	if (it->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, it->payload, it->payload_bytes);
	struct fan_frag f;
	int why = fan_wire_get(&f, packet, FAN_HEAD_BYTES + it->payload_bytes);
	SIM_CHECK(s, why == -1, "a shared switch sends a malformed packet: type %u, %s",
		  it->head[1], fan_drop_text((unsigned)why));
}

static void send_all(struct host_shared *h, const struct fan_out *out)
{
	struct sim *s = h->sim;
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		check_item(s, it);
		unsigned count = it->dest == FAN_TO_PEER ? 1 : it->group->ranks;
		const fan_peer *to = it->dest == FAN_TO_PEER ? &it->peer : it->group->peers;
		SIM_CHECK(s, it->dest != FAN_TO_MCAST, "a shared switch has no groups");
		for (unsigned r = 0; r < count; r++) {
			int node = sim_find(s, &to[r]);
			SIM_CHECK(s, node >= 0 || fan_peer_is_none(&to[r]), "an item to nobody");
			if (node >= 0)
				sim_send(s, h->node, node, it->head, it->payload, it->payload_bytes,
					 false);
		}
	}
}

/* What a controller does. */
static void install(struct host_shared *h)
{
	h->routes_ns = 0;
	for (unsigned i = 0; i < h->routes; i++)
		SIM_CHECK(h->sim, fan_shared_route(h->core, &h->route[i].config) == FAN_OK,
			  "a shared switch does not like route %u", h->route[i].config.number);
}

static void begin_life(struct host_shared *h)
{
	size_t bytes = fan_shared_bytes(&h->cfg);
	SIM_CHECK(h->sim, bytes > 0, "a shared switch does not like its configuration");
	h->mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(h->mem, 0xee, bytes);
	h->core = fan_shared_init(h->mem, &h->cfg);
	h->dropped = 0;
}

static void end_life(struct host_shared *h)
{
	const struct fan_shared_stats *st = fan_shared_stats(h->core);
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += st->drops[i];
	SIM_CHECK(h->sim, counted == h->dropped, "shared: %llu packets dropped, %llu counted",
		  (unsigned long long)h->dropped, (unsigned long long)counted);
	h->sum.hits += st->hits;
	h->sum.taken += st->taken;
	h->sum.collisions += st->collisions;
	h->sum.preemptions += st->preemptions;
	h->sum.evictions += st->evictions;
	h->sum.flushes += st->flushes;
	h->sum.completions += st->completions;
	h->sum.unknown += st->unknown;
	h->sum.paces += st->paces;
	h->sum.yields += st->yields;
	h->sum.lent += st->lent;
	h->sum.late += st->late;
	free(h->mem);
}

static void recv_packet(void *self, const struct sim_packet *p)
{
	struct host_shared *h = self;
	if (h->sim->now_ns < h->down_until_ns)
		return;
	struct fan_out_item item[FAN_SHARED_OUT_MAX];
	uint8_t scratch[OUT_BYTES];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SHARED_OUT_MAX, scratch, sizeof scratch);
	if (h->routes_ns && h->sim->now_ns >= h->routes_ns)
		install(h);
	bool marked = rng_chance(&h->sim->rng, h->mark);
	enum fan_verdict v = fan_shared_recv(h->core, h->sim->now_ns, h->sim->node[p->from].peer,
					     p->bytes, p->len, marked, &out);
	h->dropped += v == FAN_DROP;
	send_all(h, &out);
	if (h->restarts < RESTARTS_MAX && h->restart &&
	    fan_shared_stats(h->core)->packets >= h->restart) {
		end_life(h);
		h->down_until_ns = h->sim->now_ns + fan_rng_below(&h->sim->rng, 20 * FAN_MS);
		h->restarts++;
		begin_life(h);
		h->routes_ns = h->down_until_ns + rng_range(&h->sim->rng, 1, 20 * FAN_MS);
	}
}

static void tick(void *self)
{
	struct host_shared *h = self;
	fan_shared_tick(h->core, h->sim->now_ns);
	SIM_CHECK(h->sim, fan_shared_deadline(h->core) > h->sim->now_ns,
		  "a shared switch's deadline stays past");
}

static uint64_t deadline(void *self)
{
	struct host_shared *h = self;
	return fan_shared_deadline(h->core);
}

void host_shared_init(struct host_shared *h, struct sim *s, const struct sim_link *link,
		      const struct fan_shared_config *cfg, int up)
{
	memset(h, 0, sizeof *h);
	h->sim = s;
	h->cfg = *cfg;
	h->node = sim_add_node(s, link);
	h->cfg.home = s->node[up].peer;
	struct sim_node *n = &s->node[h->node];
	n->self = h;
	n->recv = recv_packet;
	n->tick = tick;
	n->deadline = deadline;
	n->up = up;
	begin_life(h);
}

void host_shared_add_route(struct host_shared *h, const struct fan_route_config *c)
{
	h->route = realloc(h->route, (h->routes + 1) * sizeof *h->route);
	struct host_route *r = &h->route[h->routes++];
	memcpy(r->entry, c->entry, c->entries * sizeof *r->entry);
	r->config = *c;
	for (unsigned i = 0; i < h->routes; i++)
		h->route[i].config.entry = h->route[i].entry;
	if (!h->routes_ns)
		install(h);
}

void host_shared_drop_route(struct host_shared *h, uint16_t number)
{
	for (unsigned i = 0; i < h->routes; i++) {
		if (h->route[i].config.number != number)
			continue;
		h->route[i] = h->route[--h->routes];
		for (unsigned k = 0; k < h->routes; k++)
			h->route[k].config.entry = h->route[k].entry;
		break;
	}
	fan_shared_unroute(h->core, number);
}

void host_shared_free(struct host_shared *h)
{
	end_life(h);
	free(h->route);
}
