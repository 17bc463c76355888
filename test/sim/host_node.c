/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/wire/run.h"
#include "host.h"
#include "seal/toy.h"

#define QUOTA_MAX     11 /* of a route; its switches may have less, or much more */
#define RESTARTS_MAX  5	 /* of slots: the jobs must get on at some time */
#define ITEMS_MAX     (FAN_NODE_TICK_MAX + FAN_NODE_OUT_MAX)
#define AUDIT_PACKETS 61 /* from one look at all that must hold to the next */

/* What a datagram or a tick leads to. */
struct room {
	struct fan_out out;
	struct fan_out_item item[ITEMS_MAX];
	uint8_t scratch[ITEMS_MAX * FAN_ITEM_SCRATCH];
};

static void room_init(const struct host_node *h, struct room *r)
{
	unsigned items = fan_node_out_items(&h->cfg); /* no more than it asks for */
	fan_out_init(&r->out, r->item, items, r->scratch, items * (size_t)FAN_ITEM_SCRATCH);
}

static void to_group(struct host_node *h, const struct fan_out_item *it)
{
	struct sim *s = h->sim;
	const struct fan_group *g = it->group;
	SIM_CHECK(s, g != NULL, "an item to a group without one");
	if (it->dest == FAN_TO_MCAST || g->multicast) {
		SIM_CHECK(s, h->aggregator, "slots have no multicast groups");
		for (int i = 1; i < s->nodes; i++)
			if (fan_peer_equal(&s->node[i].group, &g->addr))
				sim_send(s, h->node, i, it, true);
		return;
	}
	for (unsigned r = 0; r < g->ranks; r++) {
		int to = sim_find(s, &g->peers[r]);
		SIM_CHECK(s, to >= 0 || fan_peer_is_none(&g->peers[r]), "an item to nobody");
		if (to >= 0)
			sim_send(s, h->node, to, it, false);
	}
}

/* Slots pass on what is of any length and from any rank. */
static void check_item(const struct host_node *h, const struct fan_out_item *it)
{
	static uint8_t packet[FAN_PACKET_MAX];
	struct sim *s = h->sim;
	size_t largest = h->cfg.aggregator.payload_bytes;
	if (h->slots)
		largest = FAN_BITMAP_MAX + FAN_PAYLOAD_MAX;
	else if (largest < FAN_CTL_BYTES_MAX)
		largest = FAN_CTL_BYTES_MAX;
	SIM_CHECK(s, it->payload_bytes <= largest, "an item of %zu bytes", it->payload_bytes);
	SIM_CHECK(s, it->payload_bytes == 0 || it->payload, "an item without its payload");
	size_t bytes = fan_out_item_copy(it, packet);
	struct fan_frag f;
	int why = fan_wire_get(&f, packet, bytes);
	SIM_CHECK(s, why == -1, "the switch sends a malformed packet: type %u, %s", it->head[1],
		  fan_drop_text((unsigned)why));
	bool up = h->cfg.aggregator.siblings && it->dest == FAN_TO_PEER &&
		  fan_peer_equal(&it->peer, &h->cfg.above);
	SIM_CHECK(s, h->slots || up || f.sender == FAN_RANK_NONE, "the switch sends as rank %u",
		  f.sender);
}

static void send_all(struct host_node *h, struct fan_out *out)
{
	struct sim *s = h->sim;
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		SIM_CHECK(s, it->dest != FAN_TO_PARENT, "an item to a parent without its address");
		if (!h->gate)
			check_item(h, it);
	}
	fan_run_pack(out, false);
	if (h->gate)
		fan_gate_send(h->gate, s->now_ns, out);
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_NOBODY) /* it is part of a run */
			continue;
		if (it->dest != FAN_TO_PEER) {
			to_group(h, it);
			continue;
		}
		int to = sim_find(s, &it->peer);
		SIM_CHECK(s, to >= 0 && to != h->node, "an item to nobody");
		sim_send(s, h->node, to, it, false);
	}
	fan_out_reset(out);
	fan_node_sent(h->core);
}

static void tick(void *self)
{
	struct host_node *h = self;
	struct room r;
	room_init(h, &r);
	unsigned tries = 0;
	do {
		/* each tells a rank of a job that has become ready, or handles a job's timers */
		SIM_CHECK(h->sim, tries++ < 2 * FAN_JOBS_MAX + 3 * FAN_RANKS_MAX,
			  "the switch's deadline stays past");
		fan_node_tick(h->core, h->sim->now_ns, &r.out);
		send_all(h, &r.out);
	} while (fan_node_deadline(h->core) <= h->sim->now_ns);
}

