/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- figures over time ---- */

static void halve(struct fan_series *s)
{
	for (uint32_t i = 0; i < FAN_SERIES_MAX / 2; i++) {
		for (unsigned f = 0; f < FAN_SERIES_FIGURES; f++)
			s->sum[i][f] = s->sum[2 * i][f] + s->sum[2 * i + 1][f];
		memcpy(s->last[i], s->last[2 * i + 1], sizeof s->last[i]);
		s->weight[i] = s->weight[2 * i] + s->weight[2 * i + 1];
	}
	s->count = FAN_SERIES_MAX / 2;
	s->interval_ns *= 2;
}

/* Add a sample, that of s->next_ns. */
static void series_add(struct fan_series *s, const uint64_t *figure)
{
	if (s->count == FAN_SERIES_MAX)
		halve(s);
	memcpy(s->sum[s->count], figure, sizeof s->sum[0]);
	memcpy(s->last[s->count], figure, sizeof s->last[0]);
	s->weight[s->count++] = 1;
	s->next_ns = s->start_ns + (s->count + UINT64_C(1)) * s->interval_ns;
}

#define TICKS_MAX (2 * FAN_JOBS_MAX) /* of the node at a time */
#define SPARES	  64		     /* of slots in front of an aggregator, for one datagram */

/* ---- sending ---- */

static uint32_t actor_of(const fan_peer *p)
{
	return (uint32_t)(p->addr[1] - 1);
}

static void send_to(struct fan_sim_daemon *d, const fan_peer *peer, const struct fan_out_item *it,
		    struct fan_sim_body *body)
{
	const struct fan_sim_packet p = {
		.body = body,
		.from = d->actor,
		.to = actor_of(peer),
		.len = (uint16_t)fan_out_item_bytes(it),
	};
	if (p.to >= d->sim->actors) {
		d->unheard++;
		return;
	}
	d->tx_packets++;
	d->tx_bytes += p.len;
	fan_sim_send(d->sim, &p, d->own);
}

/* Does the tree have all members that are present? */
static bool has_all(const struct fan_sim_tree *t, const struct fan_group *g)
{
	if (t->members != g->ranks)
		return false;
	for (unsigned r = 0; r < g->ranks; r++)
		if (!fan_peer_is_none(&g->peers[r]) && t->member[r] != actor_of(&g->peers[r]))
			return false;
	return true;
}

/* Send to a multicast group, one copy on each link.  All members receive it. */
static void spread(struct fan_sim_daemon *d, const struct fan_out_item *it,
		   struct fan_sim_body *body)
{
	const struct fan_group *g = it->group;
	struct fan_sim *s = d->sim;
	uint32_t member[FAN_RANKS_MAX], here = s->actor[d->actor].node;
	/* job i has the address base + i, and base ends in 0 */
	uint8_t which = (uint8_t)(g->addr.addr[1] >> 56) % FAN_JOBS_MAX;
	if (d->tree[which] == FAN_SIM_NONE || !has_all(&s->tree[d->tree[which]], g)) {
		for (unsigned r = 0; r < g->ranks; r++) {
			uint32_t to = actor_of(&g->peers[r]);
			member[r] = to < s->actors ? to : d->actor; /* itself, for an absent one */
		}
		d->tree[which] = fan_sim_set_tree(s, d->tree[which], here, member, g->ranks);
	}
	if (d->tree[which] == FAN_SIM_NONE) {
		s->broke = true;
		return;
	}
	const struct fan_sim_packet p = {
		.body = body,
		.from = d->actor,
		.to = d->tree[which],
		.len = (uint16_t)fan_out_item_bytes(it),
		.flags = FAN_PACKET_TREE,
	};
	d->tx_packets++;
	d->tx_bytes += p.len;
	fan_sim_send(s, &p, d->own);
}

static void send_to_group(struct fan_sim_daemon *d, const struct fan_out_item *it,
			  struct fan_sim_body *body)
{
	const struct fan_group *g = it->group;
	if (it->dest == FAN_TO_MCAST || g->multicast) {
		spread(d, it, body);
		return;
	}
	for (unsigned r = 0; r < g->ranks; r++)
		if (!fan_peer_is_none(&g->peers[r]))
			send_to(d, &g->peers[r], it, body);
}

static void send_all(struct fan_sim_daemon *d)
{
	for (unsigned i = 0; i < d->out.count; i++) {
		const struct fan_out_item *it = &d->out.item[i];
		struct fan_sim_body *body = fan_sim_body(d->sim, it, false);
		if (!body)
			break;
		if (it->dest == FAN_TO_PEER)
			send_to(d, &it->peer, it, body);
		else
			send_to_group(d, it, body);
		fan_body_put(&d->sim->pool, body);
	}
	fan_out_reset(&d->out);
}

