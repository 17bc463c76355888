/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment.h"

#include <stdio.h>
#include <stdlib.h>

#define GROUP_PORT    23846
#define STEPS_BETWEEN 65536 /* two looks at the progress */

uint32_t fan_experiment_link(const struct fan_scenario *s, uint32_t link)
{
	uint32_t inside = 0;
	for (uint32_t i = 0; i < s->nodes; i++)
		inside += s->node[i].bps != 0;
	return inside + 2 * link;
}

static uint32_t packet_bytes(const struct fan_scenario *s)
{
	uint32_t most = FAN_CTL_BYTES_MAX;
	for (uint32_t i = 0; i < s->jobs; i++)
		if ((uint32_t)FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes > most)
			most = FAN_HEAD_BYTES + s->job[i].cfg.payload_bytes;
	for (uint32_t i = 0; i < s->nodes; i++)
		if (fan_scenario_shares(&s->node[i])) /* whose sums carry bitmaps */
			return most + FAN_BITMAP_MAX;
	return most;
}

bool fan_experiment_network(struct fan_sim *sim, const struct fan_scenario *s)
{
	fan_sim_init(sim, s->seed, packet_bytes(s));
	for (uint32_t i = 0; i < s->nodes; i++) {
		const struct fan_scenario_node *n = &s->node[i];
		bool forwards = n->kind == FAN_NODE_SWITCH || n->kind == FAN_NODE_ROUTER;
		if (fan_sim_add_node(sim, forwards, n->bps, n->ecn_bytes) == FAN_SIM_NONE)
			return false;
	}
	for (uint32_t i = 0; i < s->links; i++) {
		const struct fan_scenario_link *l = &s->link[i];
		struct fan_link_config back = l->cfg;
		back.bps = l->back_bps ? l->back_bps : back.bps;
		if (fan_sim_add_link(sim, l->a, l->b, &l->cfg) == FAN_SIM_NONE ||
		    fan_sim_add_link(sim, l->b, l->a, &back) == FAN_SIM_NONE)
			return false;
	}
	return fan_sim_index(sim);
}

/* ---- changes ------------------------------------------------------------------------ */

static uint64_t conductor_deadline(void *self)
{
	const struct fan_conductor *c = self;
	if (c->next == c->scenario->changes)
		return FAN_SIM_NEVER;
	return c->scenario->change[c->order[c->next]].at_ns;
}

static void apply(struct fan_conductor *c, const struct fan_scenario_change *x)
{
	if (x->link == FAN_SIM_NONE) {
		/* NULL: nobody uses it */
		if (c->aggregator[x->node])
			fan_aggregator_restart(c->aggregator[x->node], x->restart_ns);
		if (c->sharer[x->node])
			fan_sharer_restart(c->sharer[x->node], x->restart_ns);
		return;
	}
	uint32_t link = fan_experiment_link(c->scenario, x->link);
	for (uint32_t i = link; i < link + 2; i++) {
		if (x->bps)
			fan_weather_set_rate(c->weather, i, x->bps);
		if (x->down)
			c->sim->link[i].down = c->sim->link[i].faulty = true;
		else if (x->up)
			c->sim->link[i].down = false;
	}
}

static void conductor_tick(void *self)
{
	struct fan_conductor *c = self;
	while (conductor_deadline(c) <= c->sim->now_ns)
		apply(c, &c->scenario->change[c->order[c->next++]]);
}

static void conductor_recv(void *self, const struct fan_sim_packet *p)
{
	(void)self;
	(void)p;
}

static const struct fan_actor_ops conductor_ops = {conductor_recv, conductor_tick,
						   conductor_deadline};