static uint64_t deadline(void *self)
{
	struct host_node *h = self;
	return fan_node_deadline(h->core);
}

static void take_events(struct host_node *h)
{
	struct fan_event ev;
	while (fan_aggregator_event(h->aggregator, &ev))
		SIM_CHECK(h->sim, ev.kind <= FAN_EV_JOB_REMOVED, "an event of no kind");
}

/* What a controller does. */
static void install(struct host_node *h)
{
	h->routes_ns = 0;
	for (unsigned i = 0; i < h->routes; i++)
		SIM_CHECK(h->sim, fan_switch_route(h->slots, &h->route[i].config) == FAN_OK,
			  "a switch does not like route %u", h->route[i].config.number);
}

/* ---- its lives ---- */

static void begin_life(struct host_node *h)
{
	size_t bytes = fan_node_bytes(&h->cfg);
	SIM_CHECK(h->sim, bytes > 0, "the switch does not like its configuration");
	void *mem = sim_memory(bytes);
	h->cfg.aggregator.authentic = h->cfg.slots.authentic = h->sim->sealed;
	h->core = fan_node_init(mem, &h->cfg);
	h->aggregator = h->core->aggregator;
	h->slots = h->core->slots;
	h->dropped = 0;
	if (!h->sim->sealed)
		return;
	struct fan_gate_config g = {.cipher = toy_cipher(),
				    .keys = {.count = 1, .key = {{0x77}}},
				    .parent = h->cfg.aggregator.siblings ? h->cfg.above
									 : (fan_peer){.port = 0},
				    .children = h->aggregator ? 0 : h->cfg.slots.children_max,
				    .payload_bytes = FAN_PAYLOAD_MAX,
				    .items = ITEMS_MAX};
	h->gate = fan_gate_new(&g);
}

static uint64_t drops_of(const uint64_t *list)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		sum += list[i];
	return sum;
}

/* Of both in one, what one drops of the other is counted, too. */
static void check_counts(const struct host_node *h)
{
	uint64_t counted = 0;
	if (h->aggregator)
		counted += drops_of(fan_aggregator_stats(h->aggregator)->drops);
	if (h->slots)
		counted += drops_of(fan_switch_stats(h->slots)->drops);
	bool both = h->aggregator && h->slots;
	SIM_CHECK(h->sim, both ? counted >= h->dropped : counted == h->dropped,
		  "%llu packets dropped, %llu counted", (unsigned long long)h->dropped,
		  (unsigned long long)counted);
}

static void add_up(struct host_node *h)
{
	const struct fan_switch_stats *st = fan_switch_stats(h->slots);
	h->sum.hits += st->hits;
	h->sum.taken += st->taken;
	h->sum.collisions += st->collisions;
	h->sum.preemptions += st->preemptions;
	h->sum.evictions += st->evictions;
	h->sum.flushes += st->flushes;
	h->sum.completions += st->completions;
	h->sum.unknown += st->unknown;
	h->sum.progress_sent += st->progress_sent;
	h->sum.yields += st->yields;
	h->sum.lent += st->lent;
	h->sum.late += st->late;
	h->sum.drops[FAN_DROP_COLLISION] += st->drops[FAN_DROP_COLLISION];
}

static void end_life(struct host_node *h)
{
	check_counts(h);
	if (h->slots)
		add_up(h);
	if (h->gate)
		h->refused += fan_gate_stats(h->gate)->drops[FAN_SEAL_TAG] +
			      fan_gate_stats(h->gate)->drops[FAN_SEAL_REPLAY];
	fan_gate_free(h->gate);
	h->gate = NULL;
	free(h->core);
}

/* An aggregator restarts once, and slots again and again. */
static bool is_to_restart(const struct host_node *h)
{
	if (!h->restart_at || h->restarts >= (h->aggregator ? 1 : RESTARTS_MAX))
		return false;
	uint64_t now = h->aggregator ? fan_aggregator_stats(h->aggregator)->results
				     : fan_switch_stats(h->slots)->packets;
	return now >= h->restart_at && (!h->may_restart || h->may_restart(h->may_restart_arg));
}

static void restart(struct host_node *h)
{
	struct fan_rng *rng = &h->sim->rng;
	end_life(h);
	h->down_until_ns = h->sim->now_ns + fan_rng_below(rng, (h->aggregator ? 50 : 20) * FAN_MS);
	h->restarts++;
	if (h->aggregator)
		h->cfg.aggregator.secret.k[1] += 1 + fan_rng_below(rng, 3);
	begin_life(h);
	if (h->slots)
		h->routes_ns = h->down_until_ns + rng_range(rng, 1, 20 * FAN_MS);
}

