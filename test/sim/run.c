/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seal/toy.h"
#include "story.h"

/* ---- trees ---- */

/* A switch in front of the node `up`, if the plan has one there: who comes to that node comes to
 * it. */
static int add_front(struct run *r, unsigned place, unsigned *fronts, int up,
		     const struct sim_link *link)
{
	const struct plan *p = &r->plan;
	if (!p->fronts[place])
		return up;
	struct host_node *h = &r->shared[*fronts];
	host_switch_init(h, &r->sim, link, &p->shared[(*fronts)++], up);
	h->mark = p->mark;
	h->restart_at = place == 1 ? p->shared_restart : 0;
	sim_wake(&r->sim, h->node);
	return h->node;
}

static struct fan_aggregator_config config_of(const struct run *r, unsigned leaf)
{
	struct fan_aggregator_config c = r->plan.sw;
	c.siblings = (uint16_t)r->plan.leaves;
	c.index = (uint16_t)leaf;
	c.nonce = fan_rng_mix(r->plan.seed + leaf);
	c.secret.k[1] += leaf + 1;
	c.group_base[2] ^= (uint8_t)(leaf + 1);
	return c;
}

/* The ranks of a job from `first` on, of `ranks`, are at this leaf. */
static uint16_t first_of(unsigned ranks, unsigned leaves, unsigned leaf)
{
	return (uint16_t)((leaf * ranks + leaves - 1) / leaves);
}

static void seat(struct run *r, struct host_worker *w, const int *at)
{
	unsigned ranks = w->job->cfg.ranks, leaves = r->plan.leaves,
		 leaf = w->rank * leaves / ranks;
	uint16_t first = first_of(ranks, leaves, leaf);
	host_worker_join_few(w, first, (uint16_t)(first_of(ranks, leaves, leaf + 1) - first));
	r->sim.node[w->node].up = at[leaf];
}

static void tree_begin(struct run *r)
{
	struct sim_link link = r->plan.link;
	unsigned fronts = 0;
	int at[PLAN_LEAVES_MAX];
	link.loss /= r->plan.same_loss ? 1 : 4; /* as in add_shared */
	link.burst = 0;
	int top = add_front(r, 0, &fronts, SIM_SWITCH, &link);
	for (unsigned i = 0; i < r->plan.leaves; i++) {
		const struct fan_aggregator_config c = config_of(r, i);
		host_aggregator_init_below(&r->leaf[i], &r->sim, &link, &c, top);
		at[i] = add_front(r, i + 1, &fronts, r->leaf[i].node, &link);
	}
	for (unsigned i = 0; i < r->workers; i++)
		seat(r, &r->worker[i], at);
}

static void tree_check_empty(const struct run *r)
{
	for (unsigned i = 0; i < r->plan.leaves; i++) {
		struct fan_report report = {.index = 0};
		fan_aggregator_report(r->leaf[i].aggregator, &report);
		SIM_CHECK(&r->sim, report.jobs == 0, "%u jobs are left below, state %u err %d",
			  report.jobs, report.state, report.err);
	}
}

static void tree_free(struct run *r)
{
	for (unsigned i = 0; i < r->plan.leaves; i++)
		host_node_free(&r->leaf[i]);
}

/* ---- a run ---- */

static void add_workers(struct run *r)
{
	const struct plan *p = &r->plan;
	for (unsigned i = 0; i < p->jobs; i++)
		r->workers += p->job[i][0].cfg.ranks;
	bool extra = p->story == STORY_TAKEN || p->story == STORY_FULL;
	r->worker = calloc(r->workers + extra, sizeof *r->worker);
	unsigned n = 0;
	for (unsigned i = 0; i < p->jobs; i++) {
		for (uint16_t rank = 0; rank < p->job[i][0].cfg.ranks; rank++, n++) {
			struct sim_link link = p->link;
			uint32_t loss = (uint32_t)fan_rng_below(&r->sim.rng, link.loss + 1);
			link.loss = p->same_loss ? link.loss : loss;
			if (p->ahead && p->bps)
				link.up_bps = p->bps / (fan_rng_below(&r->sim.rng, 3)
								? 1
								: rng_range(&r->sim.rng, 2, 16));
			host_worker_init(&r->worker[n], &r->sim, &link, &r->plan.job[i][0], rank);
		}
	}
	if (extra) {
		struct sim_link link = p->link;
		r->extra = &r->worker[r->workers++];
		host_worker_init(r->extra, &r->sim, &link, &r->plan.extra, p->victim);
	}
	/* one that hears no group at all */
	if (p->story != STORY_DEAF && fan_rng_below(&r->sim.rng, 4) == 0)
		r->sim.node[r->worker[p->victim].node].link.deaf = true;
	for (unsigned i = 0; i < r->workers; i++)
		sim_wake(&r->sim, r->worker[i].node);
}

