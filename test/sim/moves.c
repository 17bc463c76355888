/* SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include <string.h>

#include "story.h"

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
