/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- hosts that send slowly for a while ---- */

#define MILLION 1000000u

/* Make room for `jobs`, after the last link.  False: out of memory. */
static bool weather_init(struct fan_weather *w, struct fan_sim *s, uint32_t jobs)
{
	*w = (struct fan_weather){.sim = s, .actor = FAN_SIM_NONE};
	w->job = calloc(jobs + UINT32_C(1), sizeof(struct fan_job_config *));
	w->speed = calloc(s->nodes + UINT32_C(1), sizeof *w->speed);
	w->bps = calloc(s->links + UINT32_C(1), sizeof *w->bps);
	if (!w->job || !w->speed || !w->bps)
		return false;
	for (uint32_t n = 0; n < s->nodes; n++)
		w->speed[n] = MILLION;
	for (uint32_t i = 0; i < s->links; i++)
		w->bps[i] = s->link[i].cfg.bps;
	return true;
}

static void weather_free(struct fan_weather *w)
{
	free(w->job);
	free(w->speed);
	free(w->bps);
}

/* Add the hosts of `c`, which must stay: they are slow as it says. */
static void weather_add(struct fan_weather *w, const struct fan_job_config *c)
{
	bool sends = false;
	for (uint32_t i = 0; i < c->slows; i++)
		sends |= c->slow[i].sends;
	if (sends)
		w->job[w->jobs++] = c;
}

/* Change a link's rate to `bps`, or to a share of it if the link's host is slow now. */
static void weather_set_rate(struct fan_weather *w, uint32_t link, uint64_t bps)
{
	assert(link < w->sim->links);
	uint32_t speed = w->speed[w->sim->link[link].from];
	w->bps[link] = bps;
	bps = (uint64_t)((unsigned __int128)bps * speed / MILLION);
	fan_sim_set_rate(w->sim, link, bps ? bps : 1);
}

/* The speed at which each host sends now; sets w->next_ns, until when it holds. */
static void look(struct fan_weather *w, uint32_t *speed)
{
	w->next_ns = FAN_SIM_NEVER;
	for (uint32_t i = 0; i < w->jobs; i++) {
		const struct fan_job_config *c = w->job[i];
		for (uint32_t r = 0; r < c->ranks; r++) {
			uint64_t until_ns;
			uint32_t mine = fan_job_sending(c, (uint16_t)r, w->sim->now_ns, &until_ns);
			uint32_t *host = &speed[c->host[r]];
			*host = mine < *host ? mine : *host;
			w->next_ns = until_ns < w->next_ns ? until_ns : w->next_ns;
		}
	}
}

static void tick(void *self)
{
	struct fan_weather *w = self;
	struct fan_sim *s = w->sim;
	uint32_t *speed = calloc(s->nodes + UINT32_C(1), sizeof *speed);
	if (!speed) {
		s->broke = true;
		w->next_ns = FAN_SIM_NEVER;
		return;
	}
	for (uint32_t n = 0; n < s->nodes; n++)
		speed[n] = MILLION;
	look(w, speed);
	uint32_t *before = w->speed;
	w->speed = speed;
	for (uint32_t i = 0; i < s->links; i++)
		if (speed[s->link[i].from] != before[s->link[i].from])
			weather_set_rate(w, i, w->bps[i]);
	free(before);
}

static uint64_t deadline(void *self)
{
	return ((const struct fan_weather *)self)->next_ns;
}

static const struct fan_actor_ops ops = {fan_sim_hear_nothing, tick, deadline};