/* Put switches between the workers, which are there, and the aggregator. */
static void add_shared(struct run *r)
{
	const struct plan *p = &r->plan;
	/* BEATs of hundreds of ranks pass here at one time: a chance in five that each is lost
	 * on every link, or a burst that takes them all, is silence of seconds. */
	struct sim_link link = p->link;
	link.loss /= p->same_loss ? 1 : 4;
	link.burst = 0;
	for (unsigned i = 0; i < p->shareds; i++) {
		struct host_node *h = &r->shared[i];
		int up = i && !p->beside && !p->routed ? r->shared[i - 1].node : SIM_SWITCH;
		host_switch_init(h, &r->sim, &link, &p->shared[i], up);
		h->mark = p->mark;
		h->restart_at = i == 0 ? p->shared_restart : 0;
		sim_wake(&r->sim, h->node);
	}
	for (unsigned i = 0; p->shareds && !p->routed && i < r->workers; i++) {
		unsigned which = p->beside ? i % p->shareds : p->shareds - 1;
		r->sim.node[r->worker[i].node].up = r->shared[which].node;
	}
}

/* Let each worker join where its route begins, and the switches know the routes. */
static void add_routes(struct run *r)
{
	struct plan *p = &r->plan;
	fan_peer peer[ROUTES_AGGREGATOR + 1];
	peer[ROUTES_AGGREGATOR] = r->sim.node[SIM_SWITCH].peer;
	for (unsigned i = 0; i < p->shareds; i++)
		peer[i] = r->sim.node[r->shared[i].node].peer;
	for (unsigned i = 0; i < p->shareds; i++) {
		for (unsigned k = 0; k < p->jobs; k++) {
			struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX] = {{.depth = 0}};
			const struct fan_route_config c = {
				.number = p->routes[k].number,
				.entry = entry,
				.entries = routes_entries(&p->routes[k], i, peer, entry),
			};
			if (c.entries)
				host_switch_add_route(&r->shared[i], &c);
		}
	}
	unsigned n = 0;
	for (unsigned k = 0; k < p->jobs; k++)
		for (unsigned rank = 0; rank < p->routes[k].ranks; rank++, n++)
			r->sim.node[r->worker[n].node].up =
				r->shared[p->routes[k].walk[rank].at[0]].node;
	if (n < r->workers) /* one too many */
		r->sim.node[r->worker[n].node].up =
			r->shared[p->routes[0].walk[p->victim].at[0]].node;
}

static bool all_gone(const struct run *r)
{
	for (unsigned i = 0; i < r->workers; i++) {
		const struct host_worker *w = &r->worker[i];
		if (!w->gone && !w->dead && !(w == r->extra && !r->struck_ns))
			return false;
	}
	return true;
}

static void until_all_gone(struct run *r)
{
	while (!all_gone(r)) {
		SIM_CHECK(&r->sim, sim_step(&r->sim, r->plan.limit_ns),
			  "not over in time (limit %.1f s)", (double)r->plan.limit_ns / 1e9);
	}
}

/* Stale packets arrive, and what they raise must sink again. */
static void until_switch_is_empty(struct run *r)
{
	r->story_ns = r->moves.next_ns = SIM_NEVER;
	while (r->sim.world.in_flight)
		sim_step(&r->sim, SIM_NEVER);
	uint64_t alive_ms = 0;
	for (unsigned i = 0; i < r->plan.jobs; i++)
		if (r->plan.job[i][0].cfg.alive_ms > alive_ms)
			alive_ms = r->plan.job[i][0].cfg.alive_ms;
	uint64_t end_ns = r->sim.now_ns + 4 * alive_ms * FAN_MS;
	while (sim_step(&r->sim, end_ns))
		;
	struct fan_report report = {.index = 0};
	fan_aggregator_report(r->sw.aggregator, &report);
	SIM_CHECK(&r->sim, report.jobs == 0, "%u jobs are left on the switch, state %u err %d",
		  report.jobs, report.state, report.err);
	tree_check_empty(r);
	SIM_CHECK(&r->sim, fan_aggregator_deadline(r->sw.aggregator) == UINT64_MAX,
		  "an empty switch waits for something");
}

