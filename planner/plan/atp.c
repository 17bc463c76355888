/* SPDX-License-Identifier: Apache-2.0 */
/* atp.c - the ATP rule: the switch near a worker sums while it has capacity, else the one near the
 * server, else the server.  o->sums_at says which switch is near; with two levels, the switch near
 * the server sums the sums of the first again while it has capacity.
 *
 * The two papers that compare themselves with it read "while" differently, and each is followed
 * where it applies (doc/plan.md).  GRID, with one server, decides fragment by fragment: what a
 * switch cannot take of its workers' rate overflows, the same amount for each of them.  InArt, with
 * several servers and an equal split, decides worker by worker: one that does not fit entirely goes
 * elsewhere.  So it does with one tree on a server, since a tree has one place for each worker. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm.h"
#include "core/base/err.h"
#include "eval.h"
#include "fit.h"
#include "steps.h"

#define HALVINGS 40   /* of the interval of rates in a search by bisection */
#define RATES	 96   /* rates tried, if workers are placed whole */
#define SLACK	 1e-9 /* relative */
#define END	 1e-6 /* relative: how far before the end of a tree it is sampled */

struct atp {
	const struct fan_topo *t;
	const struct fan_plan_options *o;
	struct fan_rules r;
	struct fan_fit fit;
	double *load;  /* by node: what it sums so far, Gb/s */
	double *share; /* by node: share of its workers' fragments that it sums */
	double *rest;  /* by job: share that the switch near the server sums, as in place_at */
	double *cut;   /* where a job's trees end, 0 .. 1; room for FAN_TREES_MAX */
	bool *leads;   /* by job and worker: the first of its job at its switch */
};

static double cap_of(const struct atp *a, uint32_t node)
{
	return a->t->cap[fan_node_resource(a->t, node)];
}

/* The switch that sums for worker `w` of job `j`, and the one near its server `s`. */
static uint32_t near_worker(const struct atp *a, uint32_t j, uint32_t w)
{
	return a->r.sums_at[a->t->job[j].worker[w]];
}

static uint32_t near_server(const struct atp *a, uint32_t j, uint32_t s)
{
	return a->r.sums_at[a->t->job[j].server[s]];
}

/* ---- fragment by fragment ---- */

/* What a job's workers send to the switch near the server if each sends at most share `level`. */
static double overflow(const struct atp *a, uint32_t j, double gbps, double level)
{
	const struct fan_job *job = &a->t->job[j];
	double sum = 0;
	for (uint32_t w = 0; w < job->workers; w++) {
		uint32_t own = near_worker(a, j, w);
		double left = own == FAN_NODE_NONE ? 1 : 1 - a->share[own];
		if (own != near_server(a, j, 0))
			sum += gbps * job->weight * fmin(left, level);
	}
	return sum;
}

/* With two levels: what enters the switch near the server if it sums all fragments below `level`,
 * its own workers' parts included. */
static double all_below(const struct atp *a, uint32_t j, double gbps, double level)
{
	const struct fan_job *job = &a->t->job[j];
	double sum = 0;
	for (uint32_t w = 0; w < job->workers; w++) {
		uint32_t own = near_worker(a, j, w);
		bool summed = own != FAN_NODE_NONE && own != near_server(a, j, 0);
		double alone = summed ? fmax(0, level - a->share[own]) : level;
		if (summed && a->leads[a->r.c.first[j] + w]) /* the sum for all of them */
			alone += fmin(level, a->share[own]);
		sum += gbps * job->weight * alone;
	}
	return sum;
}

static double entering(const struct atp *a, uint32_t j, double gbps, double level)
{
	return fan_plan_levels(a->o) ? all_below(a, j, gbps, level) : overflow(a, j, gbps, level);
}

