/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator.h"

#include <stdlib.h>

#define ALIGN	      64u
#define SCRATCH_BYTES (FAN_SWITCH_OUT_MAX * 256)
#define TICKS_MAX     (2 * FAN_JOBS_MAX) /* of the core at one time */

static void send_to(struct fan_aggregator *a, uint32_t to, const struct fan_out_item *it,
		    struct fan_sim_body *body, uint8_t flags)
{
	const struct fan_sim_packet p = {
		.body = body,
		.from = a->actor,
		.to = to,
		.len = (uint16_t)(FAN_HEAD_BYTES + it->payload_bytes),
		.flags = flags,
	};
	a->tx_packets++;
	a->tx_bytes += p.len;
	fan_sim_send(a->sim, &p, a->own);
}

/* Are all present members in the tree? */
static bool has_all(const struct fan_sim_tree *t, const struct fan_group *g)
{
	if (t->members != g->ranks)
		return false;
	for (unsigned r = 0; r < g->ranks; r++)
		if (!fan_peer_is_none(&g->peers[r]) &&
		    t->member[r] != fan_sim_actor_of(&g->peers[r]))
			return false;
	return true;
}

/* To a multicast group: one copy on each link.  All members hear it. */
static void spread(struct fan_aggregator *a, const struct fan_out_item *it,
		   struct fan_sim_body *body)
{
	const struct fan_group *g = it->group;
	struct fan_sim *s = a->sim;
	uint32_t member[FAN_RANKS_MAX], here = s->actor[a->actor].node;
	/* job i has the address base + i, and base ends with 0 */
	uint8_t which = (uint8_t)(g->addr.addr[1] >> 56) % FAN_JOBS_MAX;
	if (a->tree[which] == FAN_SIM_NONE || !has_all(&s->tree[a->tree[which]], g)) {
		for (unsigned r = 0; r < g->ranks; r++) {
			uint32_t to = fan_sim_actor_of(&g->peers[r]);
			member[r] = to < s->actors ? to : a->actor; /* itself: hears nothing new */
		}
		a->tree[which] = fan_sim_set_tree(s, a->tree[which], here, member, g->ranks);
	}
	if (a->tree[which] == FAN_SIM_NONE) {
		s->broke = true;
		return;
	}
	const struct fan_sim_packet p = {
		.body = body,
		.from = a->actor,
		.to = a->tree[which],
		.len = (uint16_t)(FAN_HEAD_BYTES + it->payload_bytes),
	};
	a->tx_packets++;
	a->tx_bytes += p.len;
	fan_sim_spread(s, &p, a->own);
}

static void send_to_group(struct fan_aggregator *a, const struct fan_out_item *it,
			  struct fan_sim_body *body)
{
	const struct fan_group *g = it->group;
	if (it->dest == FAN_TO_MCAST || g->multicast) {
		spread(a, it, body);
		return;
	}
	for (unsigned r = 0; r < g->ranks; r++) {
		uint32_t to = fan_sim_actor_of(&g->peers[r]);
		if (to < a->sim->actors)
			send_to(a, to, it, body, 0);
	}
}

static void send_all(struct fan_aggregator *a)
{
	for (unsigned i = 0; i < a->out.count; i++) {
		const struct fan_out_item *it = &a->out.item[i];
		struct fan_sim_body *body =
			fan_sim_body(a->sim, it->head, it->payload, it->payload_bytes);
		if (!body)
			break;
		uint32_t to = fan_sim_actor_of(&it->peer);
		if (it->dest == FAN_TO_PARENT)
			send_to(a, a->parent, it, body, 0);
		else if (it->dest != FAN_TO_PEER)
			send_to_group(a, it, body);
		else if (to < a->sim->actors)
			send_to(a, to, it, body, 0);
		else
			a->unheard++;
		fan_body_put(&a->sim->pool, body);
	}
	fan_out_reset(&a->out);
}

struct fan_switch_stats fan_aggregator_stats(const struct fan_aggregator *a)
{
	const struct fan_switch_stats *now = fan_switch_stats(a->core);
	struct fan_switch_stats sum = a->past;
	sum.packets += now->packets;
	sum.contributions += now->contributions;
	sum.results += now->results;
	sum.replays += now->replays;
	sum.needs += now->needs;
	sum.partials += now->partials;
	sum.flushes += now->flushes;
	sum.events_lost += now->events_lost;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		sum.drops[i] += now->drops[i];
	return sum;
}