static bool begin_conductor(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	struct fan_conductor *c = &e->conductor;
	*c = (struct fan_conductor){
		.sim = &e->sim,
		.scenario = s,
		.aggregator = e->aggregator,
		.sharer = e->sharer,
		.weather = &e->weather,
	};
	c->order = malloc((s->changes + 1) * sizeof *c->order);
	if (!c->order)
		return false;
	for (uint32_t i = 0; i < s->changes; i++) { /* insertion: keeps equal ones in order */
		uint32_t at = i;
		for (; at && s->change[c->order[at - 1]].at_ns > s->change[i].at_ns; at--)
			c->order[at] = c->order[at - 1];
		c->order[at] = i;
	}
	c->actor = fan_sim_add_actor(&e->sim, 0, c, &conductor_ops);
	if (c->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(&e->sim, c->actor);
	return true;
}

/* ---- jobs, and those who sum for them ---------------------------------------------- */

/* A shared switch that completes its own sums has slots in plenty for that, like a server. */
static bool add_aggregator(struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario_node *n = &e->scenario->node[node];
	const struct fan_switch_config cfg = {
		.slots = fan_scenario_shares(n) ? FAN_SLOTS_MAX : n->slots,
		.payload_bytes = n->payload_bytes,
		.jobs_max = (uint16_t)n->jobs,
		.members_max = FAN_MEMBERS_MAX,
		.window_max = (uint16_t)n->window,
		.ahead_max = n->ahead_max,
		.rx_bytes = n->buffer_bytes,
		.shards = 1,
		.epoch = 1,
		.group_family = n->multicast ? 4 : 0,
		.group_port = GROUP_PORT,
		.siblings = n->parent == FAN_SIM_NONE ? 0 : e->scenario->node[n->parent].children,
		.index = n->index,
		.nonce = fan_rng_mix(e->scenario->seed ^ fan_rng_mix(node)),
		.no_reminders = !n->reminders,
		.group_base = {239, 1, 1, 0}, /* ends with 0: aggregator.c counts on it */
	};
	struct fan_aggregator *a = calloc(1, sizeof *a);
	e->aggregator[node] = a;
	return a && fan_aggregator_init(a, &e->sim, node, &cfg, n->kind == FAN_NODE_SERVER,
					e->scenario->sample_ns);
}

/* All that sum in the tree of `root`, which may be alone.  Parents stand before or behind
 * their children: they are joined when all are there. */
static bool add_tree(struct fan_experiment *e, uint32_t root)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t n = 0; n < s->nodes; n++)
		if (fan_scenario_is_below(s, n, root) && !e->aggregator[n] && !add_aggregator(e, n))
			return false;
	for (uint32_t n = 0; n < s->nodes; n++)
		if (fan_scenario_is_below(s, n, root) && n != root)
			e->aggregator[n]->parent = e->aggregator[s->node[n].parent]->actor;
	return true;
}

static uint32_t routes_of(const struct fan_scenario *s, uint32_t node)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->routes; i++)
		n += s->route[i].node == node;
	return n;
}

/* Where packets for a node of a route go; `node` may be none. */
static fan_peer peer_of(const struct fan_experiment *e, uint32_t node)
{
	const fan_peer nobody = {.port = 0};
	if (node == FAN_SIM_NONE)
		return nobody;
	if (e->sharer[node])
		return fan_sim_peer(e->sharer[node]->actor);
	return e->aggregator[node] ? fan_sim_peer(e->aggregator[node]->actor) : nobody;
}

/* Let the switch know its routes.  One that leads to a server of no job is of no use. */
static bool install_routes(struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario *s = e->scenario;
	struct fan_route_config *c = calloc(routes_of(s, node) + UINT32_C(1), sizeof *c);
	uint32_t routes = 0;
	for (uint32_t i = 0; c && i < s->routes; i++) {
		const struct fan_scenario_route *r = &s->route[i];
		struct fan_route_entry *entry;
		if (r->node != node || !(entry = calloc(r->entries, sizeof *entry)))
			continue;
		for (uint32_t k = 0; k < r->entries; k++)
			fan_scenario_entry_put(&entry[k], &r->entry[k],
					       peer_of(e, r->entry[k].from),
					       peer_of(e, r->entry[k].next));
		c[routes++] = (struct fan_route_config){.number = r->number,
							.quota = r->quota,
							.entry = entry,
							.entries = r->entries};
	}
	return c && fan_sharer_route(e->sharer[node], c, routes);
}

static bool begin_sharer(struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario_node *n = &e->scenario->node[node];
	uint32_t up = n->server == FAN_SIM_NONE ? node : n->server;
	bool further = up != node && e->sharer[up];
	const fan_peer nobody = {.port = 0};
	const struct fan_shared_config cfg = {
		.policy = (enum fan_policy)n->policy,
		.slots = n->slots,
		.quota = n->quota,
		.payload_bytes = n->payload_bytes,
		.children_max = FAN_MEMBERS_MAX,
		.spares = 1,
		.options = (uint8_t)((n->free_early ? FAN_SHARED_FREE_EARLY : 0) |
				     (n->preemption ? 0 : FAN_SHARED_NO_PREEMPTION) |
				     (n->ageing ? 0 : FAN_SHARED_NO_AGEING) |
				     (n->priorities ? 0 : FAN_SHARED_NO_PRIORITIES)),
		.routes = (uint16_t)routes_of(e->scenario, node),
		.home = further		    ? fan_sim_peer(e->sharer[up]->actor)
			: e->aggregator[up] ? fan_sim_peer(e->aggregator[up]->actor)
					    : nobody, /* all its jobs have routes */
	};
	return fan_sharer_begin(e->sharer[node], &cfg);
}