/* The level at which the switch near the server is full, 0 .. 1. */
static double level_of(const struct atp *a, uint32_t j, double gbps)
{
	uint32_t rack = near_server(a, j, 0);
	double low = 0, high = 1;
	if (rack == FAN_NODE_NONE)
		return 0;
	double room = cap_of(a, rack) - a->load[rack];
	if (entering(a, j, gbps, 1) <= room)
		return 1;
	for (unsigned i = 0; i < HALVINGS; i++) {
		double mid = (low + high) / 2;
		if (entering(a, j, gbps, mid) <= room)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Find what each switch can sum at rate `gbps`: of its own workers first, then of others. */
static void find_shares(struct atp *a, double gbps)
{
	const struct fan_topo *t = a->t;
	memset(a->load, 0, t->nodes * sizeof *a->load);
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t w = 0; w < t->job[j].workers; w++) {
			uint32_t own = near_worker(a, j, w);
			if (own != FAN_NODE_NONE &&
			    (!fan_plan_levels(a->o) || own != near_server(a, j, 0)))
				a->load[own] += gbps * t->job[j].weight;
		}
	for (uint32_t i = 0; i < t->nodes; i++) {
		a->share[i] = a->load[i] > cap_of(a, i) ? cap_of(a, i) / a->load[i] : 1;
		a->load[i] *= a->share[i];
	}
	for (uint32_t j = 0; j < t->jobs; j++) {
		uint32_t rack = near_server(a, j, 0);
		a->rest[j] = level_of(a, j, gbps);
		if (rack != FAN_NODE_NONE)
			a->load[rack] += entering(a, j, gbps, a->rest[j]);
	}
}

/* The node that sums a worker's fragments at `at`, 0 .. 1, and `*until` where that changes.  With
 * two levels, the switch near the server sums fragments below `rest`; otherwise it sums a share
 * `rest` of each worker's fragments, of those that the worker's own switch does not sum. */
static uint32_t place_at(const struct atp *a, uint32_t j, uint32_t w, double at, double *until)
{
	uint32_t own = near_worker(a, j, w), rack = near_server(a, j, 0);
	bool levels = fan_plan_levels(a->o);
	double first = own == FAN_NODE_NONE || (levels && own == rack) ? 0 : a->share[own];
	double second = levels				       ? fmax(first, a->rest[j])
			: rack == FAN_NODE_NONE || rack == own ? first
							       : fmin(1, first + a->rest[j]);
	*until = at < first ? first : at < second ? second : 1;
	return at < first ? own : at < second ? rack : a->t->job[j].server[0];
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Find where some worker of the job changes its place, in ascending order up to 1.  If there are
 * more such points than trees are allowed, they are rounded down to multiples of 1 / that number,
 * so a switch sums a little less than it could. */
static uint32_t find_cuts(struct atp *a, uint32_t j)
{
	uint32_t most = fan_fit_trees(a->t, j, a->t->job[j].server[0], a->o->trees), kept = 0;
	size_t room = 3 * (size_t)a->t->job[j].workers + 2, count = 0;
	double *all = calloc(room, sizeof *all);
	if (!all)
		return 0;
	for (uint32_t w = 0; w < a->t->job[j].workers; w++)
		for (double at = 0; at < 1;) {
			place_at(a, j, w, at, &at);
			all[count++] = at;
		}
	all[count++] = fan_plan_levels(a->o) && a->rest[j] > 0 ? a->rest[j] : 1;
	qsort(all, count, sizeof *all, compare);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count && kept < FAN_TREES_MAX; i++)
			if (all[i] > SLACK && (kept == 0 || all[i] > a->cut[kept - 1] + SLACK))
				a->cut[kept++] = all[i];
		if (kept <= most || pass)
			break;
		kept = 0;
		for (size_t i = 0; i < count; i++)
			all[i] = floor(all[i] * most + SLACK) / most;
	}
	if (kept)
		a->cut[kept - 1] = 1;
	free(all);
	return kept;
}

/* Fill the tree of a job's fragments around `at`. */
static void fill_tree(struct atp *a, struct fan_tree *tree, double at)
{
	uint32_t j = tree->job;
	double until;
	for (uint32_t w = 0; w < tree->workers; w++)
		fan_rules_send(&a->r, tree, w, place_at(a, j, w, at, &until));
	if (fan_plan_levels(a->o) && at < a->rest[j])
		fan_rules_stack_all(&a->r, tree, near_server(a, j, 0));
}

