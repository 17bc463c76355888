/* SPDX-License-Identifier: Apache-2.0 */
/* contest.c - jobs that fight for the slots of a switch: directed cases.
 *
 *     workers of jobs 0, 1, 2 --- switch (few slots) --- aggregator
 *
 * Every case computes exact sums, which the hosts check, and ends.
 *
 *     contest [SEEDS [WORD]]    the cases whose names have WORD in them, SEEDS times (3) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/switch/switch_priv.h"
#include "host.h"

#define JOBS_MAX      3
#define RANKS	      4
#define PAYLOAD	      64
#define ELEMENTS      3200 /* 200 fragments */
#define LIMIT_NS      (60000 * FAN_MS)
#define SQUATTER      2	 /* the job that holds its slot and goes on no more */
#define HANGING_SEEDS 63 /* more that are tried, until one hangs that may */

struct scene {
	const char *name;
	enum fan_policy policy;
	uint32_t slots;
	unsigned jobs;
	bool no_reminders, no_probes, squatter;
	uint32_t loss, twice, late;	     /* millionths */
	const struct fan_slot_policy *other; /* instead of `policy` */
	bool hangs; /* some rank must end with FAN_E_STALLED; else none ends with an error */
};

struct bed {
	const struct scene *scene;
	struct sim sim;
	struct host_node aggregator;
	struct host_node shared;
	struct host_job job[JOBS_MAX];
	struct host_worker worker[JOBS_MAX * RANKS];
	unsigned workers;
};

static enum fan_contest win(struct fan_switch *sw, const struct fan_switch_job *j,
			    struct fan_sslot *slot, const struct fan_contribution *p)
{
	(void)sw;
	(void)j;
	(void)slot;
	(void)p;
	return FAN_CONTEST_WON;
}

static const struct fan_slot_policy always_won = {
	.name = "won",
	.place = fan_plain_place,
	.contest = win,
	.unplaced = fan_plain_unplaced,
};

/* Questions for results do not arrive, where the scene says so. */
static bool loses(void *arg, const struct sim_packet *p, uint64_t *delay_ns)
{
	const struct bed *b = arg;
	(void)delay_ns;
	if (p->bytes[1] != FAN_TYPE_PROBE)
		return false;
	return b->scene->no_probes || (b->scene->squatter && p->from > 2 + SQUATTER * RANKS);
}

static void make_job(struct bed *b, unsigned number)
{
	struct host_job *j = &b->job[number];
	snprintf(j->cfg.name, sizeof j->cfg.name, "job-%u", number);
	j->cfg.ranks = RANKS;
	j->cfg.payload_bytes = PAYLOAD;
	j->cfg.window_max = 16;
	j->cfg.alive_ms = 10000;
	j->cfg.join_ms = j->cfg.stall_ms = 30000;
	j->ops = 2;
	j->depth = 1;
	j->exact = true;
	j->priorities = 256;
	j->start_ns = number == SQUATTER ? 0 : b->scene->squatter ? 10 * FAN_MS : 0;
	for (unsigned i = 0; i < j->ops; i++) {
		j->op[i].seed = number * 10 + i;
		j->op[i].op = (struct fan_op){
			.op = FAN_SUM, .dtype = FAN_INT32, .wire = FAN_INT32, .count = ELEMENTS};
		tensor_expect(&j->op[i], &(struct tensor_job){RANKS, PAYLOAD / 4});
	}
}

static void open_bed(struct bed *b, const struct scene *scene, uint64_t seed)
{
	const struct fan_aggregator_config aggregator = {.slots = 256,
							 .payload_bytes = PAYLOAD,
							 .jobs_max = JOBS_MAX,
							 .members_max = JOBS_MAX * RANKS,
							 .window_max = 16,
							 .shards = 1,
							 .secret = {{7, 0}},
							 .no_reminders = scene->no_reminders};
	const struct fan_switch_config shared = {.policy = scene->policy,
						 .slots = scene->slots,
						 .payload_bytes = PAYLOAD,
						 .children_max = JOBS_MAX * RANKS,
						 .spares = 1};
	const struct sim_link near = {.delay_ns = 5 * SIM_US};
	const struct sim_link link = {.delay_ns = 5 * SIM_US,
				      .jitter_ns = 5 * SIM_US,
				      .loss = scene->loss,
				      .twice = scene->twice,
				      .late = scene->late};
	memset(b, 0, sizeof *b);
	b->scene = scene;
	sim_init(&b->sim, seed);
	host_aggregator_init(&b->aggregator, &b->sim, &aggregator);
	host_switch_init(&b->shared, &b->sim, &near, &shared, SIM_SWITCH);
	if (scene->other)
		b->shared.slots->policy = scene->other;
	b->sim.filter = loses;
	b->sim.filter_arg = b;
	for (unsigned n = 0; n < scene->jobs; n++) {
		make_job(b, n);
		for (uint16_t r = 0; r < RANKS; r++) {
			struct host_worker *w = &b->worker[b->workers++];
			host_worker_init(w, &b->sim, &link, &b->job[n], r);
			b->sim.node[w->node].up = b->shared.node;
			if (scene->squatter && n == SQUATTER && r > 0)
				w->stop_before = 0;
		}
	}
	for (unsigned i = 0; i < b->workers; i++)
		sim_wake(&b->sim, b->worker[i].node);
}

