/* SPDX-License-Identifier: Apache-2.0 */
/* stragglers.c - ranks whose links are slow in turns: does each go at its own pace?
 *
 *     workers, at times at a quarter of the rate --- [switch ---] aggregator
 *
 * Every interval, each rank is slow with a chance of one in five.  In step with the slowest,
 * 8 ranks get 0.376 of the healthy rate; each on its own 0.85.  Sums are exact, which the
 * hosts check; times are virtual, so a seed always gives the same.
 *
 *     stragglers [SEED [WORD]]    the scenes whose names have WORD in them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define RANKS	     8
#define PAYLOAD	     256
#define PACKET_BYTES (PAYLOAD + FAN_HEAD_BYTES + 66)
#define FRAG_NS	     UINT64_C(1000) /* that a fragment takes on a healthy link */
#define BPS	     (PACKET_BYTES * 8 * UINT64_C(1000000000) / FRAG_NS)
/* PROGRESS is a fourteenth of a packet of the usual size, here more than a fourth of one. */
#define DOWN_BPS    (BPS * 51 / 50)
#define WINDOW	    64
#define INTERVAL_NS (800 * FRAG_NS)
#ifndef INTERVALS
#define INTERVALS 20 /* that one operation takes on healthy links */
#endif
#define FRAGS	 (INTERVALS * INTERVAL_NS / FRAG_NS)
#define LIMIT_NS (60000 * FAN_MS)
#define HEALTHY	 1000000 /* no chance to be slow */

struct scene {
	const char *name;
	uint16_t ahead; /* window; 0: the usual one */
	enum fan_policy policy;
	uint32_t slots; /* of a switch; 0: there is none */
	uint32_t cache; /* of each rank */
	uint64_t aggregator_bps;
	uint32_t slow; /* chance, in millionths */
	double most; /* of the time that the ranks need at their pace, or at that of the slowest */
};

struct bed {
	struct sim sim;
	struct host_node aggregator;
	struct host_node shared;
	struct host_job job;
	struct host_worker worker[RANKS];
	uint32_t slow;
	int driver;
	uint64_t next_ns;
	uint64_t sent; /* packets, by all */
};

/* Who is slow in interval number `n`? */
static unsigned slow_ranks(uint64_t seed, uint64_t n, uint32_t chance)
{
	struct fan_rng r = {fan_rng_mix(seed * 1000 + n)};
	unsigned set = 0;
	for (unsigned i = 0; i < RANKS; i++)
		set |= (unsigned)rng_chance(&r, chance) << i;
	return set;
}

/* The weather changes. */
static void drive(void *self)
{
	struct bed *b = self;
	unsigned slow = slow_ranks(b->sim.seed, b->next_ns / INTERVAL_NS, b->slow);
	for (unsigned i = 0; i < RANKS; i++)
		b->sim.node[b->worker[i].node].link.up_bps = slow >> i & 1 ? BPS / 4 : BPS;
	b->next_ns += INTERVAL_NS;
}

/* How many intervals the ranks need, each at its own pace or all at the slowest one's. */
static double bound(uint64_t seed, uint32_t chance, bool together)
{
	double left[RANKS], longest = 0;
	for (unsigned i = 0; i < RANKS; i++)
		left[i] = INTERVALS;
	for (uint64_t n = 0; longest == 0; n++) {
		unsigned slow = slow_ranks(seed, n, chance), busy = 0;
		for (unsigned i = 0; i < RANKS; i++) {
			bool at_quarter = together ? slow != 0 : slow >> i & 1;
			left[i] -= at_quarter ? 0.25 : 1;
			busy += left[i] > 0;
		}
		longest = busy ? 0 : (double)(n + 1);
	}
	return longest / INTERVALS;
}

static uint64_t next_change(void *self)
{
	return ((struct bed *)self)->next_ns;
}

static void hear_nothing(void *self, const struct sim_packet *p)
{
	(void)self;
	(void)p;
}