static int plan_fragments(struct atp *a, double gbps, struct fan_plan *p)
{
	*p = (struct fan_plan){0};
	find_shares(a, gbps);
	for (uint32_t j = 0; j < a->t->jobs; j++) {
		uint32_t cuts = find_cuts(a, j), server = a->t->job[j].server[0];
		double from = 0;
		for (uint32_t i = 0; i < cuts; i++) {
			double to = a->cut[i];
			struct fan_tree *tree = fan_plan_add(p, a->t, j, server, to - from);
			if (!tree)
				break;
			/* at its end: a cut rounded down leaves the rest to the next place */
			fill_tree(a, tree, to - (to - from) * END);
			from = to;
		}
		if (from < 1) {
			fan_plan_free(p);
			return FAN_E_NOMEM;
		}
	}
	return FAN_OK;
}

/* ---- worker by worker ---- */

static bool take(struct atp *a, uint32_t node, double gbps)
{
	if (node == FAN_NODE_NONE || a->load[node] + gbps > cap_of(a, node) * (1 + SLACK))
		return false;
	a->load[node] += gbps;
	return true;
}

/* Place workers in the trees of job `j`, one for each server from `first` on: at their own switches
 * if `racks`, else those left at the switch near the server or the server. */
static void place_job(struct atp *a, uint32_t j, double gbps, struct fan_plan *p, uint32_t first,
		      bool racks)
{
	const struct fan_job *job = &a->t->job[j];
	double each = gbps * job->weight / job->servers;
	for (uint32_t w = 0; w < job->workers; w++) {
		uint32_t own = near_worker(a, j, w);
		if (racks && take(a, own, gbps * job->weight)) {
			for (uint32_t s = 0; s < job->servers; s++)
				fan_rules_send(&a->r, &p->tree[first + s], w, own);
			continue;
		}
		for (uint32_t s = 0; s < job->servers && !racks; s++) {
			struct fan_tree *tree = &p->tree[first + s];
			uint32_t rack = near_server(a, j, s);
			if (tree->flow[w].to != FAN_NODE_NONE)
				continue;
			if (rack == own || !take(a, rack, each))
				rack = job->server[s]; /* do not try a switch twice */
			fan_rules_send(&a->r, tree, w, rack);
		}
	}
}

/* Send each sum to the switch near the server while that has room for it. */
static void stack(struct atp *a, struct fan_tree *tree, double gbps)
{
	uint32_t rack = a->r.sums_at[tree->server];
	for (uint32_t i = 0; i < tree->sums; i++) {
		uint32_t from = tree->flow[tree->workers + i].from;
		if (from != rack && take(a, rack, gbps * a->t->job[tree->job].weight * tree->share))
			fan_rules_stack(&a->r, tree, from, rack);
	}
}

/* Do workers without room at their own switch send more than servers and the switches near those
 * can take?  If so, no plan need be made. */
static bool overflows(struct atp *a, double gbps)
{
	const struct fan_topo *t = a->t;
	double left = 0, room = 0;
	memset(a->load, 0, t->nodes * sizeof *a->load);
	for (uint32_t j = 0; j < t->jobs; j++) {
		const struct fan_job *job = &t->job[j];
		for (uint32_t w = 0; w < job->workers; w++)
			if (!take(a, near_worker(a, j, w), gbps * job->weight))
				left += gbps * job->weight;
		for (uint32_t s = 0; s < job->servers; s++) {
			uint32_t rack = near_server(a, j, s);
			room += cap_of(a, job->server[s]);
			room += rack == FAN_NODE_NONE ? 0 : cap_of(a, rack);
		}
	}
	return left > room * (1 + SLACK);
}

static int plan_workers(struct atp *a, double gbps, struct fan_plan *p)
{
	const struct fan_topo *t = a->t;
	*p = (struct fan_plan){0};
	memset(a->load, 0, t->nodes * sizeof *a->load);
	for (uint32_t j = 0; j < t->jobs; j++)
		for (uint32_t s = 0; s < t->job[j].servers; s++)
			if (!fan_plan_add(p, t, j, t->job[j].server[s], 1.0 / t->job[j].servers)) {
				fan_plan_free(p);
				return FAN_E_NOMEM;
			}
	for (int racks = 1; racks >= 0; racks--) {
		for (uint32_t j = 0, first = 0; j < t->jobs; first += t->job[j++].servers)
			place_job(a, j, gbps, p, first, racks);
		for (uint32_t i = 0; i < p->trees && racks && fan_plan_levels(a->o); i++)
			stack(a, &p->tree[i], gbps);
	}
	return FAN_OK;
}