/* ---- counters ---- */

/* Add the counts at `more`, an object of `bytes` bytes that has nothing but counts, to `sum`. */
static void add_counts(void *sum, const void *more, size_t bytes)
{
	assert(bytes % sizeof(uint64_t) == 0);
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)more)[i];
}

struct fan_sim_counters fan_sim_daemon_counters(const struct fan_sim_daemon *d)
{
	struct fan_sim_counters sum = d->past;
	if (d->aggregator)
		add_counts(&sum.aggregator, fan_aggregator_stats(d->aggregator),
			   sizeof sum.aggregator);
	if (d->slots)
		add_counts(&sum.slots, fan_switch_stats(d->slots), sizeof sum.slots);
	add_counts(&sum.node, &d->node->stats, sizeof sum.node);
	const uint64_t *drops = sum.aggregator.drops;
	sum.offered = sum.aggregator.contributions + drops[FAN_DROP_DUPLICATE] +
		      drops[FAN_DROP_STALE] + drops[FAN_DROP_AHEAD];
	const struct fan_switch_stats *slots = &sum.slots;
	sum.slots_added = slots->hits + slots->taken;
	sum.slots_offered = sum.slots_added + slots->collisions + slots->over_quota + slots->passed;
	return sum;
}

static void sample_aggregator(struct fan_sim_daemon *d)
{
	const struct fan_sim_counters all = fan_sim_daemon_counters(d);
	const struct fan_aggregator_stats *st = &all.aggregator;
	struct fan_report r = {.index = 0};
	uint64_t used = 0, lent = 0;
	do {
		uint16_t index = r.index;
		fan_aggregator_report(d->aggregator, &r);
		used += r.waiting;
		lent += r.window;
		r.index = (uint16_t)(index + 1);
	} while (r.index < r.jobs);
	const uint64_t figure[FAN_SERIES_FIGURES] = {
		[FAN_SERIES_USED] = used,
		[FAN_SERIES_LENT] = lent,
		[FAN_SERIES_OFFERED] = all.offered,
		[FAN_SERIES_ADDED] = st->contributions,
		[FAN_SERIES_RESULTS] = st->results,
		[FAN_SERIES_FLUSHES] = st->flushes,
		[FAN_SERIES_RX_BYTES] = d->slots ? all.node.up_bytes : d->rx_bytes,
	};
	series_add(d->sums, figure);
}

static void sample_slots(struct fan_sim_daemon *d)
{
	const struct fan_sim_counters all = fan_sim_daemon_counters(d);
	const struct fan_switch_stats *st = &all.slots;
	struct fan_switch_report r;
	fan_switch_report(d->slots, &r);
	const uint64_t figure[FAN_SERIES_FIGURES] = {
		[FAN_SERIES_USED] = r.slots_used,
		[FAN_SERIES_LENT] = r.slots_used,
		[FAN_SERIES_OFFERED] = all.slots_offered,
		[FAN_SERIES_ADDED] = all.slots_added,
		[FAN_SERIES_RESULTS] = st->results,
		[FAN_SERIES_COLLISIONS] = st->collisions + st->over_quota,
		[FAN_SERIES_PREEMPTIONS] = st->preemptions,
		[FAN_SERIES_EVICTIONS] = st->evictions,
		[FAN_SERIES_FLUSHES] = st->flushes,
		[FAN_SERIES_RX_BYTES] = d->rx_bytes,
	};
	series_add(d->shares, figure);
}

/* ---- the actor ---- */

/* When it samples its slots next: both series have the same times. */
static uint64_t look_ns(const struct fan_sim_daemon *d)
{
	return d->shares ? d->shares->next_ns : d->sums->next_ns;
}

static void take_events(struct fan_sim_daemon *d)
{
	struct fan_event ev;
	while (fan_aggregator_event(d->aggregator, &ev))
		; /* the workers report how their jobs went */
}

static void tick(void *self)
{
	struct fan_sim_daemon *d = self;
	uint64_t now_ns = d->sim->now_ns;
	for (unsigned n = 0; n < TICKS_MAX && fan_node_deadline(d->node) <= now_ns; n++) {
		fan_node_tick(d->node, now_ns, &d->out);
		send_all(d);
		fan_node_sent(d->node);
	}
	if (now_ns >= look_ns(d)) {
		if (d->aggregator)
			sample_aggregator(d);
		if (d->slots)
			sample_slots(d);
	}
	if (d->aggregator)
		take_events(d);
}

