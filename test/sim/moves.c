/* SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include <string.h>

#include "story.h"

/* ---- random ways ---- */

#define SUMS_MAX   3  /* switches of a job that sum */
#define DETOUR_MAX 2  /* switches between two that must be passed */
#define TRIES	   40 /* then all go straight to the aggregator */

/* Which switches sum, and which way their sums go on. */
struct sums {
	unsigned count;
	uint8_t place[SUMS_MAX];
	struct routes_walk walk[SUMS_MAX]; /* from the next place on, to the aggregator */
};

static bool passes(const struct routes_walk *w, unsigned place)
{
	for (unsigned i = 0; i < w->steps; i++)
		if (w->at[i] == place)
			return true;
	return false;
}

static bool take_step(struct routes_walk *w, unsigned place, bool sums)
{
	if (w->steps > ROUTES_STEPS_MAX)
		return false;
	w->at[w->steps] = (uint8_t)place;
	w->sums[w->steps++] = sums;
	return true;
}

/* Go on, over a few switches, to `to`, which sums or is the aggregator. */
static bool go(struct routes_walk *w, struct fan_rng *rng, unsigned switches, unsigned to)
{
	struct routes_walk part = {.steps = 0};
	unsigned detours = (unsigned)fan_rng_below(rng, DETOUR_MAX + 1);
	if (w->steps)
		take_step(&part, w->at[w->steps - 1], false);
	for (unsigned i = 0; i < detours; i++) {
		unsigned over = (unsigned)fan_rng_below(rng, switches);
		if (over == to || passes(&part, over))
			continue;
		take_step(&part, over, false);
		if (!take_step(w, over, false))
			return false;
	}
	return take_step(w, to, to != ROUTES_AGGREGATOR);
}

static bool add(struct routes_walk *w, const struct routes_walk *rest)
{
	for (unsigned i = 0; i < rest->steps; i++)
		if (!take_step(w, rest->at[i], rest->sums[i]))
			return false;
	return true;
}

static bool draw_sums(struct sums *s, struct fan_rng *rng, unsigned switches)
{
	s->count = (unsigned)fan_rng_below(rng, SUMS_MAX + 1);
	if (s->count > switches)
		s->count = switches;
	for (unsigned i = 0; i < s->count; i++) {
		s->place[i] = (uint8_t)((i + switches / 2) % switches);
		unsigned to =
			(unsigned)fan_rng_below(rng, i + 1); /* an earlier one; i: the aggregator */
		struct routes_walk w = {.steps = 0};
		take_step(&w, s->place[i], true);
		if (!go(&w, rng, switches, to < i ? s->place[to] : ROUTES_AGGREGATOR) ||
		    (to < i && !add(&w, &s->walk[to])))
			return false;
		s->walk[i].steps = 0;
		for (unsigned k = 1; k < w.steps; k++)
			take_step(&s->walk[i], w.at[k], w.sums[k]);
	}
	return true;
}

static bool draw_walk(struct routes_walk *w, const struct sums *s, struct fan_rng *rng,
		      unsigned switches)
{
	unsigned from = (unsigned)fan_rng_below(rng, switches);
	unsigned to = (unsigned)fan_rng_below(
		rng, s->count + (s->count == 0 || fan_rng_below(rng, 3) == 0));
	w->steps = 0;
	if (to >= s->count)
		return take_step(w, from, false) && go(w, rng, switches, ROUTES_AGGREGATOR);
	if (from == s->place[to])
		return take_step(w, from, true) && add(w, &s->walk[to]);
	return take_step(w, from, false) && go(w, rng, switches, s->place[to]) &&
	       add(w, &s->walk[to]);
}

/* No step is taken twice: a switch could not tell. */
static bool is_plain(const struct routes_walk *w)
{
	for (unsigned i = 1; i < w->steps; i++) {
		if (w->at[i] == w->at[i - 1])
			return false;
		for (unsigned k = 1; k < i; k++)
			if (w->at[i] == w->at[k] && w->at[i - 1] == w->at[k - 1])
				return false;
	}
	return true;
}

/* Most ranks go as one before them went: routes have few entries. */
static bool draw_all(struct routes *r, const struct sums *s, struct fan_rng *rng, unsigned switches)
{
	for (unsigned rank = 0; rank < r->ranks; rank++) {
		if (rank >= 8) {
			r->walk[rank] = r->walk[fan_rng_below(rng, 8)];
			continue;
		}
		unsigned tries = 0;
		while (!draw_walk(&r->walk[rank], s, rng, switches) || !is_plain(&r->walk[rank]))
			if (++tries == TRIES)
				return false;
	}
	return true;
}