void fan_aggregator_restart(struct fan_aggregator *a, uint64_t down_ns)
{
	a->past = fan_aggregator_stats(a);
	a->restarts++;
	a->cfg.epoch++;
	a->cfg.nonce = fan_rng_mix(a->cfg.nonce);
	a->down_until_ns = a->sim->now_ns + down_ns;
	a->core = fan_switch_init(a->mem, &a->cfg);
}

uint64_t fan_aggregator_offered(const struct fan_switch_stats *st)
{
	return st->contributions + st->drops[FAN_DROP_DUPLICATE] + st->drops[FAN_DROP_STALE] +
	       st->drops[FAN_DROP_AHEAD];
}

static void sample(struct fan_aggregator *a)
{
	const struct fan_switch_stats st = fan_aggregator_stats(a);
	struct fan_report r = {.index = 0};
	uint64_t used = 0, lent = 0;
	do {
		uint16_t index = r.index;
		fan_switch_report(a->core, &r);
		used += r.waiting;
		lent += r.window;
		r.index = (uint16_t)(index + 1);
	} while (r.index < r.jobs);
	const uint64_t figure[FAN_SERIES_FIGURES] = {
		[FAN_SERIES_USED] = used,
		[FAN_SERIES_LENT] = lent,
		[FAN_SERIES_OFFERED] = fan_aggregator_offered(&st),
		[FAN_SERIES_ADDED] = st.contributions,
		[FAN_SERIES_RESULTS] = st.results,
		[FAN_SERIES_FLUSHES] = st.flushes,
		[FAN_SERIES_RX_BYTES] = a->rx_bytes,
	};
	if (used > a->slots_used_max)
		a->slots_used_max = used;
	fan_series_add(&a->series, figure);
}

static void take_events(struct fan_aggregator *a)
{
	struct fan_event ev;
	while (fan_switch_event(a->core, &ev))
		; /* workers tell how their jobs went */
}

static void tick(void *self)
{
	struct fan_aggregator *a = self;
	uint64_t now_ns = a->sim->now_ns;
	for (unsigned n = 0; n < TICKS_MAX && fan_switch_deadline(a->core) <= now_ns; n++) {
		fan_switch_tick(a->core, now_ns, &a->out);
		send_all(a);
	}
	if (now_ns >= a->series.next_ns)
		sample(a);
	take_events(a);
}

static void recv_packet(void *self, const struct fan_sim_packet *p)
{
	struct fan_aggregator *a = self;
	if (!p->body || a->sim->now_ns < a->down_until_ns)
		return;
	a->rx_packets++;
	a->rx_bytes += p->len;
	if (p->from == a->parent)
		fan_switch_recv_up(a->core, a->sim->now_ns, p->body->bytes, p->len,
				   p->flags & FAN_PACKET_ECN, &a->out);
	else
		fan_switch_recv(a->core, a->sim->now_ns, fan_sim_peer(p->from), p->body->bytes,
				p->len, p->flags & FAN_PACKET_ECN, &a->out);
	if (a->out.count)
		send_all(a);
}

static uint64_t deadline(void *self)
{
	const struct fan_aggregator *a = self;
	uint64_t at_ns = fan_switch_deadline(a->core);
	return a->series.next_ns < at_ns ? a->series.next_ns : at_ns;
}

static const struct fan_actor_ops ops = {recv_packet, tick, deadline};

bool fan_aggregator_init(struct fan_aggregator *a, struct fan_sim *s, uint32_t node,
			 const struct fan_switch_config *cfg, bool own, uint64_t sample_ns)
{
	memset(a, 0, sizeof *a);
	a->sim = s;
	a->cfg = *cfg;
	a->own = own;
	a->parent = FAN_SIM_NONE;
	size_t bytes = fan_switch_bytes(cfg);
	struct fan_out_item *item = malloc(FAN_SWITCH_OUT_MAX * sizeof *item);
	uint8_t *scratch = malloc(SCRATCH_BYTES);
	fan_out_init(&a->out, item, FAN_SWITCH_OUT_MAX, scratch, SCRATCH_BYTES);
	a->mem = bytes ? aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN) : NULL;
	a->tree = malloc(FAN_JOBS_MAX * sizeof *a->tree);
	if (!a->mem || !item || !scratch || !a->tree)
		return false;
	a->core = fan_switch_init(a->mem, cfg);
	fan_series_init(&a->series, s->now_ns, sample_ns);
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++)
		a->tree[i] = FAN_SIM_NONE;
	a->actor = fan_sim_add_actor(s, node, a, &ops);
	if (a->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(s, a->actor);
	return true;
}

void fan_aggregator_free(struct fan_aggregator *a)
{
	free(a->mem);
	free(a->tree);
	free(a->out.item);
	free(a->out.scratch);
}
