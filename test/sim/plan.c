/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moves.h"

#define CONTRIBUTIONS 16000	  /* of all ranks of a job, about */
#define LARGE	      262144	  /* elements: 1 MiB of float32 */
#define ELEMENTS      400000	  /* likewise */
#define MEMORY	      (64u << 20) /* bytes of slots that ahead jobs get, about */

const char *story_name(enum story story)
{
	static const char *const name[STORY_COUNT] = {
		"calm",	 "deaf", "cut",	  "restart",  "death", "stall",	 "early",    "mismatch",
		"taken", "full", "rogue", "outsider", "liar",  "asleep", "stranger", "stopped",
	};
	return story < STORY_COUNT ? name[story] : "?";
}

static uint32_t draw_chance(struct fan_rng *r, uint32_t of_it, uint32_t most)
{
	return rng_chance(r, of_it) ? (uint32_t)fan_rng_below(r, most + 1) : 0;
}

static void draw_link(struct plan *p, struct fan_rng *r)
{
	static const uint32_t most_loss[] = {0, 0, 10000, 50000, 200000};
	struct sim_link *l = &p->link;
	l->delay_ns = rng_range(r, 1, 200) * SIM_US;
	l->jitter_ns = fan_rng_below(r, 3) ? fan_rng_below(r, l->delay_ns) : 0;
	l->loss = (uint32_t)fan_rng_below(r, most_loss[fan_rng_below(r, 5)] + 1);
	l->burst = draw_chance(r, 300000, 300000);
	l->twice = draw_chance(r, 400000, 50000);
	l->late = draw_chance(r, 400000, 100000);
	l->stale = draw_chance(r, 500000, 5000);
	l->stale_ns = rng_range(r, 1, 5000) * FAN_MS;
	l->damage = draw_chance(r, 400000, 20000);
}

/* Links of stories in which silence must mean something. */
static void calm_link(struct plan *p)
{
	struct sim_link *l = &p->link;
	l->loss = l->loss > 20000 ? 20000 : l->loss;
	l->burst = 0;
	l->damage /= 4;
}

static unsigned draw_ranks(struct fan_rng *r)
{
	switch (fan_rng_below(r, 40)) {
	case 0: return 256;
	case 1: return 64;
	default: return (unsigned)rng_range(r, 2, 16);
	}
}

static uint16_t draw_payload(struct fan_rng *r)
{
	static const uint16_t usual[] = {64, 64, 128, 1408, 8832};
	uint64_t i = fan_rng_below(r, 8);
	return i < 5 ? usual[i] : (uint16_t)(8 * rng_range(r, 8, 1104));
}

static void draw_config(struct plan *p, struct host_job *j, struct fan_rng *r, unsigned number)
{
	struct fan_worker_config *c = &j->cfg;
	memset(j, 0, sizeof *j);
	snprintf(c->name, sizeof c->name, "job-%u", number);
	c->ranks = (uint16_t)draw_ranks(r);
	c->payload_bytes = draw_payload(r);
	c->window_max =
		(uint16_t)(fan_rng_below(r, 4) ? rng_range(r, 2, 64) : rng_range(r, 64, 1024));
	c->options = (uint8_t)fan_rng_below(r, 8);
	if (c->window_max % 3 == 0)
		c->options |= FAN_JOIN_QUAD;
	c->alive_ms = 10000;
	c->join_ms = 30000;
	c->stall_ms = 30000;
	if (p->story >= STORY_DEATH)
		c->alive_ms = (uint32_t)rng_range(r, 400, 2000);
	if (p->story == STORY_STALL)
		c->stall_ms = (uint32_t)rng_range(r, 1, 3) * c->alive_ms;
	j->runs = number % 2 == 0;
	j->exact = p->story != STORY_ROGUE || number > 0;
	j->spread_ns = fan_rng_below(r, 20 * FAN_MS);
	j->start_ns = fan_rng_below(r, 5 * FAN_MS);
	j->depth = (unsigned)rng_range(r, 1, 5);
	if (fan_rng_below(r, 2) == 0) {
		j->pause = (uint32_t)fan_rng_below(r, 300000);
		j->pause_ms = (uint32_t)rng_range(r, 1, 150);
	}
}