/* Find the first worker of each job at each switch. */
static int find_leads(struct atp *a)
{
	const struct fan_topo *t = a->t;
	uint32_t all = 0, *seen = calloc(t->nodes + 1, sizeof *seen);
	for (uint32_t j = 0; j < t->jobs; j++)
		all += t->job[j].workers;
	a->leads = calloc(all + 1, sizeof *a->leads);
	for (uint32_t j = 0; j < t->jobs && seen && a->leads; j++)
		for (uint32_t w = 0; w < t->job[j].workers; w++) {
			uint32_t own = near_worker(a, j, w);
			if (own == FAN_NODE_NONE || seen[own] == j + 1)
				continue;
			seen[own] = j + 1;
			a->leads[a->r.c.first[j] + w] = true;
		}
	free(seen);
	return seen && a->leads ? FAN_OK : FAN_E_NOMEM;
}

/* ---- the rate ---- */

/* Plan by the rule at rate `gbps`; take the plan if it is feasible and better than `*best`.
 * Returns 1 if feasible, 0 if not, or an error.  `workers`: worker by worker. */
static int try_rate(struct atp *a, bool workers, double gbps, struct fan_plan *p, double *best)
{
	struct fan_plan next;
	if (workers && overflows(a, gbps))
		return 0;
	int err = workers ? plan_workers(a, gbps, &next) : plan_fragments(a, gbps, &next);

	double got = err ? err : fan_eval_gbps(a->t, &next);
	bool hopeful = got >= gbps * (1 - SLACK);
	for (uint32_t i = 0; i < next.trees && !err && hopeful; i++)
		err = fan_fit_tree(&a->fit, &next.tree[i]);
	if (err) {
		fan_plan_free(&next);
		return err;
	}
	if (hopeful)
		got = fan_eval_gbps(a->t, &next);
	bool feasible = got >= gbps * (1 - SLACK);
	if (feasible && got > *best) {
		*best = got;
		fan_plan_move(p, &next);
	}
	fan_plan_free(&next);
	return feasible ? 1 : got < 0 ? (int)got : 0;
}

/* How many workers a switch sums for; 0 if it cannot sum. */
static uint32_t own_workers(const struct atp *a, uint32_t node)
{
	uint32_t n = 0;
	if (!fan_node_sums(a->t, node))
		return 0;
	for (uint32_t j = 0; j < a->t->jobs; j++)
		for (uint32_t w = 0; w < a->t->job[j].workers; w++)
			n += near_worker(a, j, w) == node;
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
	struct atp a = {.t = t, .o = o};
	bool workers = o->trees == 1;
	int err = fan_rules_open(&a.r, t, o);
	(void)how;
	*p = (struct fan_plan){0};
	if (err)
		return err;
	a.load = calloc(t->nodes + 1, sizeof *a.load);
	a.share = calloc(t->nodes + 1, sizeof *a.share);
	a.rest = calloc(t->jobs + 1, sizeof *a.rest);
	a.cut = calloc(FAN_TREES_MAX, sizeof *a.cut);
	err = find_leads(&a);
	if (!err)
		err = fan_fit_open(&a.fit, t);
	for (uint32_t j = 0; j < t->jobs; j++)
		workers = workers || t->job[j].servers > 1;
	if (!err)
		err = a.load && a.share && a.rest && a.cut
			      ? search(&a, workers, fan_bound_closed(&a.r.c), p)
			      : FAN_E_NOMEM;
	fan_fit_close(&a.fit);
	fan_rules_close(&a.r);
	free(a.load);
	free(a.share);
	free(a.rest);
	free(a.cut);
	free(a.leads);
	return err;
}