/* Begin, after the last job.  False: out of memory. */
static bool weather_begin(struct fan_weather *w)
{
	if (!w->jobs)
		return true;
	w->actor = fan_sim_add_actor(w->sim, 0, w, &ops);
	if (w->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(w->sim, w->actor);
	return true;
}

#define GROUP_PORT    23846
#define STEPS_BETWEEN 65536 /* steps between two reports of progress */

/* ---- changes ---- */

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
		if (c->daemon[x->node]) /* no daemon: nobody uses the node */
			fan_sim_daemon_restart(c->daemon[x->node], x->restart_ns);
		return;
	}
	uint32_t link = fan_scenario_link(c->scenario, x->link);
	for (uint32_t i = link; i < link + 2; i++) {
		if (x->bps)
			weather_set_rate(c->weather, i, x->bps);
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

static const struct fan_actor_ops conductor_ops = {fan_sim_hear_nothing, conductor_tick,
						   conductor_deadline};

static bool begin_conductor(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	struct fan_conductor *c = &e->conductor;
	*c = (struct fan_conductor){
		.sim = &e->sim,
		.scenario = s,
		.daemon = e->daemon,
		.weather = &e->weather,
	};
	c->order = calloc(s->changes + 1u, sizeof *c->order);
	if (!c->order)
		return false;
	for (uint32_t i = 0; i < s->changes; i++) { /* insertion sort: keeps equal times in order */
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

/* ---- jobs, and the nodes that sum for them ---- */

/* Make sure that the daemon of `node` has an aggregator, or slots that jobs share. */
static bool place_daemon(struct fan_experiment *e, uint32_t node, bool aggregator, bool slots)
{
	struct fan_sim_daemon *d = e->daemon[node];
	if (!d) {
		d = e->daemon[node] = calloc(1, sizeof *d);
		if (!d || !fan_sim_daemon_init(d, &e->sim, node))
			return false;
	}
	d->cfg.has_aggregator |= aggregator;
	d->cfg.has_slots |= slots;
	return true;
}

/* Is `node` in the tree of switches below `root`, or `root` itself? */
static bool is_below(const struct fan_scenario *s, uint32_t node, uint32_t root)
{
	assert(node < s->nodes && root < s->nodes);
	while (node != root && s->node[node].parent != FAN_SIM_NONE)
		node = s->node[node].parent; /* ends: parents form no cycle */
	return node == root;
}

/* Place all daemons that sum in the tree of `root`, which may be alone. */
static bool place_tree(struct fan_experiment *e, uint32_t root)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t n = 0; n < s->nodes; n++)
		if (is_below(s, n, root) &&
		    !place_daemon(e, n, true, fan_scenario_shares(&s->node[n])))
			return false;
	return true;
}

/* The node that completes a switch's sums: a server, or a switch. */
static uint32_t aggregator_of(const struct fan_scenario *s, uint32_t node)
{
	assert(node < s->nodes);
	while (s->node[node].server != FAN_SIM_NONE)
		node = s->node[node].server; /* ends: servers form no cycle */
	return node;
}

/* Place what completes the sums at `aggregator`, and all switches that lead there. */
static bool place_shared(struct fan_experiment *e, uint32_t aggregator)
{
	const struct fan_scenario *s = e->scenario;
	if (!place_daemon(e, aggregator, true, false))
		return false;
	for (uint32_t n = 0; n < s->nodes; n++)
		if (fan_scenario_shares(&s->node[n]) && aggregator_of(s, n) == aggregator &&
		    !place_daemon(e, n, false, true))
			return false;
	return true;
}

/* Place every daemon that a job or a route needs. */
static bool place_daemons(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t i = 0; i < s->jobs; i++) {
		const struct fan_scenario_job *j = &s->job[i];
		if (j->reduce != FAN_REDUCE_FANIN)
			continue;
		if (!(j->shared ? place_shared(e, j->at) : place_tree(e, j->at)))
			return false;
	}
	for (uint32_t i = 0; i < s->routes; i++)
		if (!place_daemon(e, s->route[i].node, false, true))
			return false;
	return true;
}

/* A switch that completes its own sums has plenty of slots for that, like a server. */
static struct fan_aggregator_config aggregator_config(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario_node *n = &e->scenario->node[node];
	return (struct fan_aggregator_config){
		.slots = fan_scenario_shares(n) ? FAN_SLOTS_MAX : n->slots,
		.payload_bytes = n->payload_bytes,
		.jobs_max = (uint16_t)n->jobs,
		.greedy = true,
		.members_max = FAN_MEMBERS_MAX,
		.window_max = (uint16_t)n->window,
		.ahead_max = n->ahead_max,
		.rx_bytes = n->buffer_bytes,
		.shards = 1,
		.secret = {{1, 0}},
		.group_family = n->multicast ? 4 : 0,
		.group_port = GROUP_PORT,
		.siblings = n->parent == FAN_SIM_NONE ? 0 : e->scenario->node[n->parent].children,
		.index = n->index,
		.nonce = fan_rng_mix(e->scenario->seed ^ fan_rng_mix(node)),
		.no_reminders = !n->reminders,
		.group_base = {239, 1, 1, 0}, /* ends in 0: daemon.c relies on it */
	};
}

static uint32_t routes_of(const struct fan_scenario *s, uint32_t node)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->routes; i++)
		n += s->route[i].node == node;
	return n;
}

static struct fan_switch_config slots_config(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario_node *n = &e->scenario->node[node];
	return (struct fan_switch_config){
		.policy = (enum fan_policy)n->policy,
		.slots = n->slots,
		.quota = n->quota,
		.payload_bytes = n->payload_bytes,
		.children_max = FAN_MEMBERS_MAX,
		.options = (uint8_t)((n->free_early ? FAN_SWITCH_FREE_EARLY : 0) |
				     (n->preemption ? 0 : FAN_SWITCH_NO_PREEMPTION) |
				     (n->ageing ? 0 : FAN_SWITCH_NO_AGEING) |
				     (n->priorities ? 0 : FAN_SWITCH_NO_PRIORITIES)),
		.routes = (uint16_t)routes_of(e->scenario, node),
	};
}