static void recv_packet(void *self, const struct fan_sim_packet *p)
{
	struct fan_sim_daemon *d = self;
	if (!p->body || d->sim->now_ns < d->down_until_ns)
		return;
	const fan_peer from = fan_sim_peer(p->from);
	const bool marked = p->flags & FAN_PACKET_ECN;
	struct fan_frag f;
	d->rx_packets++;
	d->rx_bytes += p->len;
	if (!d->slots && fan_sim_read(p, 1u << FAN_TYPE_DATA | 1u << FAN_TYPE_RESULT, &f))
		fan_node_take(d->node, d->sim->now_ns, &from, &f, marked, &d->out);
	else
		fan_node_recv(d->node, d->sim->now_ns, from, fan_sim_bytes(d->sim, p), p->len,
			      marked, &d->out);
	if (d->out.count)
		send_all(d);
	fan_node_sent(d->node);
}

static uint64_t deadline(void *self)
{
	const struct fan_sim_daemon *d = self;
	uint64_t node_ns = fan_node_deadline(d->node), at_ns = look_ns(d);
	return at_ns < node_ns ? at_ns : node_ns;
}

static const struct fan_actor_ops ops = {recv_packet, tick, deadline};

/* ---- its lives ---- */

bool fan_sim_daemon_init(struct fan_sim_daemon *d, struct fan_sim *s, uint32_t node)
{
	assert(node < s->nodes);
	memset(d, 0, sizeof *d);
	d->sim = s;
	d->actor = fan_sim_add_actor(s, node, d, &ops);
	return d->actor != FAN_SIM_NONE;
}

static void begin_life(struct fan_sim_daemon *d)
{
	d->node = fan_node_init(d->node, &d->cfg);
	d->aggregator = d->node->aggregator;
	d->slots = d->node->slots;
}

/* Allocate the node and the memory that it sends from. */
static bool make_node(struct fan_sim_daemon *d)
{
	size_t bytes = fan_node_bytes(&d->cfg);
	unsigned items = fan_node_out_items(&d->cfg);
	size_t scratch_bytes = items * (size_t)FAN_ITEM_SCRATCH;
	struct fan_out_item *item = calloc(items, sizeof *item);
	uint8_t *scratch = malloc(scratch_bytes);
	fan_out_init(&d->out, item, items, scratch, scratch_bytes);
	d->node = bytes ? aligned_alloc(FAN_ALIGN, bytes) : NULL;
	return d->node && item && scratch;
}

static bool make_series(const struct fan_sim_daemon *d, struct fan_series **s, uint64_t sample_ns)
{
	*s = calloc(1, sizeof **s);
	if (!*s)
		return false;
	(*s)->start_ns = d->sim->now_ns;
	(*s)->interval_ns = sample_ns ? sample_ns : 1;
	(*s)->next_ns = (*s)->start_ns + (*s)->interval_ns;
	return true;
}

static bool make_trees(struct fan_sim_daemon *d)
{
	d->tree = malloc(FAN_JOBS_MAX * sizeof *d->tree);
	for (unsigned i = 0; d->tree && i < FAN_JOBS_MAX; i++)
		d->tree[i] = FAN_SIM_NONE;
	return d->tree != NULL;
}

bool fan_sim_daemon_begin(struct fan_sim_daemon *d, const struct fan_node_config *cfg, bool own,
			  uint64_t sample_ns)
{
	d->cfg = *cfg;
	d->cfg.slots.spares = cfg->has_aggregator ? SPARES : 1;
	d->own = own;
	if (!make_node(d) ||
	    (cfg->has_aggregator && !(make_series(d, &d->sums, sample_ns) && make_trees(d))) ||
	    (cfg->has_slots && !make_series(d, &d->shares, sample_ns)))
		return false;
	begin_life(d);
	fan_sim_wake(d->sim, d->actor);
	return true;
}

static bool install(struct fan_sim_daemon *d)
{
	bool ok = true;
	for (uint32_t i = 0; i < d->routes; i++)
		ok &= fan_switch_route(d->slots, &d->route[i]) == FAN_OK;
	return ok;
}

bool fan_sim_daemon_route(struct fan_sim_daemon *d, struct fan_route_config *route, uint32_t routes)
{
	d->route = route;
	d->routes = routes;
	return install(d);
}

void fan_sim_daemon_restart(struct fan_sim_daemon *d, uint64_t down_ns)
{
	d->past = fan_sim_daemon_counters(d);
	d->restarts++;
	d->cfg.aggregator.secret.k[1]++;
	d->cfg.aggregator.nonce = fan_rng_mix(d->cfg.aggregator.nonce);
	d->down_until_ns = d->sim->now_ns + down_ns;
	begin_life(d);
	install(d);
}

void fan_sim_daemon_free(struct fan_sim_daemon *d)
{
	for (uint32_t i = 0; i < d->routes; i++)
		free((void *)d->route[i].entry);
	free(d->route);
	free(d->node);
	free(d->sums);
	free(d->shares);
	free(d->tree);
	free(d->out.item);
	free(d->out.scratch);
}

/* ---- packets that take capacity ---- */