/* One operation on a tensor beyond the cache, which the worker handles with other copies. */
static void draw_large_op(struct host_job *j, struct fan_rng *r)
{
	struct tensor_job about = {j->cfg.ranks, j->cfg.payload_bytes / 4u};
	j->ops = 1;
	do
		tensor_draw(&j->op[0], r, about.ranks, 0);
	while (j->op[0].op.op == FAN_BARRIER || fan_dtype_bytes(j->op[0].op.dtype) < 4);
	j->op[0].op.count = rng_range(r, LARGE, LARGE + 2000);
	tensor_expect(&j->op[0], &about);
}

static void draw_ops(const struct plan *p, struct host_job *j, struct fan_rng *r)
{
	unsigned ranks = j->cfg.ranks, per_frag = j->cfg.payload_bytes / 4u;
	if (p->story == STORY_CALM && ranks <= 4 && per_frag > 350) {
		draw_large_op(j, r);
		return;
	}
	uint64_t frags = CONTRIBUTIONS / ranks;
	if (frags > ELEMENTS / ranks / per_frag)
		frags = ELEMENTS / ranks / per_frag;
	j->ops = (unsigned)rng_range(r, 1, 8);
	if (fan_rng_below(r, 12) == 0) {
		j->ops = HOST_OPS_MAX;
		j->depth = FAN_OPS_MAX;
	}
	if (p->story == STORY_ROGUE || p->story == STORY_OUTSIDER || p->story == STORY_STRANGER)
		j->ops = 8;
	struct tensor_job about = {ranks, per_frag};
	for (unsigned i = 0; i < j->ops; i++) {
		uint64_t most = (frags / j->ops + 1) * per_frag;
		tensor_draw(&j->op[i], r, ranks, most + fan_rng_below(r, per_frag));
		tensor_expect(&j->op[i], &about);
	}
}

/* Of the widest slots of a job, at least WIDE's. */
static unsigned width_of(const struct plan *p)
{
	unsigned width = 2;
	for (unsigned i = 0; i < p->jobs; i++)
		if (p->job[i][0].cfg.options & FAN_JOIN_QUAD)
			width = 4;
	return width;
}

/* Room for all jobs of the plan and for one more, in slots, ranks and table. */
static void draw_switch(struct plan *p, struct fan_rng *r)
{
	static const uint8_t family[] = {0, 0, 4, 6};
	uint32_t ranks = 0;
	uint16_t payload = FAN_PAYLOAD_MIN;
	for (unsigned i = 0; i < p->jobs; i++) {
		const struct fan_worker_config *c = &p->job[i][0].cfg;
		ranks += c->ranks;
		payload = c->payload_bytes > payload ? c->payload_bytes : payload;
	}
	uint16_t quota =
		(uint16_t)(fan_rng_below(r, 3) ? rng_range(r, 2, 32) : rng_range(r, 32, 1024));
	p->sw = (struct fan_aggregator_config){
		.slots = quota * width_of(p) * (p->jobs * 2 + 1),
		.payload_bytes = payload,
		.jobs_max = (uint16_t)(p->jobs * 3 + 1),
		.members_max = (uint16_t)(ranks * 2 + 256),
		.window_max = quota,
		.rx_bytes = fan_rng_below(r, 2) ? (uint32_t)rng_range(r, 1 << 18, 1 << 23) : 0,
		.shards = 1,
		.secret = {{fan_rng_next(r), 0}},
		.group_family = family[fan_rng_below(r, 4)],
		.group_port = 5001,
		.group_base = {239, 1, 0, 250},
	};
	if (p->story == STORY_DEAF)
		p->sw.group_family = 4;
	if (p->sw.group_family == 6)
		memcpy(p->sw.group_base, "\xff\x15\0\0\0\0\0\0\0\0\0\0\0\1\2\xff", 16);
}