static bool can_be_told(const struct routes *r, unsigned switches)
{
	static struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	static struct fan_route route;
	fan_peer peer[ROUTES_AGGREGATOR + 1];
	memset(peer, 0, sizeof peer);
	for (unsigned i = 0; i <= ROUTES_AGGREGATOR; i++)
		peer[i].port = i + 1;
	for (unsigned place = 0; place < switches; place++) {
		struct fan_route_config c = {.number = r->number, .entry = entry};
		c.entries = routes_entries(r, place, peer, entry);
		if (c.entries && fan_route_set(&route, &c) != FAN_OK)
			return false;
	}
	return true;
}

void routes_draw(struct routes *r, struct fan_rng *rng, uint16_t number, unsigned ranks,
		 unsigned switches)
{
	struct sums s;
	r->number = number;
	r->ranks = ranks;
	for (unsigned i = 0; i < TRIES; i++)
		if (draw_sums(&s, rng, switches) && draw_all(r, &s, rng, switches) &&
		    can_be_told(r, switches))
			return;
	for (unsigned rank = 0; rank < ranks; rank++)
		r->walk[rank] = (struct routes_walk){
			.steps = 2, .at = {(uint8_t)(rank % switches), ROUTES_AGGREGATOR}};
}

void routes_levels(struct routes *r, uint16_t number, unsigned ranks, unsigned switches)
{
	r->number = number;
	r->ranks = ranks;
	for (unsigned rank = 0; rank < ranks; rank++)
		r->walk[rank] = (struct routes_walk){
			.steps = 3,
			.at = {(uint8_t)(1 + rank % (switches - 1)), 0, ROUTES_AGGREGATOR},
			.sums = {true, true},
		};
}

/* The entry like `like`, whatever its ranks; a new one if there is none. */
static struct fan_route_entry *entry_like(struct fan_route_entry *entry, unsigned *count,
					  const struct fan_route_entry *like)
{
	for (unsigned i = 0; i < *count; i++)
		if (fan_peer_equal(&entry[i].from, &like->from) &&
		    fan_peer_equal(&entry[i].next, &like->next) && entry[i].depth == like->depth &&
		    entry[i].sums == like->sums)
			return &entry[i];
	if (*count == FAN_ROUTE_ENTRIES_MAX)
		return NULL;
	entry[*count] = *like;
	return &entry[(*count)++];
}

unsigned routes_entries(const struct routes *r, unsigned place, const fan_peer *peer,
			struct fan_route_entry *entry)
{
	unsigned count = 0;
	for (unsigned rank = 0; rank < r->ranks; rank++) {
		const struct routes_walk *w = &r->walk[rank];
		for (unsigned i = 0; i + 1 < w->steps; i++) {
			if (w->at[i] != place)
				continue;
			struct fan_route_entry e = {
				.next = peer[w->at[i + 1]],
				.depth = (uint8_t)(w->steps - 1 - i),
				.sums = w->sums[i],
			};
			if (i)
				e.from = peer[w->at[i - 1]];
			struct fan_route_entry *into = entry_like(entry, &count, &e);
			if (into)
				fan_ranks_set(into->ranks, rank);
		}
	}
	return count;
}

/* ---- jobs that change them ---- */

#define POLL_NS	   (500 * SIM_US)
#define INSTALL_NS (5 * FAN_MS)	 /* from the first switch to the last, at most */
#define TELL_NS	   (10 * FAN_MS) /* from the first worker to the last, at most */
#define REST_NS	   (80 * FAN_MS) /* between two moves, at most */

static void addresses(const struct run *r, fan_peer *peer)
{
	peer[ROUTES_AGGREGATOR] = r->sim.node[SIM_SWITCH].peer;
	for (unsigned i = 0; i < r->plan.shareds; i++)
		peer[i] = r->sim.node[r->shared[i].node].peer;
}

/* Draw new ways for job `k` and install them everywhere. */
static void install(struct moves *m, unsigned k)
{
	struct run *r = m->run;
	struct moves_job *j = &m->job[k];
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	fan_peer peer[ROUTES_AGGREGATOR + 1];
	uint16_t base = (uint16_t)(k << 14), before = j->ways.number;
	addresses(r, peer);
	j->old[j->olds++] = before;
	routes_draw(&j->ways, &m->rng, (uint16_t)(base + (before - base) % 16383 + 1),
		    j->ways.ranks, r->plan.shareds);
	for (unsigned i = 0; i < r->plan.shareds; i++) {
		memset(entry, 0, sizeof entry);
		struct fan_route_config c = {
			.number = j->ways.number,
			.entry = entry,
			.entries = routes_entries(&j->ways, i, peer, entry),
		};
		if (c.entries)
			host_switch_add_route(&r->shared[i], &c);
	}
}

static void remove_old(struct moves *m, struct moves_job *j)
{
	for (unsigned i = 0; i < m->run->plan.shareds; i++)
		for (unsigned k = 0; k < j->olds; k++)
			host_switch_drop_route(&m->run->shared[i], j->old[k]);
	j->olds = 0;
}

