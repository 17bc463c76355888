/* SPDX-License-Identifier: Apache-2.0 */
/* choice.c - the algorithm of an all-reduce that NCCL's cost model chooses by the devices, speed
 * and latency that the plug-in reports.
 *
 * The model is that of NCCL 2.30.7 for compute capability 8 and hosts with Intel's processors, GPUs
 * on PCIe and one card, in src/graph: topo.cc (ncclTopoPopulateNics: both tables share a card's
 * node, which has the speed and the latency that CollNet reports), search.cc (ncclTopoCompute: the
 * speed of a channel is one of a list), tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime).  What
 * bounds a channel above 25 Gb/s is left out.  src/plugin/net.cc lets CollNet go if it offers no
 * device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs.h"

enum algorithm { TREE, RING, COLLNET, ALGORITHMS };
enum protocol { LL, LL128, SIMPLE, PROTOCOLS };

static const char *const names[] = {"tree", "ring", "CollNet"};

/* GB/s of a channel. */
static const double speeds[] = {48, 30, 28, 24, 20, 18,	 15,  12,  10, 9,
				7,  6,	5,  4,	3,  2.4, 1.2, .24, .12};
#define SPEEDS ((int)(sizeof speeds / sizeof *speeds))

/* Microseconds: of a start, of a step over the network and within a host. */
static const double base[][PROTOCOLS] = {{6.8, 14, 8.4}, {6.6, 14, 8.4}, {0, 0, 0}};
static const double network[][PROTOCOLS] = {{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 30}};
static const double within[][PROTOCOLS] = {{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 2.8}};
#define POST_US	      1.0
#define PLATEAU	      1.4 /* of a ring's latency */
#define PLATEAU_BYTES 64  /* a rank and channel */