/* Another operation where the ranks would agree on o. */
static void draw_mismatch(struct plan *p, struct fan_rng *r)
{
	struct host_job *j = &p->job[0][0];
	p->other_at = (unsigned)fan_rng_below(r, j->ops);
	struct fan_op *op = &j->op[p->other_at].op;
	op->op = FAN_SUM; /* one with something to disagree about */
	op->mode = FAN_NATIVE;
	op->dtype = op->wire = FAN_INT32;
	op->count = rng_range(r, 1, 3000);
	j->op[p->other_at].style = TENSOR_PLAIN;
	free(j->op[p->other_at].near);
	j->op[p->other_at].near = NULL;
	struct fan_op *other = &p->other.op;
	p->other = j->op[p->other_at];
	p->other.expect = NULL;
	switch (fan_rng_below(r, 5)) {
	case 0: other->count += rng_range(r, 1, 2000); break;
	case 1: other->count = fan_rng_below(r, other->count); break;
	case 2: other->dtype = other->wire = FAN_INT64; break;
	case 3: other->op = FAN_MAX; break;
	default: other->reduce = !other->reduce; break;
	}
	free(j->op[p->other_at].expect);
	tensor_expect(&j->op[p->other_at], &(struct tensor_job){j->cfg.ranks, 1});
}

static void draw_extra(struct plan *p)
{
	p->extra.cfg = p->job[0][0].cfg;
	p->extra.cfg.join_ms = 2000;
	p->extra.start_ns = SIM_NEVER / 2;
	p->extra.ops = p->extra.depth = 1;
	p->extra.op[0].op.op = FAN_BARRIER;
	if (p->story != STORY_FULL)
		return;
	snprintf(p->extra.cfg.name, sizeof p->extra.cfg.name, "one-too-many");
	uint32_t ranks = 0;
	for (unsigned i = 0; i < p->jobs; i++)
		ranks += p->job[i][0].cfg.ranks;
	if (p->victim % 2)
		p->sw.jobs_max = (uint16_t)p->jobs;
	else
		p->sw.members_max = (uint16_t)ranks;
	p->link.stale = 0; /* no late JOIN takes the last place */
}

/* How long it may take: what the ranks pause, and what faults cost.  A lost packet mostly
 * costs milliseconds, but many are lost at a time where a tenth is, and stories end by
 * timers of their own. */
static uint64_t draw_limit(const struct plan *p)
{
	bool mild = p->link.loss <= 50000 && p->story <= STORY_RESTART;
	uint64_t most_ms = 0;
	for (unsigned i = 0; i < p->jobs; i++) {
		const struct host_job *j = &p->job[i][0];
		uint64_t pauses_ms = j->pause ? (uint64_t)j->ops * j->pause_ms : 0;
		uint64_t timers_ms = 2 * j->cfg.alive_ms + 2 * j->cfg.stall_ms;
		uint64_t ms = p->lives * (pauses_ms + (mild ? 10000 : timers_ms));
		most_ms = ms > most_ms ? ms : most_ms;
	}
	return (most_ms + (mild ? 1000 : 200000)) * FAN_MS;
}

static struct fan_switch_config draw_one_shared(const struct plan *p, struct fan_rng *r,
						enum plan_policy policy)
{
	static const uint32_t slots[] = {1, 2, 5, 32, 1024};
	static const uint8_t options[] = {
		0, 0, 0, FAN_SWITCH_NO_PREEMPTION, FAN_SWITCH_NO_AGEING, FAN_SWITCH_NO_PRIORITIES};
	return (struct fan_switch_config){
		.policy = policy == PLAN_ESA ? FAN_POLICY_ESA : FAN_POLICY_ATP,
		.slots = slots[fan_rng_below(r, 5)],
		.quota = fan_rng_below(r, 3) ? 0 : (uint32_t)rng_range(r, 1, 16),
		.payload_bytes = p->sw.payload_bytes,
		.children_max = FAN_MEMBERS_MAX,
		.spares = 1,
		.options = (uint8_t)(options[fan_rng_below(r, 6)] |
				     (fan_rng_below(r, 2) ? FAN_SWITCH_FREE_EARLY : 0)),
	};
}

/* Shared switches in front of the aggregator.  Their slots are few, so that most packets meet
 * those of others. */