/* The address for packets to `node`, which may be FAN_SIM_NONE. */
static fan_peer peer_of(const struct fan_experiment *e, uint32_t node)
{
	if (node == FAN_SIM_NONE || !e->daemon[node])
		return (fan_peer){.port = 0};
	return fan_sim_peer(e->daemon[node]->actor);
}

/* Install the switch's routes.  One that leads to a server without jobs has no use. */
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
	return c && fan_sim_daemon_route(e->daemon[node], c, routes);
}

static bool begin_daemon(struct fan_experiment *e, uint32_t node)
{
	const struct fan_scenario_node *n = &e->scenario->node[node];
	struct fan_node_config cfg = e->daemon[node]->cfg;
	if (cfg.has_aggregator)
		cfg.aggregator = aggregator_config(e, node);
	if (cfg.has_slots)
		cfg.slots = slots_config(e, node);
	/* without a next hop, all jobs of the slots have routes */
	cfg.above = peer_of(e, cfg.has_aggregator ? n->parent : n->server);
	return fan_sim_daemon_begin(e->daemon[node], &cfg, n->kind == FAN_NODE_SERVER,
				    e->scenario->sample_ns) &&
	       (!cfg.has_slots || install_routes(e, node));
}

/* A chooser for a switch that no route passes. */
static enum fan_sim_need takes_nothing(const void *arg, const struct fan_sim_packet *p)
{
	(void)arg;
	(void)p;
	return FAN_NEED_NOTHING;
}

static bool sums_here(const struct fan_route_config *r)
{
	for (unsigned i = 0; i < r->entries; i++)
		if (r->entry[i].sums)
			return true;
	return false;
}

/* The entry for rank `rank`'s packets from `from`: that of this neighbour, else that of workers. */
static const struct fan_route_entry *entry_of(const struct fan_route_config *r,
					      const fan_peer *from, unsigned rank)
{
	const struct fan_route_entry *of_worker = NULL;
	for (unsigned i = 0; i < r->entries; i++) {
		const struct fan_route_entry *e = &r->entry[i];
		bool has = rank < FAN_RANKS_MAX && fan_ranks_has(e->ranks, rank);
		if (has && fan_peer_equal(&e->from, from))
			return e;
		if (has && fan_peer_is_none(&e->from))
			of_worker = e;
	}
	return of_worker;
}

/* What a packet requires from the daemon `self` (a fan_sim_chooser): capacity if one of its routes
 * has the packet summed here, order if the packet has the number of such a route. */
static enum fan_sim_need daemon_needs(const void *self, const struct fan_sim_packet *p)
{
	const struct fan_sim_daemon *d = self;
	struct fan_frag f;
	if (p->to != d->actor || !p->body || fan_wire_get(&f, p->body->bytes, p->len) >= 0)
		return FAN_NEED_NOTHING;
	if (f.type != FAN_TYPE_DATA && f.type != FAN_TYPE_PROBE && f.type != FAN_TYPE_PARTIAL)
		return FAN_NEED_NOTHING; /* it has no route number */
	fan_peer from = fan_sim_peer(p->from);
	for (uint32_t i = 0; i < d->routes; i++) {
		if (d->route[i].number != fan_route_number(f.job))
			continue;
		const struct fan_route_entry *e =
			f.type == FAN_TYPE_PARTIAL ? NULL : entry_of(&d->route[i], &from, f.sender);
		if (e && e->sums)
			return FAN_NEED_CAPACITY;
		return sums_here(&d->route[i]) ? FAN_NEED_ORDER : FAN_NEED_NOTHING;
	}
	return FAN_NEED_NOTHING;
}

/* Begin all daemons, once all actors have their nodes. */
static bool begin_daemons(struct fan_experiment *e)
{
	const struct fan_scenario *s = e->scenario;
	for (uint32_t n = 0; n < s->nodes; n++) {
		struct fan_sim_daemon *d = e->daemon[n];
		if (d && !begin_daemon(e, n))
			return false;
		if (!s->node[n].sums_bps)
			continue;
		e->sim.node[n].uses = d && d->slots ? daemon_needs : takes_nothing;
		e->sim.node[n].uses_arg = d;
	}
	return true;
}

/* Set where rank `r` of the job joins.  False: nothing sums there. */
static bool take_seat(const struct fan_experiment *e, struct fan_experiment_job *j, uint32_t r)
{
	struct fan_job_seat *at = &j->cfg.seat[r];
	if (!e->daemon[at->node])
		return false;
	at->aggregator = e->daemon[at->node]->actor;
	if (e->daemon[at->node]->slots)
		j->cfg.urgent |= e->scenario->node[at->node].policy == FAN_POLICY_ESA;
	else
		at->multicast = e->scenario->node[at->node].multicast;
	return true;
}