/* What completes the sums at `home`, and all shared switches that lead there. */
static bool add_shared(struct fan_experiment *e, uint32_t home)
{
	const struct fan_scenario *s = e->scenario;
	if (!e->aggregator[home] && !add_aggregator(e, home))
		return false;
	for (uint32_t n = 0; n < s->nodes; n++) {
		if (!fan_scenario_shares(&s->node[n]) || fan_scenario_home(s, n) != home ||
		    e->sharer[n])
			continue;
		e->sharer[n] = calloc(1, sizeof *e->sharer[n]);
		if (!e->sharer[n] || !fan_sharer_init(e->sharer[n], &e->sim, n, s->sample_ns))
			return false;
	}
	return true;
}

/* The switches of all routes. */
static bool add_routed(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t i = 0; i < s->routes; i++) {
		uint32_t n = s->route[i].node;
		if (e->sharer[n])
			continue;
		e->sharer[n] = calloc(1, sizeof *e->sharer[n]);
		if (!e->sharer[n] || !fan_sharer_init(e->sharer[n], &e->sim, n, s->sample_ns))
			return false;
	}
	return true;
}

/* No route passes the switch. */
static bool takes_nothing(const void *arg, const struct fan_sim_packet *p)
{
	(void)arg;
	(void)p;
	return false;
}

/* All shared switches begin, when it is known who is where. */
static bool begin_sharers(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t n = 0; n < s->nodes; n++) {
		if (e->sharer[n] && (!begin_sharer(e, n) || !install_routes(e, n)))
			return false;
		if (s->node[n].sums_bps)
			fan_sim_choose(&e->sim, n, e->sharer[n] ? fan_sharer_sums : takes_nothing,
				       e->sharer[n]);
	}
	return true;
}

/* Where rank `r` of the job joins. */
static void take_seat(const struct fan_experiment *e, struct fan_experiment_job *j, uint32_t r)
{
	struct fan_job_seat *at = &j->cfg.seat[r];
	if (e->sharer[at->node]) {
		at->aggregator = e->sharer[at->node]->actor;
		j->cfg.urgent |= e->scenario->node[at->node].policy == FAN_POLICY_ESA;
		return;
	}
	at->aggregator = e->aggregator[at->node]->actor;
	at->multicast = e->scenario->node[at->node].multicast;
}

static bool add_job(struct fan_experiment *e, uint32_t i)
{
	const struct fan_scenario_job *s = &e->scenario->job[i];
	struct fan_experiment_job *j = &e->job[i];
	j->cfg = s->cfg;
	bool by_ring = s->reduce == FAN_REDUCE_RING;
	if (!by_ring) {
		j->cfg.aggregator = e->aggregator[s->at]->actor;
		j->cfg.multicast = e->scenario->node[s->at].multicast;
	}
	for (uint32_t r = 0; j->cfg.seat && r < j->cfg.ranks; r++)
		take_seat(e, j, r);
	j->trainer = j->cfg.ranks ? calloc(j->cfg.ranks, sizeof *j->trainer) : NULL;
	if (!j->trainer || !fan_trainer_share(&j->shared, &j->cfg, &e->sim, by_ring))
		return false;
	for (uint32_t r = 0; r < j->cfg.ranks; r++)
		if (!fan_trainer_init(&j->trainer[r], &j->shared, (uint16_t)r))
			return false;
	return true;
}

static bool add_traffic(struct fan_experiment *e, uint32_t i)
{
	const struct fan_scenario_flow *f = &e->scenario->flow[i];
	const struct fan_traffic_config c = {
		.from = f->from,
		.to = f->to,
		.bps = f->bps,
		.start_ns = f->start_ns,
		.stop_ns = f->stop_ns,
		.packet_bytes = f->packet_bytes,
		.jitter = f->jitter,
	};
	return fan_traffic_init(&e->traffic[i], &e->sim, &c,
				fan_rng_stream(e->scenario->seed, UINT64_C(1) << 32 | i));
}

