/* SPDX-License-Identifier: Apache-2.0 */
/* atp.c - the ATP rule: a worker's rack switch sums while it has capacity, else the rack
 * switch of the server, else the server.
 *
 * The two papers that compare themselves with it read "while" differently, and each is
 * followed on its own ground (doc/plan.md).  GRID, with one server: fragment by fragment; what
 * a switch cannot take of its workers' rate overflows, for all of them alike.  InArt, with
 * several servers and an equal split: worker by worker; one that does not fit whole
 * goes elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "bound.h"
#include "core/base/err.h"
#include "eval.h"
#include "rules.h"

#define HALVINGS 60   /* of the interval of rates */
#define RATES	 96   /* tried, worker by worker */
#define SLACK	 1e-9 /* relative */
#define CUTS_MAX 256  /* trees of one job */

struct atp {
	const struct fan_topo *t;
	struct fan_rules r;
	double *load;  /* by node: what it sums so far */
	double *share; /* by node: of the fragments of its workers that it sums */
	double *rest;  /* by job: of the rest, at most so much goes to the server's rack */
	double *cut;   /* CUTS_MAX */
};

static double cap_of(const struct atp *a, uint32_t node)
{
	return a->t->cap[fan_node_resource(a->t, node)];
}

/* ---- fragment by fragment -------------------------------------------------- */

/* What a job's workers send to the rack switch of the server if each sends at most `level`. */
static double overflow(const struct atp *a, uint32_t j, uint32_t rack, double gbps, double level)
{
	const struct fan_job *job = &a->t->job[j];
	double sum = 0;

	for (uint32_t w = 0; w < job->workers; w++) {
		uint32_t own = fan_rules_rack(a->t, job->worker[w]);
		double left = own == FAN_NODE_NONE ? 1 : 1 - a->share[own];
		if (own != rack)
			sum += gbps * job->weight * fmin(left, level);
	}
	return sum;
}