static bool count(void *arg, const struct sim_packet *p, uint64_t *delay_ns)
{
	struct bed *b = arg;
	(void)p;
	(void)delay_ns;
	b->sent++;
	return false;
}

static void make_job(struct bed *b, const struct scene *scene)
{
	struct host_job *j = &b->job;
	snprintf(j->cfg.name, sizeof j->cfg.name, "job");
	j->cfg.ranks = RANKS;
	j->cfg.payload_bytes = PAYLOAD;
	j->cfg.window_max = scene->ahead ? scene->ahead : WINDOW;
	j->cfg.options = scene->ahead ? FAN_JOIN_AHEAD : 0;
	j->cfg.cache_frags = scene->cache;
	j->cfg.alive_ms = 10000;
	j->cfg.join_ms = j->cfg.stall_ms = 30000;
	j->ops = 1;
	j->depth = 1;
	j->exact = true;
	j->op[0].op = (struct fan_op){
		.op = FAN_SUM, .dtype = FAN_INT32, .wire = FAN_INT32, .count = FRAGS * PAYLOAD / 4};
	tensor_expect(&j->op[0], &(struct tensor_job){RANKS, PAYLOAD / 4});
}

static void open_shared(struct bed *b, const struct scene *scene)
{
	const struct fan_switch_config shared = {.policy = scene->policy,
						 .slots = scene->slots,
						 .payload_bytes = PAYLOAD,
						 .children_max = RANKS,
						 .spares = 1};
	const struct sim_link link = {.delay_ns = 5 * SIM_US,
				      .up_bps = scene->aggregator_bps,
				      .down_bps = scene->aggregator_bps ? DOWN_BPS : 0};
	host_switch_init(&b->shared, &b->sim, &link, &shared, SIM_SWITCH);
}

static void open_bed(struct bed *b, const struct scene *scene, uint64_t seed)
{
	const struct fan_aggregator_config aggregator = {.slots = 32768,
							 .payload_bytes = PAYLOAD,
							 .jobs_max = 1,
							 .members_max = RANKS,
							 .window_max = WINDOW,
							 .ahead_max = scene->ahead,
							 .shards = 1,
							 .secret = {{7, 0}}};
	const struct sim_link link = {.delay_ns = 5 * SIM_US, .up_bps = BPS, .down_bps = DOWN_BPS};
	memset(b, 0, sizeof *b);
	b->slow = scene->slow;
	sim_init(&b->sim, seed);
	b->sim.lines = true;
	host_aggregator_init(&b->aggregator, &b->sim, &aggregator);
	make_job(b, scene);
	if (scene->slots)
		open_shared(b, scene);
	for (uint16_t r = 0; r < RANKS; r++) {
		host_worker_init(&b->worker[r], &b->sim, &link, &b->job, r);
		if (scene->slots)
			b->sim.node[b->worker[r].node].up = b->shared.node;
	}
	b->driver = sim_add_node(&b->sim, &link);
	struct sim_node *n = &b->sim.node[b->driver];
	n->self = b;
	n->tick = drive;
	n->deadline = next_change;
	n->recv = hear_nothing;
	b->sim.filter = count;
	b->sim.filter_arg = b;
	sim_wake(&b->sim, b->driver);
	for (unsigned i = 0; i < RANKS; i++)
		sim_wake(&b->sim, b->worker[i].node);
}

static bool all_gone(const struct bed *b)
{
	for (unsigned i = 0; i < RANKS; i++)
		if (!b->worker[i].gone)
			return false;
	return true;
}

static void print_shared(const struct bed *b)
{
	const struct fan_switch_stats *st = &b->shared.sum;
	struct fan_helper_cache_stats sum = {0};
	for (unsigned i = 0; i < RANKS; i++) {
		const struct fan_helper_cache_stats *c = &b->worker[i].cache;
		sum.peak = c->peak > sum.peak ? c->peak : sum.peak;
		sum.done += c->done;
		sum.early += c->early;
		sum.over += c->over;
	}
	printf("    whole %llu yields %llu late %llu lent %llu flushes %llu; caches: done %llu early "
	       "%llu over %llu peak %u\n",
	       (unsigned long long)st->completions, (unsigned long long)st->yields,
	       (unsigned long long)st->late, (unsigned long long)st->lent,
	       (unsigned long long)st->flushes, (unsigned long long)sum.done,
	       (unsigned long long)sum.early, (unsigned long long)sum.over, sum.peak);
}

