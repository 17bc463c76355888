/* SPDX-License-Identifier: Apache-2.0 */
/* sim_speed - how fast the simulator is, on one core.
 *
 * A star of N workers on one switch, which may share its slots and then has a server beside
 * it, reduces a tensor in virtual time, each packet's header there and handled by the core.
 * Counted is what crossed a link and was handled, divided by the processor time it took.  Elements
 * are there, and their sums checked, in a run of their own, outside the timed ones. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/daemon.h"
#include "sim/trainer.h"

#define RUNS	  5
#define SAMPLE_NS 1000000

struct setting {
	const char *name;
	uint16_t ranks, payload, window;
	uint64_t gbps;
	uint64_t elems;
	uint32_t loss; /* millionths */
	enum fan_policy policy;
	uint32_t slots; /* shared ones */
};

struct figure {
	uint64_t frag_hops, bodies_max, grown_bytes;
	double cpu_s, virtual_s;
	bool ok;
};

/* Resident memory now. */
static uint64_t resident_bytes(void)
{
	unsigned long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%lu %lu", &pages, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct bed {
	struct fan_sim sim;
	struct fan_job_config job;
	struct fan_layer layer;
	uint32_t host[FAN_RANKS_MAX];
	struct fan_sim_daemon sums;  /* the switch, or the server */
	struct fan_sim_daemon slots; /* the switch, if there is a server */
	struct fan_trainer_shared shared;
	struct fan_trainer *trainer;
};

static uint32_t add_host(struct bed *b, uint32_t hub, const struct fan_link_config *link)
{
	uint32_t host = fan_sim_add_node(&b->sim, false, 0, 0);
	fan_sim_add_link(&b->sim, host, hub, link);
	fan_sim_add_link(&b->sim, hub, host, link);
	return host;
}

static bool add_aggregator(struct bed *b, const struct setting *set, uint32_t node)
{
	const struct fan_node_config cfg = {
		.has_aggregator = true,
		.aggregator = {.slots = set->window,
			       .payload_bytes = set->payload,
			       .jobs_max = 1,
			       .members_max = set->ranks,
			       .window_max = set->window,
			       .shards = 1,
			       .secret = {{1, 0}}},
	};
	return fan_sim_daemon_init(&b->sums, &b->sim, node) &&
	       fan_sim_daemon_begin(&b->sums, &cfg, set->slots != 0, SAMPLE_NS);
}

static bool add_slots(struct bed *b, const struct setting *set, uint32_t hub)
{
	const struct fan_node_config cfg = {
		.has_slots = true,
		.slots = {.policy = set->policy,
			  .slots = set->slots,
			  .payload_bytes = set->payload,
			  .children_max = set->ranks},
		.above = fan_sim_peer(b->sums.actor),
	};
	return fan_sim_daemon_init(&b->slots, &b->sim, hub) &&
	       fan_sim_daemon_begin(&b->slots, &cfg, false, SAMPLE_NS);
}

static bool make_star(struct bed *b, const struct setting *set)
{
	const struct fan_link_config link = {
		.bps = set->gbps * 1000000000,
		.delay_ns = 1000,
		.queue_bytes = 1 << 20,
		.overhead_bytes = 66,
		.fault = {.loss = set->loss},
	};
	fan_sim_init(&b->sim, 1, FAN_HEAD_BYTES + set->payload + (set->slots ? FAN_BITMAP_MAX : 0));
	uint32_t hub = fan_sim_add_node(&b->sim, true, 0, 0);
	for (uint16_t r = 0; r < set->ranks; r++)
		b->host[r] = add_host(b, hub, &link);
	uint32_t sums = set->slots ? add_host(b, hub, &link) : hub;
	return fan_sim_index(&b->sim) && add_aggregator(b, set, sums) &&
	       (!set->slots || add_slots(b, set, hub));
}