static void print_shared(const struct host_node *h)
{
	const struct fan_switch_stats *st = &h->sum;
	printf("  shared: taken %llu hits %llu collisions %llu preemptions %llu evictions %llu "
	       "flushes %llu completions %llu unknown %llu restarts %u paces %llu yields %llu "
	       "lent %llu late %llu\n",
	       (unsigned long long)st->taken, (unsigned long long)st->hits,
	       (unsigned long long)st->collisions, (unsigned long long)st->preemptions,
	       (unsigned long long)st->evictions, (unsigned long long)st->flushes,
	       (unsigned long long)st->completions, (unsigned long long)st->unknown, h->restarts,
	       (unsigned long long)st->progress_sent, (unsigned long long)st->yields,
	       (unsigned long long)st->lent, (unsigned long long)st->late);
}

static void print_caches(const struct run *r)
{
	struct fan_helper_cache_stats sum = {0};
	for (unsigned i = 0; i < r->workers; i++) {
		const struct fan_helper_cache_stats *c = &r->worker[i].cache;
		sum.peak = c->peak > sum.peak ? c->peak : sum.peak;
		sum.parts += c->parts;
		sum.done += c->done;
		sum.early += c->early;
		sum.over += c->over;
	}
	if (sum.parts)
		printf("  caches: parts %llu done %llu early %llu over %llu, at most %u at a time\n",
		       (unsigned long long)sum.parts, (unsigned long long)sum.done,
		       (unsigned long long)sum.early, (unsigned long long)sum.over, sum.peak);
}

/* A helper that keeps nothing, or not all, of what it is given. */
static bool forget(void *arg, const struct sim_packet *p, uint64_t *delay_ns)
{
	struct run *r = arg;
	(void)delay_ns;
	bool part = p->bytes[1] == FAN_TYPE_DATA || p->bytes[1] == FAN_TYPE_PARTIAL;
	bool lent = part && r->sim.node[p->to].up == p->from;
	return lent && rng_chance(&r->sim.rng, r->plan.forgets);
}

static void add_switch(struct run_totals *t, const struct fan_switch_stats *st)
{
	t->preemptions += st->preemptions - st->yields;
	t->yields += st->yields;
	t->late += st->late;
	t->lent += st->lent;
	t->completions += st->completions;
	t->collided += st->drops[FAN_DROP_COLLISION];
}

void run_seed(const struct run_options *o, uint64_t seed, struct run_totals *totals)
{
	struct run *r = calloc(1, sizeof *r);
	bool verbose = o->verbose;
	plan_draw(&r->plan, seed, o->story < 0 ? STORY_COUNT : (enum story)o->story, o->policy,
		  o->stragglers);
	if (o->loss)
		plan_set_loss(&r->plan, o->loss);
	if (verbose)
		plan_print(&r->plan);
	sim_init(&r->sim, seed);
	r->sim.sealed = o->sealed;
	toy_reset(seed);
	r->sim.lines = r->plan.bps != 0;
	if (r->plan.forgets) {
		r->sim.filter = forget;
		r->sim.filter_arg = r;
	}
	host_aggregator_init(&r->sw, &r->sim, &r->plan.sw);
	add_workers(r);
	if (r->plan.leaves)
		tree_begin(r);
	else
		add_shared(r);
	if (r->plan.routed)
		add_routes(r);
	story_begin(r);
	if (r->plan.moves)
		moves_begin(&r->moves, r);
	until_all_gone(r);
	uint64_t took_ns = r->sim.now_ns;
	until_switch_is_empty(r);
	story_judge(r);
	if (verbose)
		printf("  %llu packets delivered, over after %.3f s, limit %.1f s\n",
		       (unsigned long long)r->sim.delivered, (double)took_ns / 1e9,
		       (double)r->plan.limit_ns / 1e9);
	if (verbose && r->plan.moves)
		printf("  %u moves to other routes, %u of them by all ranks\n", r->moves.made,
		       r->moves.finished);
	for (unsigned i = 0; i < r->workers; i++)
		host_worker_free(&r->worker[i]);
	for (unsigned i = 0; i < r->workers; i++)
		totals->kept += r->worker[i].cache.parts;
	if (verbose)
		print_caches(r);
	for (unsigned i = 0; i < r->plan.shareds; i++) {
		host_node_free(&r->shared[i]);
		add_switch(totals, &r->shared[i].sum);
		if (verbose)
			print_shared(&r->shared[i]);
	}
	tree_free(r);
	host_node_free(&r->sw);
	SIM_CHECK(&r->sim, !toy_repeats(), "%llu pairs of key and counter came twice",
		  (unsigned long long)toy_repeats());
	totals->sealed += toy_sealed();
	totals->refused += r->sw.refused;
	toy_reset(0);
	stranger_free(r);
	sim_free(&r->sim);
	plan_free(&r->plan);
	free(r->worker);
	free(r);
}