static bool add_job(struct fan_experiment *e, uint32_t i)
{
	const struct fan_scenario_job *s = &e->scenario->job[i];
	struct fan_experiment_job *j = &e->job[i];
	j->cfg = s->cfg;
	bool by_ring = s->reduce != FAN_REDUCE_FANIN;
	if (!by_ring) {
		j->cfg.aggregator = e->daemon[s->at]->actor;
		j->cfg.multicast = e->scenario->node[s->at].multicast;
	}
	for (uint32_t r = 0; j->cfg.seat && r < j->cfg.ranks; r++)
		if (!take_seat(e, j, r))
			return false;
	j->trainer = j->cfg.ranks ? calloc(j->cfg.ranks, sizeof *j->trainer) : NULL;
	if (!j->trainer || !fan_trainer_share(&j->shared, &j->cfg, &e->sim, by_ring))
		return false;
	j->shared.by_tree = s->reduce == FAN_REDUCE_TREE;
	j->shared.by_levels = s->reduce == FAN_REDUCE_LEVELS;
	for (uint32_t r = 0; r < j->cfg.ranks; r++)
		if (!fan_trainer_init(&j->trainer[r], &j->shared, (uint16_t)r))
			return false;
	return true;
}

/* Add the tensor whose first part is job `i`, if there is one. */
static bool add_tensor(struct fan_experiment *e, uint32_t i)
{
	struct fan_trainer_shared *part[FAN_TENSOR_PARTS_MAX];
	const struct fan_scenario *s = e->scenario;
	uint32_t parts = 0;
	if (!s->job[i].tensor[0] || e->job[i].shared.tensor)
		return true;
	for (uint32_t k = i; k < s->jobs; k++)
		if (strcmp(s->job[k].tensor, s->job[i].tensor) == 0)
			part[parts++] = &e->job[k].shared;
	return parts < 2 || fan_tensor_init(&e->tensor[e->tensors++], part, parts);
}

bool fan_experiment_begin(struct fan_experiment *e, const struct fan_scenario *s)
{
	memset(e, 0, sizeof *e);
	e->scenario = s;
	e->daemon = calloc(s->nodes, sizeof(struct fan_sim_daemon *));
	e->job = calloc(s->jobs, sizeof *e->job);
	e->tensor = calloc(s->jobs / 2 + UINT32_C(1), sizeof *e->tensor);
	e->traffic = calloc(s->flows + UINT32_C(1), sizeof *e->traffic);
	e->tcp = calloc(s->tcps + UINT32_C(1), sizeof *e->tcp);
	bool ok = fan_scenario_network(&e->sim, s) && e->daemon && e->job && e->tensor &&
		  e->traffic && e->tcp;
	ok = ok && place_daemons(e) && begin_daemons(e);
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		ok = add_job(e, i);
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		ok = add_tensor(e, i);
	for (uint32_t i = 0; ok && i < s->flows; i++)
		ok = fan_traffic_init(&e->traffic[i], &e->sim, &s->flow[i],
				      fan_rng_stream(s->seed, UINT64_C(1) << 32 | i));
	for (uint32_t i = 0; ok && i < s->tcps; i++)
		ok = fan_tcp_init(&e->tcp[i], &e->sim, &s->tcp[i]);
	ok = ok && weather_init(&e->weather, &e->sim, s->jobs);
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		weather_add(&e->weather, &e->job[i].cfg);
	ok = ok && weather_begin(&e->weather) &&
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
	for (uint32_t n = 0; e->daemon && n < e->scenario->nodes; n++) {
		if (e->daemon[n])
			fan_sim_daemon_free(e->daemon[n]);
		free(e->daemon[n]);
	}
	for (uint32_t i = 0; i < e->tensors; i++)
		fan_tensor_free(&e->tensor[i]);
	free(e->tensor);
	free(e->job);
	free(e->daemon);
	free(e->traffic);
	for (uint32_t i = 0; e->tcp && i < e->scenario->tcps; i++)
		fan_tcp_free(&e->tcp[i]);
	free(e->tcp);
	weather_free(&e->weather);
	free(e->conductor.order);
	fan_sim_free(&e->sim);
	memset(e, 0, sizeof *e);
}

static bool tell(const struct fan_experiment *e, const struct fan_experiment_progress *progress)
{
	uint64_t done = 0, all = 0;
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		const struct fan_experiment_job *j = &e->job[i];
		all += j->cfg.iterations;
		done += j->trainer[0].left ? j->cfg.iterations : j->trainer[0].iteration;
	}
	return progress->tell(progress->arg, e->sim.now_ns, done, all);
}

bool fan_experiment_run(struct fan_experiment *e, const struct fan_experiment_progress *progress)
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