static bool make_job(struct bed *b, const struct setting *set, bool verify)
{
	b->layer = (struct fan_layer){.name = "all", .numel = set->elems};
	b->job = (struct fan_job_config){
		.name = "speed",
		.model = {.layer = &b->layer, .layers = 1},
		.ranks = set->ranks,
		.host = b->host,
		.aggregator = set->slots ? b->slots.actor : b->sums.actor,
		.urgent = set->policy == FAN_POLICY_ESA,
		.iterations = 1,
		.payload_bytes = set->payload,
		.window = set->window,
		.wire = FAN_FLOAT32,
		.verify = verify,
		.alive_ms = FAN_ALIVE_MS,
		.stall_ms = 60000,
		.seed = 1,
	};
	b->trainer = calloc(set->ranks, sizeof *b->trainer);
	if (!b->trainer || !fan_job_cut(&b->job, 0) ||
	    !fan_trainer_share(&b->shared, &b->job, &b->sim, false))
		return false;
	for (uint16_t r = 0; r < set->ranks; r++)
		if (!fan_trainer_init(&b->trainer[r], &b->shared, r))
			return false;
	return true;
}

static bool is_over(const struct bed *b)
{
	for (uint16_t r = 0; r < b->job.ranks; r++)
		if (!b->trainer[r].left)
			return false;
	return true;
}

static bool ended_well(const struct bed *b, bool verify)
{
	for (uint16_t r = 0; r < b->job.ranks; r++) {
		const struct fan_trainer *t = &b->trainer[r];
		if (t->fault.err || t->wrong || t->times.elems != b->layer.numel)
			return false;
		if (verify && t->times.checked != b->layer.numel)
			return false;
	}
	return true;
}

static struct figure measure(const struct setting *set, bool verify)
{
	uint64_t before = resident_bytes();
	struct bed *b = calloc(1, sizeof *b);
	struct figure f = {.ok = false};
	if (b && make_star(b, set) && make_job(b, set, verify)) {
		double start = cpu_s();
		while (fan_sim_step(&b->sim, FAN_SIM_NEVER) && !is_over(b))
			;
		f = (struct figure){
			.frag_hops = b->sim.frag_hops,
			.cpu_s = cpu_s() - start,
			.virtual_s = (double)b->sim.now_ns * 1e-9,
			.bodies_max = b->sim.pool.used_max,
			.grown_bytes = resident_bytes() - before,
			.ok = ended_well(b, verify),
		};
	}
	if (b) {
		for (uint16_t r = 0; b->trainer && r < b->job.ranks; r++)
			fan_trainer_free(&b->trainer[r]);
		free(b->trainer);
		free(b->job.bucket);
		fan_trainer_unshare(&b->shared);
		fan_sim_daemon_free(&b->sums);
		fan_sim_daemon_free(&b->slots);
		fan_sim_free(&b->sim);
	}
	free(b);
	return f;
}

static int by_rate(const void *a, const void *b)
{
	const struct figure *x = a, *y = b;
	double p = (double)x->frag_hops / x->cpu_s, q = (double)y->frag_hops / y->cpu_s;
	return (p > q) - (p < q);
}

/* The median of some runs; `ok` false if any did not end as it must. */
static struct figure median(const struct setting *set, unsigned runs)
{
	struct figure run[RUNS];
	struct setting small = *set;
	small.elems = set->elems / 16;
	bool ok = measure(&small, true).ok;
	for (unsigned i = 0; i < runs; i++) {
		run[i] = measure(set, false);
		ok &= run[i].ok;
	}
	qsort(run, runs, sizeof *run, by_rate);
	run[runs / 2].ok = ok;
	return run[runs / 2];
}