static bool all_gone(const struct bed *b, unsigned of)
{
	for (unsigned i = 0; i < of; i++)
		if (!b->worker[i].gone)
			return false;
	return true;
}

/* The squatter's ranks are not waited for: they hang, which is what they are for. */
static unsigned counted(const struct bed *b)
{
	return b->scene->squatter ? SQUATTER * RANKS : b->workers;
}

static bool judge(const struct bed *b)
{
	unsigned stalled = 0, other = 0;
	for (unsigned i = 0; i < counted(b); i++) {
		int err = b->worker[i].end[0].err;
		stalled += err == FAN_E_STALLED;
		other += err != FAN_OK && err != FAN_E_STALLED;
	}
	const struct fan_switch_stats *st = &b->shared.sum;
	printf("%s: over after %.3f s; %u ranks stalled; taken %llu hits %llu collisions %llu "
	       "preemptions %llu evictions %llu flushes %llu\n",
	       b->scene->name, (double)b->sim.now_ns / 1e9, stalled, (unsigned long long)st->taken,
	       (unsigned long long)st->hits, (unsigned long long)st->collisions,
	       (unsigned long long)st->preemptions, (unsigned long long)st->evictions,
	       (unsigned long long)st->flushes);
	bool crowded = !b->scene->squatter || (st->taken == 1 && st->hits == 0);
	bool contested = !b->scene->other || st->evictions > 0;
	return !other && crowded && contested && (stalled > 0) == b->scene->hangs;
}

static bool run(const struct scene *scene, uint64_t seed)
{
	static struct bed b;
	open_bed(&b, scene, seed);
	while (!all_gone(&b, counted(&b)))
		SIM_CHECK(&b.sim, sim_step(&b.sim, LIMIT_NS), "%s: not over in time", scene->name);
	for (unsigned i = 0; i < b.workers; i++)
		host_worker_free(&b.worker[i]);
	host_node_free(&b.shared);
	bool good = judge(&b);
	host_node_free(&b.aggregator);
	sim_free(&b.sim);
	for (unsigned n = 0; n < scene->jobs; n++)
		host_job_free(&b.job[n]);
	return good;
}

/* Whether a scene hangs that may depends on when packets meet: one of some seeds has to. */
static bool holds(const struct scene *scene, uint64_t seed)
{
	uint64_t last = scene->hangs ? seed + HANGING_SEEDS : seed;
	for (uint64_t s = seed; s <= last; s++)
		if (run(scene, s))
			return true;
	fprintf(stderr, "%s, seeds %llu to %llu: not as it must be\n", scene->name,
		(unsigned long long)seed, (unsigned long long)last);
	return false;
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		{"atp, alone", FAN_POLICY_ATP, 1024, 1, .hangs = false},
		{"atp, three jobs, one slot", FAN_POLICY_ATP, 1, 3, .hangs = false},
		{"esa, three jobs, one slot", FAN_POLICY_ESA, 1, 3, .hangs = false},
		{"every packet collides", FAN_POLICY_ATP, 1, 3, .squatter = true,
		 .no_reminders = true},
		{"every packet preempts", FAN_POLICY_ESA, 1, 2, .other = &always_won},
		{"every packet preempts, with faults", FAN_POLICY_ESA, 1, 2, .other = &always_won,
		 .loss = 50000, .twice = 20000, .late = 50000},
		/* Parts of a fragment pass the slot by, and later ones wait in it for them. */
		{"no reminders, no probes", FAN_POLICY_ESA, 1, 2, .no_probes = true,
		 .no_reminders = true, .hangs = true},
		{"reminders, no probes", FAN_POLICY_ESA, 1, 2, .no_probes = true},
		{"probes, no reminders", FAN_POLICY_ESA, 1, 2, .no_reminders = true},
	};
	unsigned failed = 0;
	uint64_t seeds = argc >= 2 ? strtoull(argv[1], NULL, 0) : 3;
	const char *word = argc >= 3 ? argv[2] : "";
	for (uint64_t seed = 1; seed <= seeds; seed++)
		for (unsigned i = 0; i < sizeof scenes / sizeof *scenes; i++)
			if (strstr(scenes[i].name, word))
				failed += !holds(&scenes[i], seed);
	return failed != 0;
}