static void draw_shared(struct plan *p, enum plan_policy policy)
{
	struct fan_rng r = {fan_rng_mix(p->seed + 0x5eed)};
	if (policy == PLAN_MIX)
		policy = (enum plan_policy)fan_rng_below(&r, PLAN_MIX);
	if (policy == PLAN_SWITCHML)
		return;
	p->shareds = (unsigned)rng_range(&r, 1, PLAN_SHARED_MAX);
	p->beside = fan_rng_below(&r, 2);
	p->mark = draw_chance(&r, 300000, 200000);
	if (p->story <= STORY_RESTART && fan_rng_below(&r, 3) == 0)
		p->shared_restart = rng_range(&r, 500, 20000);
	for (unsigned i = 0; i < p->shareds; i++)
		p->shared[i] = draw_one_shared(p, &r, policy);
	p->sw.no_reminders = fan_rng_below(&r, 4) == 0;
	for (unsigned i = 0; i < p->jobs; i++)
		for (unsigned k = 0; k < p->lives; k++)
			p->job[i][k].priorities = fan_rng_below(&r, 3) ? 256 : 0;
}

/* Aggregators below another one, most of them with slots in front. */
static void draw_tree(struct plan *p)
{
	struct fan_rng r = {fan_rng_mix(p->seed + 0x73ee)};
	p->leaves = (unsigned)rng_range(&r, 2, PLAN_LEAVES_MAX);
	for (unsigned i = 0; i < p->jobs; i++)
		while (p->leaves * 2 > p->job[i][0].cfg.ranks)
			p->leaves--;
	p->mark = draw_chance(&r, 300000, 200000);
	if (fan_rng_below(&r, 3) == 0)
		p->shared_restart = rng_range(&r, 500, 20000);
	for (unsigned i = 0; i <= p->leaves; i++) {
		p->fronts[i] = fan_rng_below(&r, 3) > 0;
		bool esa = fan_rng_below(&r, 2);
		if (p->fronts[i])
			p->shared[p->shareds++] = draw_one_shared(p, &r, esa ? PLAN_ESA : PLAN_ATP);
	}
	p->sw.no_reminders = fan_rng_below(&r, 4) == 0;
	for (unsigned i = 0; i < p->jobs; i++)
		for (unsigned k = 0; k < p->lives; k++)
			p->job[i][k].priorities = fan_rng_below(&r, 3) ? 256 : 0;
}

/* Ranks that run ahead of each other, since some of them have slow links. */
static void draw_ahead(struct plan *p)
{
	static const uint16_t least[] = {2, 16, 64, 256}, caches[] = {1, 4, 64, 1024};
	struct fan_rng r = {fan_rng_mix(p->seed + 0xa4ead)};
	p->ahead = true;
	/* a packet takes up to 100 us, on slow links up to 1.6 ms */
	uint64_t bits = (p->sw.payload_bytes + 98u) * UINT64_C(8);
	p->bps = fan_rng_below(&r, 4) ? bits * 1000000 / rng_range(&r, 1, 100) : 0;
	uint32_t most = MEMORY / (4u * p->jobs * 2u * p->sw.payload_bytes);
	most = most > 1024 ? 1024 : most;
	p->sw.ahead_max = (uint16_t)rng_range(&r, 2, most);
	uint32_t slots = p->sw.ahead_max * width_of(p) * (p->jobs * 2 + 1);
	p->sw.slots = slots > p->sw.slots ? slots : p->sw.slots;
	for (unsigned i = 0; i < p->jobs; i++) {
		const struct fan_worker_config *c = &p->job[i][0].cfg;
		uint16_t window = (uint16_t)(least[fan_rng_below(&r, 4)] * rng_range(&r, 1, 4));
		uint32_t cache = (uint32_t)fan_rng_below(&r, caches[fan_rng_below(&r, 4)]);
		(void)fan_rng_below(&r, 3); /* the seeds that are kept drew something here */
		uint32_t room = MEMORY / 4u / (c->ranks * c->payload_bytes);
		for (unsigned k = 0; k < p->lives; k++) {
			p->job[i][k].cfg.options |= FAN_JOIN_AHEAD;
			p->job[i][k].cfg.window_max = window;
			p->job[i][k].cfg.cache_frags = cache < room ? cache : room;
		}
	}
	static const uint32_t forgets[] = {0, 0, 0, 20000, 300000, 1000000};
	p->forgets = forgets[fan_rng_below(&r, 6)];
	p->extra.cfg.options = p->job[0][0].cfg.options;
	p->extra.cfg.window_max = p->job[0][0].cfg.window_max;
	p->extra.cfg.cache_frags = p->job[0][0].cfg.cache_frags;
}