/* The level at which the server's rack switch is full. */
static double level_of(const struct atp *a, uint32_t j, uint32_t rack, double gbps)
{
	double low = 0, high = 1;

	if (rack == FAN_NODE_NONE)
		return 0;
	double room = cap_of(a, rack) - a->load[rack];
	if (overflow(a, j, rack, gbps, 1) <= room)
		return 1;
	for (unsigned i = 0; i < HALVINGS; i++) {
		double mid = (low + high) / 2;
		if (overflow(a, j, rack, gbps, mid) <= room)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* At rate `gbps`: what each switch can sum of its own workers, and then of others. */
static void find_shares(struct atp *a, double gbps)
{
	const struct fan_topo *t = a->t;

	memset(a->load, 0, t->nodes * sizeof *a->load);
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t w = 0; w < t->job[j].workers; w++) {
			uint32_t rack = fan_rules_rack(t, t->job[j].worker[w]);
			if (rack != FAN_NODE_NONE)
				a->load[rack] += gbps * t->job[j].weight;
		}
	for (uint32_t i = 0; i < t->nodes; i++) {
		a->share[i] = a->load[i] > cap_of(a, i) ? cap_of(a, i) / a->load[i] : 1;
		a->load[i] *= a->share[i];
	}
	for (uint32_t j = 0; j < t->jobs; j++) {
		uint32_t rack = fan_rules_rack(t, t->job[j].server[0]);
		a->rest[j] = level_of(a, j, rack, gbps);
		if (rack != FAN_NODE_NONE)
			a->load[rack] += overflow(a, j, rack, gbps, a->rest[j]);
	}
}

/* Where a worker's fragments at `at` of 0 .. 1 go. */
static uint32_t place_at(const struct atp *a, uint32_t j, uint32_t w, double at, double *until)
{
	const struct fan_job *job = &a->t->job[j];
	uint32_t own = fan_rules_rack(a->t, job->worker[w]);
	uint32_t rack = fan_rules_rack(a->t, job->server[0]);
	double first = own == FAN_NODE_NONE ? 0 : a->share[own];
	double second = rack == FAN_NODE_NONE || rack == own ? first : fmin(1, first + a->rest[j]);

	*until = at < first ? first : at < second ? second : 1;
	return at < first ? own : at < second ? rack : job->server[0];
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Where some worker of the job changes from one place to the next, rising, up to 1. */
static uint32_t find_cuts(struct atp *a, uint32_t j)
{
	uint32_t count = 0, kept = 0;
	double *all = calloc(3 * (size_t)a->t->job[j].workers + 1, sizeof *all);

	if (!all)
		return 0;
	for (uint32_t w = 0; w < a->t->job[j].workers; w++)
		for (double at = 0; at < 1;) {
			place_at(a, j, w, at, &at);
			all[count++] = at;
		}
	qsort(all, count, sizeof *all, compare);
	for (uint32_t i = 0; i < count && kept < CUTS_MAX; i++)
		if (kept == 0 || all[i] > a->cut[kept - 1] + SLACK)
			a->cut[kept++] = all[i];
	if (kept)
		a->cut[kept - 1] = 1;
	free(all);
	return kept;
}

static int plan_fragments(struct atp *a, double gbps, struct fan_plan *p)
{
	fan_plan_init(p);
	find_shares(a, gbps);
	for (uint32_t j = 0; j < a->t->jobs; j++) {
		const struct fan_job *job = &a->t->job[j];
		uint32_t cuts = find_cuts(a, j);
		double from = 0, until;
		for (uint32_t i = 0; i < cuts; i++) {
			double to = a->cut[i];
			struct fan_tree *tree = fan_plan_add(p, a->t, j, job->server[0], to - from);
			if (!tree)
				break;
			for (uint32_t w = 0; w < job->workers; w++)
				fan_rules_send(&a->r, tree, w,
					       place_at(a, j, w, (from + to) / 2, &until));
			from = to;
		}
		if (from < 1) {
			fan_plan_free(p);
			return FAN_E_NOMEM;
		}
	}
	return FAN_OK;
}

/* ---- worker by worker ------------------------------------------------------ */

static bool take(struct atp *a, uint32_t node, double gbps)
{
	if (node == FAN_NODE_NONE || a->load[node] + gbps > cap_of(a, node) * (1 + SLACK))
		return false;
	a->load[node] += gbps;
	return true;
}

/* The trees of job `j`, from `first` on, one for each server. */
static void place_job(struct atp *a, uint32_t j, double gbps, struct fan_plan *p, uint32_t first,
		      bool racks)
{
	const struct fan_job *job = &a->t->job[j];

	for (uint32_t w = 0; w < job->workers; w++) {
		uint32_t own = fan_rules_rack(a->t, job->worker[w]);
		if (racks && take(a, own, gbps * job->weight)) {
			for (uint32_t s = 0; s < job->servers; s++)
				fan_rules_send(&a->r, &p->tree[first + s], w, own);
			continue;
		}
		for (uint32_t s = 0; s < job->servers && !racks; s++) {
			struct fan_tree *tree = &p->tree[first + s];
			uint32_t rack = fan_rules_rack(a->t, job->server[s]);
			if (tree->flow[w].to != FAN_NODE_NONE)
				continue;
			if (rack == own || !take(a, rack, gbps * job->weight / job->servers))
				rack = job->server[s]; /* no switch is asked twice */
			fan_rules_send(&a->r, tree, w, rack);
		}
	}
}

static int plan_workers(struct atp *a, double gbps, struct fan_plan *p)
{
	const struct fan_topo *t = a->t;

	fan_plan_init(p);
	memset(a->load, 0, t->nodes * sizeof *a->load);
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			if (!fan_plan_add(p, t, j, t->job[j].server[s], 1.0 / t->job[j].servers)) {
				fan_plan_free(p);
				return FAN_E_NOMEM;
			}
	for (int racks = 1; racks >= 0; racks--)
		for (uint32_t j = 0, first = 0; j < t->jobs; first += t->job[j++].servers)
			place_job(a, j, gbps, p, first, racks);
	return FAN_OK;
}

/* ---- the rate -------------------------------------------------------------- */

/* The rule at rate `gbps`: is the plan feasible there, and better than `*best`? */
static int try_rate(struct atp *a, bool workers, double gbps, struct fan_plan *p, double *best)
{
	struct fan_plan next;
	int err = workers ? plan_workers(a, gbps, &next) : plan_fragments(a, gbps, &next);

	if (err)
		return err;
	double got = fan_eval_gbps(a->t, &next);
	bool feasible = got >= gbps * (1 - SLACK);
	if (feasible && got > *best) {
		*best = got;
		fan_plan_move(p, &next);
	}
	fan_plan_free(&next);
	return feasible ? 1 : got < 0 ? (int)got : 0;
}

/* Workers that a switch is the rack switch of; 0 if it cannot sum. */
static uint32_t own_workers(const struct atp *a, uint32_t node)
{
	uint32_t n = 0;

	if (!fan_node_sums(a->t, node))
		return 0;
	for (uint32_t j = 0; j < a->t->jobs; j++)
		for (uint32_t w = 0; w < a->t->job[j].workers; w++)
			n += fan_rules_rack(a->t, a->t->job[j].worker[w]) == node;
	return n;
}

static int search(struct atp *a, bool workers, double high, struct fan_plan *p)
{
	double low = 0, best = -1;
	int got = try_rate(a, workers, high * SLACK, p, &best);

	for (uint32_t i = 0; i < a->t->nodes && workers && got >= 0; i++)
		for (uint32_t n = own_workers(a, i); n >= 1 && got >= 0; n--)
			if (cap_of(a, i) / n > best && cap_of(a, i) / n <= high)
				got = try_rate(a, workers, cap_of(a, i) / n, p, &best);
	for (uint32_t i = 1; i <= RATES && workers && got >= 0; i++)
		if (high * i / RATES > best)
			got = try_rate(a, workers, high * i / RATES, p, &best);
	for (uint32_t i = 0; i < HALVINGS && !workers && got >= 0; i++) {
		double mid = i ? (low + high) / 2 : high;
		got = try_rate(a, workers, mid, p, &best);
		if (got > 0)
			low = mid;
		else
			high = mid;
	}
	if (got < 0)
		fan_plan_free(p);
	return got < 0 ? got : p->trees ? FAN_OK : FAN_E_STALLED;
}

int fan_atp(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	    struct fan_planned *how)
{
	struct atp a = {.t = t};
	bool workers = false;
	int err = fan_rules_open(&a.r, t, o->paths, o->seed);

	(void)how;
	fan_plan_init(p);
	if (err)
		return err;
	a.load = calloc(t->nodes + 1, sizeof *a.load);
	a.share = calloc(t->nodes + 1, sizeof *a.share);
	a.rest = calloc(t->jobs + 1, sizeof *a.rest);
	a.cut = calloc(CUTS_MAX, sizeof *a.cut);
	for (uint32_t j = 0; j < t->jobs; j++)
		workers = workers || t->job[j].servers > 1;
	err = a.load && a.share && a.rest && a.cut
		      ? search(&a, workers, fan_bound_closed(&a.r.c, true), p)
		      : FAN_E_NOMEM;
	fan_rules_close(&a.r);
	free(a.load);
	free(a.share);
	free(a.rest);
	free(a.cut);
	return err;
}