/* How long the ranks took; the number of packets in `*packets`. */
static double run(const struct scene *scene, uint64_t seed, uint64_t *packets)
{
	static struct bed b;
	open_bed(&b, scene, seed);
	while (!all_gone(&b))
		SIM_CHECK(&b.sim, sim_step(&b.sim, LIMIT_NS), "%s: not over in time", scene->name);
	uint64_t end_ns = 0;
	for (unsigned i = 0; i < RANKS; i++) {
		const struct host_end *end = &b.worker[i].end[0];
		SIM_CHECK(&b.sim, end->err == FAN_OK, "%s: rank %u: %s", scene->name, i,
			  fan_err_name(end->err));
		end_ns = end->at_ns > end_ns ? end->at_ns : end_ns;
		host_worker_free(&b.worker[i]);
	}
	*packets = b.sent;
	if (scene->slots) {
		host_node_free(&b.shared);
		print_shared(&b);
	}
	host_node_free(&b.aggregator);
	sim_free(&b.sim);
	host_job_free(&b.job);
	return (double)end_ns / (double)(FRAGS * FRAG_NS);
}

static const struct scene scenes[] = {
	{.name = "aggregator, healthy", .most = 1.02},
	{.name = "aggregator, healthy, ahead", .ahead = 16384, .most = 1.02},
	{.name = "aggregator, in turns", .slow = 200000, .most = 1.05},
	{.name = "aggregator, in turns, ahead", .slow = 200000, .ahead = 16384, .most = 1.05},
	{.name = "atp, healthy",
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .most = 1.02},
	{.name = "atp, healthy, ahead",
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .cache = 4096,
	 .most = 1.02},
	{.name = "atp, in turns",
	 .slow = 200000,
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .most = 1.05},
	{.name = "atp, in turns, ahead, slots",
	 .slow = 200000,
	 .slots = 65536,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .most = 1.05},
	{.name = "atp, in turns, ahead, server",
	 .slow = 200000,
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .most = 1.5},
	{.name = "atp, in turns, ahead, fat server",
	 .slow = 200000,
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 0,
	 .ahead = 16384,
	 .most = 1.3},
	{.name = "atp, in turns, ahead, cache",
	 .slow = 200000,
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .cache = 4096,
	 .most = 1.5},
	{.name = "atp, in turns, ahead, small cache",
	 .slow = 200000,
	 .slots = 256,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .cache = 100,
	 .most = 1.5},
	{.name = "atp, in turns, ahead, 4096 slots",
	 .slow = 200000,
	 .slots = 4096,
	 .policy = FAN_POLICY_ATP,
	 .aggregator_bps = 2 * BPS,
	 .ahead = 16384,
	 .cache = 4096,
	 .most = 1.1},
};

int main(int argc, char **argv)
{
	uint64_t seed = argc >= 2 ? strtoull(argv[1], NULL, 0) : 1;
	const char *word = argc >= 3 ? argv[2] : "";
	double plain = 0;
	unsigned failed = 0;
	for (unsigned i = 0; i < sizeof scenes / sizeof *scenes; i++) {
		const struct scene *s = &scenes[i];
		if (!strstr(s->name, word))
			continue;
		uint64_t packets;
		double took = run(s, seed, &packets);
		plain = s->ahead ? plain : took;
		bool good = took <= s->most * bound(seed, s->slow, !s->ahead);
		printf("%-28s %.3f of the healthy time (%.3f), %.3f of plain, %.2f packets a fragment%s\n",
		       s->name, took, bound(seed, s->slow, !s->ahead), plain > 0 ? took / plain : 0,
		       (double)packets / (double)FRAGS, good ? "" : ": too long");
		failed += !good;
	}
	return failed != 0;
}