/* Shared switches that are all linked, and ways through them: any, or racks and a switch above. */
static void draw_routed(struct plan *p, bool levels)
{
	struct fan_rng r = {fan_rng_mix(p->seed + 0x70073)};
	p->routed = true;
	p->shareds = (unsigned)rng_range(&r, levels ? 3 : 1, ROUTES_SWITCHES_MAX);
	p->mark = draw_chance(&r, 300000, 200000);
	if (p->story <= STORY_RESTART && fan_rng_below(&r, 3) == 0)
		p->shared_restart = rng_range(&r, 500, 20000);
	for (unsigned i = 0; i < p->shareds; i++) {
		bool esa = fan_rng_below(&r, 2) == 0 || levels;
		p->shared[i] = draw_one_shared(p, &r, esa ? PLAN_ESA : PLAN_ATP);
		p->shared[i].routes = (uint16_t)rng_range(&r, p->jobs, 8);
	}
	p->sw.no_reminders = fan_rng_below(&r, 4) == 0;
	for (unsigned i = 0; i < p->jobs; i++) {
		uint16_t number = (uint16_t)((i << 14) + rng_range(&r, 1, 16383));
		if (levels)
			routes_levels(&p->routes[i], number, p->job[i][0].cfg.ranks, p->shareds);
		else
			routes_draw(&p->routes[i], &r, number, p->job[i][0].cfg.ranks, p->shareds);
		for (unsigned k = 0; k < p->lives; k++) {
			p->job[i][k].cfg.route = number;
			p->job[i][k].priorities = levels && fan_rng_below(&r, 3) ? 256 : 0;
		}
	}
	p->extra.cfg.route = p->job[0][0].cfg.route;
}

/* What stands between workers and aggregator. */
static void draw_between(struct plan *p, enum plan_policy policy)
{
	if (policy == PLAN_TREE)
		draw_tree(p);
	else if (policy == PLAN_ROUTED || policy == PLAN_MOVED || policy == PLAN_LEVELS)
		draw_routed(p, policy == PLAN_LEVELS);
	else
		draw_shared(p, policy);
}

void plan_draw(struct plan *p, uint64_t seed, enum story story, enum plan_policy policy,
	       bool stragglers)
{
	static const enum plan_policy places[] = {PLAN_ATP, PLAN_ROUTED, PLAN_MOVED, PLAN_TREE};
	struct fan_rng r = {fan_rng_mix(seed)};
	bool grid = policy == PLAN_GRID;
	memset(p, 0, sizeof *p);
	p->seed = seed;
	if (grid)
		policy = places[seed % 4];
	p->story = fan_rng_below(&r, 2) ? STORY_CALM : (enum story)fan_rng_below(&r, STORY_DRAWN);
	if (story < STORY_COUNT)
		p->story = story;
	if (policy == PLAN_TREE && p->story > STORY_RESTART && p->story < STORY_ASLEEP &&
	    story != STORY_DEATH)
		p->story = STORY_CALM; /* errors name ranks of one level only */
	draw_link(p, &r);
	if (p->story >= STORY_DEATH)
		calm_link(p);
	p->jobs = (unsigned)rng_range(&r, 1, PLAN_JOBS_MAX);
	bool may_come_again = p->story <= STORY_RESTART || p->story == STORY_STRANGER;
	bool again = may_come_again && fan_rng_below(&r, 2);
	p->lives = again || p->story == STORY_RESTART ? 2 : 1;
	if (p->lives > 1 && fan_rng_below(&r, 2)) {
		p->link.ghost = (uint32_t)rng_range(&r, 1, 300000);
		p->link.ghost_ns = rng_range(&r, 1, 400) * FAN_MS;
	}
	for (unsigned i = 0; i < p->jobs; i++) {
		draw_config(p, &p->job[i][0], &r, i);
		if (policy == PLAN_TREE && p->job[i][0].cfg.ranks < 4)
			p->job[i][0].cfg.ranks = 4;
		draw_ops(p, &p->job[i][0], &r);
		if (p->lives == 1)
			continue;
		p->job[i][1] = p->job[i][0];
		draw_ops(p, &p->job[i][1], &r);
		p->job[i][0].next = &p->job[i][1];
	}
	p->victim = (uint16_t)fan_rng_below(&r, p->job[0][0].cfg.ranks);
	draw_switch(p, &r);
	if (p->story == STORY_MISMATCH)
		draw_mismatch(p, &r);
	draw_extra(p);
	draw_between(p, policy);
	for (unsigned i = 0; i < p->shareds && grid; i++)
		p->shared[i].policy = FAN_POLICY_GRID;
	/* who repeats what ranks have said may claim one where it is not known any more */
	p->moves = policy == PLAN_MOVED && (p->story < STORY_TAKEN || p->story == STORY_STRANGER);
	for (unsigned i = 0; i < p->shareds && p->moves; i++)
		p->shared[i].routes = MOVES_ROUTES_MAX;
	if (stragglers)
		draw_ahead(p);
	p->limit_ns = draw_limit(p) * (p->shareds ? 1 + p->shareds : 1) * (1 + p->leaves) *
		      (stragglers ? 3 : 1);
}