bool fan_experiment_begin(struct fan_experiment *e, const struct fan_scenario *s)
{
	memset(e, 0, sizeof *e);
	e->scenario = s;
	e->aggregator = calloc(s->nodes, sizeof(struct fan_aggregator *));
	e->sharer = calloc(s->nodes, sizeof(struct fan_sharer *));
	e->job = calloc(s->jobs, sizeof *e->job);
	e->traffic = calloc(s->flows + UINT32_C(1), sizeof *e->traffic);
	bool ok = fan_experiment_network(&e->sim, s) && e->aggregator && e->sharer && e->job &&
		  e->traffic;
	for (uint32_t i = 0; ok && i < s->jobs; i++) {
		const struct fan_scenario_job *j = &s->job[i];
		if (j->reduce == FAN_REDUCE_FANIN)
			ok = j->shared ? add_shared(e, j->at) : add_tree(e, j->at);
	}
	ok = ok && add_routed(e) && begin_sharers(e);
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		ok = add_job(e, i);
	for (uint32_t i = 0; ok && i < s->flows; i++)
		ok = add_traffic(e, i);
	ok = ok && fan_weather_init(&e->weather, &e->sim, s->jobs);
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		fan_weather_add(&e->weather, &e->job[i].cfg);
	ok = ok && fan_weather_begin(&e->weather) &&
	     fan_observer_begin(&e->observer, e, s->sample_ns) && begin_conductor(e);
	if (!ok)
		fan_experiment_end(e);
	return ok;
}

void fan_experiment_end(struct fan_experiment *e)
{
	for (uint32_t i = 0; e->job && i < e->scenario->jobs; i++) {
		struct fan_experiment_job *j = &e->job[i];
		for (uint32_t r = 0; j->trainer && r < j->cfg.ranks; r++)
			fan_trainer_free(&j->trainer[r]);
		free(j->trainer);
		fan_standings_free(&j->standings);
		fan_trainer_unshare(&j->shared);
	}
	for (uint32_t n = 0; e->aggregator && n < e->scenario->nodes; n++) {
		if (e->aggregator[n])
			fan_aggregator_free(e->aggregator[n]);
		free(e->aggregator[n]);
	}
	for (uint32_t n = 0; e->sharer && n < e->scenario->nodes; n++) {
		if (e->sharer[n])
			fan_sharer_free(e->sharer[n]);
		free(e->sharer[n]);
	}
	free(e->job);
	free(e->aggregator);
	free(e->sharer);
	free(e->traffic);
	fan_weather_free(&e->weather);
	free(e->conductor.order);
	fan_sim_free(&e->sim);
	memset(e, 0, sizeof *e);
}

static bool tell(const struct fan_experiment *e, const struct fan_progress *progress)
{
	uint64_t done = 0, all = 0;
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		const struct fan_experiment_job *j = &e->job[i];
		all += j->cfg.iterations;
		done += j->trainer[0].left ? j->cfg.iterations : j->trainer[0].iteration;
	}
	return progress->tell(progress->arg, e->sim.now_ns, done, all);
}

bool fan_experiment_run(struct fan_experiment *e, const struct fan_progress *progress)
{
	struct fan_sim *s = &e->sim;
	bool more = true;
	while (more && s->awaited) {
		for (unsigned n = 0; more && s->awaited && n < STEPS_BETWEEN; n++)
			more = fan_sim_step(s, e->scenario->limit_ns);
		if (progress && !tell(e, progress))
			return false;
	}
	e->timed_out = s->awaited != 0;
	return !s->broke;
}

void fan_experiment_actor_name(const struct fan_experiment *e, uint32_t actor, char *name,
			       size_t bytes)
{
	for (uint32_t n = 0; n < e->scenario->nodes; n++) {
		bool sums = e->aggregator[n] && e->aggregator[n]->actor == actor;
		bool shares = e->sharer[n] && e->sharer[n]->actor == actor;
		if (!sums && !shares)
			continue;
		snprintf(name, bytes, "%s%s", e->scenario->node[n].name,
			 sums && e->sharer[n] ? "'s server" : "");
		return;
	}
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		uint32_t first = e->job[i].trainer[0].actor;
		if (actor < first || actor - first >= e->job[i].cfg.ranks)
			continue;
		snprintf(name, bytes, "%s.%u", e->job[i].cfg.name, actor - first);
		return;
	}
	snprintf(name, bytes, "background@%s", e->scenario->node[e->sim.actor[actor].node].name);
}