/* Give a datagram to the core, as src/net/shard.c does. */
static void give(struct host_node *h, const fan_peer *from, const uint8_t *pkt, size_t len,
		 bool marked, struct fan_out *out)
{
	const unsigned frags = h->slots || h->gate ? 1 : fan_run_frags(pkt, len);
	for (unsigned n = 0; n < frags; n++) {
		uint8_t head[FAN_HEAD_BYTES];
		if (n) /* there is room for what one leads to */
			send_all(h, out);
		if (frags > 1) {
			fan_run_take(head, pkt, n);
			len = sizeof head;
		}
		enum fan_verdict v = fan_node_recv(h->core, h->sim->now_ns, *from,
						   frags > 1 ? head : pkt, len, marked, out);
		h->dropped += v == FAN_DROP;
	}
}

static void recv_packet(void *self, const struct sim_packet *p)
{
	struct host_node *h = self;
	struct room r;
	if (h->sim->now_ns < h->down_until_ns)
		return;
	room_init(h, &r);
	if (h->routes_ns && h->sim->now_ns >= h->routes_ns)
		install(h);
	bool marked = h->slots && rng_chance(&h->sim->rng, h->mark);
	static uint8_t copy[FAN_PACKET_MAX + 2 * FAN_SEAL_MORE];
	const fan_peer from = h->sim->node[p->from].peer;
	size_t len = p->len;
	memcpy(copy, p->bytes, len);
	if (h->gate)
		len = fan_gate_recv(h->gate, h->sim->now_ns, &from, copy, len, &r.out);
	if (len || !h->gate)
		give(h, &from, copy, len, marked, &r.out);
	if (h->gate && fan_gate_is_join(h->gate))
		fan_gate_answer(h->gate, &r.out);
	send_all(h, &r.out);
	if (h->aggregator)
		take_events(h);
	if (++h->packets % AUDIT_PACKETS == 0)
		fan_node_audit(h->core);
	if (is_to_restart(h))
		restart(h);
	if (fan_node_deadline(h->core) <= h->sim->now_ns)
		tick(h);
}

static void host_node_init(struct host_node *h, struct sim *s, const struct sim_link *link,
			   const struct fan_node_config *cfg)
{
	memset(h, 0, sizeof *h);
	h->sim = s;
	h->cfg = *cfg;
	h->node = sim_add_node(s, link);
	struct sim_node *n = &s->node[h->node];
	n->self = h;
	n->recv = recv_packet;
	n->tick = tick;
	n->deadline = deadline;
	begin_life(h);
}

void host_node_free(struct host_node *h)
{
	end_life(h);
	free(h->route);
}

void host_aggregator_init(struct host_node *h, struct sim *s,
			  const struct fan_aggregator_config *cfg)
{
	const struct fan_node_config c = {.has_aggregator = true, .aggregator = *cfg};
	host_node_init(h, s, &(struct sim_link){0}, &c);
}

void host_aggregator_init_below(struct host_node *h, struct sim *s, const struct sim_link *link,
				const struct fan_aggregator_config *cfg, int up)
{
	const struct fan_node_config c = {
		.has_aggregator = true, .aggregator = *cfg, .above = s->node[up].peer};
	host_node_init(h, s, link, &c);
	s->node[h->node].up = up;
}

void host_switch_init(struct host_node *h, struct sim *s, const struct sim_link *link,
		      const struct fan_switch_config *cfg, int up)
{
	const struct fan_node_config c = {
		.has_slots = true, .slots = *cfg, .above = s->node[up].peer};
	host_node_init(h, s, link, &c);
	s->node[h->node].up = up;
}

/* ---- routes ---- */

void host_switch_add_route(struct host_node *h, const struct fan_route_config *c)
{
	h->route = realloc(h->route, (h->routes + 1) * sizeof *h->route);
	struct host_route *r = &h->route[h->routes++];
	memcpy(r->entry, c->entry, c->entries * sizeof *r->entry);
	r->config = *c;
	r->config.quota = c->number % 3 ? 0 : 1 + c->number % QUOTA_MAX; /* of slots of its own */
	for (unsigned i = 0; i < h->routes; i++)
		h->route[i].config.entry = h->route[i].entry;
	if (!h->routes_ns)
		install(h);
}

void host_switch_drop_route(struct host_node *h, uint16_t number)
{
	for (unsigned i = 0; i < h->routes; i++) {
		if (h->route[i].config.number != number)
			continue;
		h->route[i] = h->route[--h->routes];
		for (unsigned k = 0; k < h->routes; k++)
			h->route[k].config.entry = h->route[k].entry;
		break;
	}
	fan_switch_unroute(h->slots, number);
}