/* Of a tree's bandwidth, for 64 B and its powers of two. */
#define FACTORS 23
static const double factor[PROTOCOLS][FACTORS] = {
	{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
	{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
	{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
	 .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

struct job {
	int hosts, gpus; /* of a host */
	double mbps, latency_us;
	bool collnet;
};

/* GB/s of a channel within a host and between hosts; CollNet has no channel if none is as slow. */
struct graph {
	double within, between;
	int channels;
};

static struct graph search(const struct job *j, enum algorithm a)
{
	struct graph g = {.1, .1, a != COLLNET};
	int at = 0;
	while (at < SPEEDS - 1 && speeds[at] > j->mbps / 8000)
		at++;
	if (speeds[at] > j->mbps / 8000)
		return g;
	g = (struct graph){speeds[at], speeds[at], 1};
	while (a != RING && at && g.within < 2 * g.between) /* not bound by the card */
		g.within = speeds[--at];
	return g;
}

/* GB/s. */
static double bandwidth(const struct job *j, enum algorithm a, enum protocol p, size_t bytes)
{
	static const double ring[] = {.5, .92, 1}, tree[] = {1 / 3.8, .9375, 1};
	struct graph g = search(j, a);
	int ranks = j->hosts * j->gpus, log = (int)log2((double)(bytes >> 6));
	double bus = g.channels * (j->hosts <= 2 || a == COLLNET ? g.within : g.between);
	if (a == RING)
		return bus * ring[p] * ranks / (2.0 * (ranks - 1));
	if (a == COLLNET)
		return p == SIMPLE && j->collnet ? bus / 2 : 0;
	bus *= .92 * tree[p] * (j->gpus == 1 ? .85 : 1);
	return bus / 2 * (log >= 0 && log < FACTORS ? factor[p][log] : 1);
}

static double latency_us(const struct job *j, enum algorithm a, enum protocol p, size_t bytes)
{
	int ranks = j->hosts * j->gpus, between = 2 * (j->hosts - 1);
	double step = network[j->gpus == 1 ? TREE : a][p] + j->latency_us * (p == SIMPLE ? 2 : 1);
	double local = within[a][p];
	if (a == COLLNET)
		return 2 * (j->gpus - 1) * local + step;
	if (a == TREE)
		return base[a][p] + 2 * ((j->gpus - 1) * local + floor(log2(j->hosts)) * step);
	local = fmax(local, POST_US * (p == SIMPLE ? 3 : 1));
	double all = base[a][p] + (2 * (ranks - 1) - between) * local + between * step;
	size_t share = bytes / (2 * (size_t)search(j, a).channels * (size_t)ranks);
	return p == SIMPLE && share >= PLATEAU_BYTES ? PLATEAU * all : all;
}

static enum algorithm choose(const struct job *j, size_t bytes)
{
	enum algorithm best = RING;
	double best_us = INFINITY;
	for (int a = 0; a < ALGORITHMS; a++)
		for (int p = 0; p < PROTOCOLS; p++) {
			double speed = bandwidth(j, (enum algorithm)a, (enum protocol)p, bytes);
			double us = latency_us(j, (enum algorithm)a, (enum protocol)p, bytes) +
				    (double)bytes / (1000 * speed);
			if (speed <= 0 || us >= best_us)
				continue;
			best = (enum algorithm)a;
			best_us = us;
		}
	return best;
}

/* ---- what the plug-in reports in a setting ---- */

struct setting {
	const char *name[2], *value[2];
	bool collnet; /* it is wanted */
};

static const struct setting settings[] = {
	{{NULL}, {NULL}, false},
	{{"FANIN_HOSTS"}, {"0"}, false},
	{{"FANIN_HOSTS"}, {"1"}, true},
	{{"FANIN_SWITCH"}, {"10.0.0.1:5000"}, true},
	{{"FANIN_SWITCH", "FANIN_HOSTS"}, {"10.0.0.1:5000", "0"}, true},
	{{"FANIN_CONTROLLER"}, {"10.0.0.1:5000"}, true},
	{{"FANIN_HOSTS"}, {"2"}, true}, /* the error is that of joining */
};

#define SETTINGS ((int)(sizeof settings / sizeof *settings))

static const int hosts[] = {2, 4, 8, 16}, gpus[] = {1, 8}, rates[] = {200, 1000, 10000, 25000};
#define RATES ((int)(sizeof rates / sizeof *rates))

#define SIZE_FIRST 14 /* 16 KiB */
#define SIZE_LAST  28

struct look {
	const char *plugin;
	const struct setting *setting;
	int mbps;
	bool says;
};

/* Is CollNet chosen for the largest tensor, and for none where it is not wanted? */
static bool is_wanted(const struct look *l, const struct job *j)
{
	enum algorithm a = RING;
	bool ever = false;
	if (l->says)
		printf("%s%s, %d x %d, %g Gb/s, %g us:",
		       l->setting->name[0] ? l->setting->name[0] : "-",
		       l->setting->name[1] ? "..." : "", j->hosts, j->gpus, j->mbps / 1000,
		       j->latency_us);
	for (int log = SIZE_FIRST; log <= SIZE_LAST; log += 2) {
		a = choose(j, (size_t)1 << log);
		ever |= a == COLLNET;
		if (l->says)
			printf(" %s", names[a]);
	}
	if (l->says)
		putchar('\n');
	return l->setting->collnet ? a == COLLNET : !ever;
}

/* Both latencies, since a card's is that of rings as well. */
static int look(struct seat *seat, void *arg)
{
	static const double more_us[] = {0, 1000};
	const struct look *l = arg;
	struct fan_nccl_props_v12 p;
	struct api a;
	char mbps[16];
	int devices = 0, offered = -1, wrong = 0;
	(void)seat;
	unsetenv("FANIN_SWITCH");
	unsetenv("FANIN_HOSTS");
	snprintf(mbps, sizeof mbps, "%d", l->mbps);
	setenv("FANIN_LINK_MBPS", mbps, 1);
	for (int i = 0; i < 2 && l->setting->name[i]; i++)
		setenv(l->setting->name[i], l->setting->value[i], 1);
	if (api_load(&a, l->plugin, API_LAST) || api_init(&a, logger) ||
	    api_devices(&a, &devices) || coll_devices(&a, &offered) || api_properties(&a, 0, &p))
		return 1;
	for (int i = 0; i < 4 * 2 * 2; i++) {
		struct job j = {hosts[i % 4], gpus[i / 4 % 2], p.speed,
				(double)p.latency + more_us[i / 8], offered > 0};
		wrong += !is_wanted(l, &j);
	}
	if (!wrong && offered == (l->setting->collnet ? devices : 0))
		return api_finalize(&a);
	fprintf(stderr, "%s, %d Mb/s: %d of %d devices for CollNet, %d jobs choose otherwise\n",
		l->setting->name[0] ? l->setting->name[0] : "nothing named", p.speed, offered,
		devices, wrong);
	return 1;
}

int choice_run(const char *plugin, bool says)
{
	int failed = 0;
	for (int i = 0; i < SETTINGS * RATES; i++) {
		struct look l = {plugin, &settings[i / RATES], rates[i % RATES], says};
		struct world *w = world_new(1);
		failed += world_run(w, NULL, -1, look, &l) != 0;
		world_free(w);
	}
	return failed;
}