void plan_set_loss(struct plan *p, uint32_t loss)
{
	p->link.loss = loss;
	p->same_loss = true;
	if (p->story >= STORY_DEATH)
		calm_link(p);
}

void plan_free(struct plan *p)
{
	for (unsigned i = 0; i < p->jobs; i++)
		for (unsigned k = 0; k < p->lives; k++)
			host_job_free(&p->job[i][k]);
}

static void print_walk(const struct routes *r, unsigned rank)
{
	const struct routes_walk *w = &r->walk[rank];
	printf("    route %u, rank %u:", r->number, rank);
	for (unsigned i = 0; i + 1 < w->steps; i++)
		printf(" %u%s", w->at[i], w->sums[i] ? "+" : "");
	printf("\n");
}

void plan_print(const struct plan *p)
{
	const struct sim_link *l = &p->link;
	printf("seed %llu: %s, %u lives, slots %u quota %u group %u rx %u; link %llu us +%llu, "
	       "per million: loss %u burst %u twice %u late %u stale %u damage %u\n",
	       (unsigned long long)p->seed, story_name(p->story), p->lives, p->sw.slots,
	       p->sw.window_max, p->sw.group_family, p->sw.rx_bytes,
	       (unsigned long long)(l->delay_ns / SIM_US),
	       (unsigned long long)(l->jitter_ns / SIM_US), l->loss, l->burst, l->twice, l->late,
	       l->stale, l->damage);
	if (p->ahead)
		printf("  ahead: at most %u, links %llu b/s, forgets %u\n", p->sw.ahead_max,
		       (unsigned long long)p->bps, p->forgets);
	for (unsigned i = 0; i < p->shareds; i++)
		printf("  shared %u%s: policy %d, slots %u, quota %u, options %u, restart %llu, mark "
		       "%u, reminders %d\n",
		       i,
		       p->routed   ? " routed"
		       : p->beside ? " beside"
				   : "",
		       p->shared[i].policy, p->shared[i].slots, p->shared[i].quota,
		       p->shared[i].options, (unsigned long long)p->shared_restart, p->mark,
		       !p->sw.no_reminders);
	for (unsigned i = 0; i < p->jobs && p->routed; i++)
		for (unsigned rank = 0; rank < p->routes[i].ranks && rank < 8; rank++)
			print_walk(&p->routes[i], rank);
	for (unsigned i = 0; i < p->jobs; i++) {
		const struct host_job *j = &p->job[i][0];
		printf("  %s: %u ranks, payload %u, window %u, options %u, cache %u, alive %u ms, "
		       "%u operations, %u at a time, pauses %u/%u ms\n",
		       j->cfg.name, j->cfg.ranks, j->cfg.payload_bytes, j->cfg.window_max,
		       j->cfg.options, j->cfg.cache_frags, j->cfg.alive_ms, j->ops, j->depth,
		       j->pause, j->pause_ms);
		for (unsigned k = 0; k < j->ops && k < 8; k++) {
			const struct fan_op *o = &j->op[k].op;
			printf("    op %u: redop %d dtype %d wire %d mode %d reduce %d root %u "
			       "count %llu style %d\n",
			       k, o->op, o->dtype, o->wire, o->mode, o->reduce, o->root,
			       (unsigned long long)o->count, j->op[k].style);
		}
	}
}