/* The same in a process of its own, forked before this one has used any memory. */
static struct figure weigh(const struct setting *set)
{
	struct figure f = {.ok = false};
	int pipe_of[2];
	if (pipe(pipe_of))
		return f;
	pid_t child = fork();
	if (child == 0) {
		f = measure(set, false);
		bool sent = write(pipe_of[1], &f, sizeof f) == (ssize_t)sizeof f;
		_exit(sent ? 0 : 1);
	}
	close(pipe_of[1]);
	if (child < 0 || read(pipe_of[0], &f, sizeof f) != (ssize_t)sizeof f)
		f.ok = false;
	close(pipe_of[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return f;
}

static const struct setting settings[] = {
	{"8 workers, 100 Gb/s, 1408 B", 8, 1408, 512, 100, 20000000, 0, 0, 0},
	{"8 workers, 10 Gb/s, 1408 B", 8, 1408, 128, 10, 20000000, 0, 0, 0},
	{"8 workers, 100 Gb/s, 256 B", 8, 256, 512, 100, 4000000, 0, 0, 0},
	{"8 workers, 10 Gb/s, 1408 B, 0.1 % loss", 8, 1408, 128, 10, 20000000, 1000, 0, 0},
	{"8 workers, 10 Gb/s, atp, 4096 slots", 8, 1408, 128, 10, 20000000, 0, FAN_POLICY_ATP,
	 4096},
	{"8 workers, 10 Gb/s, esa, 4096 slots", 8, 1408, 128, 10, 20000000, 0, FAN_POLICY_ESA,
	 4096},
	{"8 workers, 10 Gb/s, esa, 64 slots", 8, 1408, 128, 10, 20000000, 0, FAN_POLICY_ESA, 64},
	{"64 workers, 100 Gb/s, 1408 B", 64, 1408, 512, 100, 2500000, 0, 0, 0},
};
#define SETTINGS (sizeof settings / sizeof *settings)
#define ASKED	 4 /* of them: with 64 workers the fragments in flight fill the cache */

/* A run, and one of ten times the length. */
struct weight {
	struct figure one, ten;
};

/* One line of the table, one object of the file. */
static json_t *row(const struct setting *set, bool asked, unsigned runs, const struct weight *w,
		   bool *ok)
{
	struct figure f = median(set, runs), one = w->one, ten = w->ten;
	double rate = (double)f.frag_hops / f.cpu_s * 1e-6;
	/* each worker keeps a window in flight, here all of the time */
	double bytes = (double)one.grown_bytes / (set->ranks * (double)set->window);
	double growth = ((double)ten.grown_bytes / (double)one.grown_bytes - 1) * 100;
	bool all = f.ok && one.ok && ten.ok;
	*ok &= all;
	printf("%-42s %12llu %10.2f %12.0f %10.1f%s\n", set->name, (unsigned long long)f.frag_hops,
	       rate, bytes, growth, all ? "" : "  WRONG");
	fflush(stdout);
	json_t *o =
		json_pack("{s:s, s:i, s:i, s:i, s:i}", "name", set->name, "workers", set->ranks,
			  "window", set->window, "payload", set->payload, "gbps", (int)set->gbps);
	uint64_t per_frag = set->payload / sizeof(float);
	json_t *figures = json_pack(
		"{s:b, s:f, s:I, s:I, s:f, s:f, s:f, s:b}", "asked", asked, "Mhops_per_s", rate,
		"frag_hops", (json_int_t)f.frag_hops, "fragments",
		(json_int_t)((set->elems + per_frag - 1) / per_frag), "virtual_s", f.virtual_s,
		"bytes_per_frag", bytes, "growth_percent", growth, "exact", all);
	json_object_update(o, figures);
	json_decref(figures);
	return o;
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	unsigned runs = RUNS, shorter = 1;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--once"))
			runs = 1;
		else if (!strcmp(argv[i], "--short"))
			runs = 1, shorter = 50; /* do the sums hold?  The figures mean nothing */
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			json = argv[++i];
		else
			return 2;
	}
	struct setting set[SETTINGS];
	struct weight weight[SETTINGS];
	for (unsigned i = 0; i < SETTINGS; i++) {
		set[i] = settings[i];
		set[i].elems /= shorter;
		struct setting longer = set[i];
		longer.elems *= 10;
		weight[i].one = weigh(&set[i]);
		weight[i].ten = weigh(&longer);
	}
	json_t *rows = json_array();
	bool ok = true;
	printf("%-42s %12s %10s %12s %10s\n", "star", "hops", "Mhops/s", "B/fragment", "growth %");
	for (unsigned i = 0; i < SETTINGS; i++)
		json_array_append_new(rows, row(&set[i], i < ASKED, runs, &weight[i], &ok));
	int e = json ? json_dump_file(rows, json, JSON_INDENT(1)) : 0;
	json_decref(rows);
	return ok && !e ? 0 : 1;
}