static struct host_worker *first_worker(const struct moves *m, unsigned k)
{
	struct host_worker *w = m->run->worker;
	for (unsigned i = 0; i < k; i++)
		w += m->job[i].ways.ranks;
	return w;
}

/* As the library does it: the socket first, then the worker. */
static void tell(struct moves *m, struct moves_job *j, struct host_worker *w)
{
	struct run *r = m->run;
	r->sim.node[w->node].up = r->shared[j->ways.walk[w->rank].at[0]].node;
	host_worker_reroute(w, j->ways.number);
	sim_wake(&r->sim, w->node);
}

/* True: all have been told. */
static bool tell_all(struct moves *m, unsigned k)
{
	struct moves_job *j = &m->job[k];
	struct host_worker *w = first_worker(m, k);
	bool all = true;
	for (unsigned rank = 0; rank < j->ways.ranks; rank++) {
		if (j->tell_ns[rank] && m->run->sim.now_ns >= j->tell_ns[rank]) {
			j->tell_ns[rank] = 0;
			tell(m, j, &w[rank]);
		}
		all &= !j->tell_ns[rank];
	}
	return all;
}

/* Does the aggregator know all who are at work by the new route? */
static bool all_moved(const struct moves *m, unsigned k)
{
	const struct moves_job *j = &m->job[k];
	const struct host_worker *w = first_worker(m, k);
	for (unsigned rank = 0; rank < j->ways.ranks; rank++)
		if (w[rank].core && fan_worker_phase(w[rank].core) < FAN_W_FAILED &&
		    fan_worker_route(w[rank].core) != j->ways.number)
			return false;
	return true;
}

static uint64_t in(struct moves *m, uint64_t most_ns)
{
	return m->run->sim.now_ns + 1 + fan_rng_below(&m->rng, most_ns);
}

static void rest(struct moves *m, struct moves_job *j)
{
	j->phase = MOVES_REST;
	j->at_ns = j->left ? in(m, REST_NS) : SIM_NEVER;
}

static void begin_telling(struct moves *m, struct moves_job *j)
{
	uint64_t most_ns = fan_rng_below(&m->rng, 3) ? TELL_NS : 1;
	if (j->cut)
		remove_old(m, j);
	for (unsigned rank = 0; rank < j->ways.ranks; rank++)
		j->tell_ns[rank] = in(m, most_ns);
	j->phase = MOVES_TELL;
	j->at_ns = m->run->sim.now_ns + POLL_NS;
}

static void step(struct moves *m, unsigned k)
{
	struct moves_job *j = &m->job[k];
	j->at_ns = m->run->sim.now_ns + POLL_NS;
	switch (j->phase) {
	case MOVES_REST:
		j->left--;
		m->made++;
		j->cut = fan_rng_below(&m->rng, 3) == 0;
		j->hasty = fan_rng_below(&m->rng, 4) == 0;
		install(m, k);
		j->phase = MOVES_INSTALL;
		j->at_ns = in(m, INSTALL_NS);
		break;
	case MOVES_INSTALL: begin_telling(m, j); break;
	case MOVES_TELL:
		if (!tell_all(m, k))
			break;
		j->phase = MOVES_WAIT;
		if (j->hasty && j->left)
			rest(m, j);
		break;
	case MOVES_WAIT:
		if (!all_moved(m, k))
			break;
		m->finished++;
		remove_old(m, j);
		rest(m, j);
		break;
	}
}

static void tick(void *self)
{
	struct moves *m = self;
	m->next_ns = SIM_NEVER;
	for (unsigned k = 0; k < m->jobs; k++) {
		struct moves_job *j = &m->job[k];
		if (m->run->sim.now_ns >= j->at_ns)
			step(m, k);
		m->next_ns = j->at_ns < m->next_ns ? j->at_ns : m->next_ns;
	}
}

static uint64_t deadline(void *self)
{
	const struct moves *m = self;
	return m->next_ns;
}

static void recv_nothing(void *self, const struct sim_packet *p)
{
	(void)self;
	(void)p;
}

void moves_begin(struct moves *m, struct run *r)
{
	struct sim_link link = {.delay_ns = SIM_US};
	memset(m, 0, sizeof *m);
	m->run = r;
	m->rng.state = fan_rng_mix(r->plan.seed + 0x30e5);
	m->jobs = r->plan.jobs;
	for (unsigned k = 0; k < m->jobs; k++) {
		m->job[k].ways = r->plan.routes[k];
		m->job[k].left = (unsigned)rng_range(&m->rng, 1, MOVES_MAX);
		rest(m, &m->job[k]);
	}
	m->node = sim_add_node(&r->sim, &link);
	struct sim_node *n = &r->sim.node[m->node];
	n->self = m;
	n->recv = recv_nothing;
	n->tick = tick;
	n->deadline = deadline;
	sim_wake(&r->sim, m->node);
}
