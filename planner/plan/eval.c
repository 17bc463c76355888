/* SPDX-License-Identifier: Apache-2.0 */
#include "eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

#define SHARE_SLACK 1e-6 /* shares of a job add up to 1 within this */
#define FULL_SLACK  1e-9 /* relative: a resource this near to its capacity is full */

/* A plan under evaluation. */
struct look {
	const struct fan_topo *t;
	const struct fan_plan *p;
	struct fan_why *why;
	double *need;  /* by job and resource: load per Gb/s of the job's rate */
	bool *summing; /* by node: a sum flow of the present tree leaves it */
	bool *grows;   /* by job: its rate still grows */
	bool *seen;    /* by arc: the present tree's results pass it */
};

static const char *name(const struct look *l, uint32_t node)
{
	return node < l->t->nodes ? l->t->node[node].name : "(no node)";
}

/* Check that the route is connected, from end to end, and passes only switches. */
static int check_route(const struct look *l, const struct fan_flow *f)
{
	uint32_t at = f->from;
	if (f->route.hops > FAN_HOPS_MAX)
		return fan_why_set(l->why, FAN_E_CONFIG, "route from \"%s\": more than %d links",
				   name(l, f->from), FAN_HOPS_MAX);
	for (uint32_t i = 0; i < f->route.hops; i++) {
		uint32_t arc = f->route.arc[i];
		if (arc >= 2 * l->t->links || fan_arc_from(l->t, arc) != at ||
		    (i > 0 && l->t->node[at].kind != FAN_NODE_SWITCH))
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "route from \"%s\" to \"%s\": no link from \"%s\" on",
					   name(l, f->from), name(l, f->to), name(l, at));
		at = fan_arc_to(l->t, arc);
	}
	if (at != f->to)
		return fan_why_set(l->why, FAN_E_CONFIG,
				   "route from \"%s\" ends at \"%s\", not \"%s\"", name(l, f->from),
				   name(l, at), name(l, f->to));
	return FAN_OK;
}

static int check_server(const struct look *l, const struct fan_tree *tree)
{
	const struct fan_job *job = &l->t->job[tree->job];
	for (uint32_t i = 0; i < job->servers; i++)
		if (job->server[i] == tree->server)
			return FAN_OK;
	return fan_why_set(l->why, FAN_E_CONFIG, "\"%s\" is no server of job \"%s\"",
			   name(l, tree->server), job->name);
}

/* Does the sum go to the server, or to a switch whose own sum goes there? */
static bool is_sum_target(const struct fan_tree *tree, const struct fan_flow *f)
{
	const struct fan_flow *next = fan_tree_sum(tree, f->to);
	return f->to == tree->server || (next && next != f && next->to == tree->server);
}

/* Check that sums leave switches that can sum, one each. */
static int check_sums(const struct look *l, const struct fan_tree *tree)
{
	for (uint32_t i = 0; i < tree->sums; i++) {
		const struct fan_flow *f = &tree->flow[tree->workers + i];
		if (f->from >= l->t->nodes || !fan_node_sums(l->t, f->from) || l->summing[f->from])
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "\"%s\" cannot sum, or would send two sums",
					   name(l, f->from));
		l->summing[f->from] = true;
		if (!is_sum_target(tree, f))
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "the sum of \"%s\" misses server \"%s\"",
					   name(l, f->from), name(l, tree->server));
		int err = check_route(l, f);
		if (err)
			return err;
	}
	return FAN_OK;
}

static int check_workers(const struct look *l, const struct fan_tree *tree)
{
	const struct fan_job *job = &l->t->job[tree->job];
	if (tree->workers != job->workers)
		return fan_why_set(l->why, FAN_E_CONFIG, "job \"%s\": %u flows for %u workers",
				   job->name, tree->workers, job->workers);
	for (uint32_t i = 0; i < tree->workers; i++) {
		const struct fan_flow *f = &tree->flow[i];
		if (f->from != job->worker[i])
			return fan_why_set(l->why, FAN_E_CONFIG, "no flow from worker \"%s\"",
					   name(l, job->worker[i]));
		if (f->to != tree->server && (f->to >= l->t->nodes || !l->summing[f->to]))
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "worker \"%s\" sends to \"%s\", which sends no sum on",
					   name(l, f->from), name(l, f->to));
		int err = check_route(l, f);
		if (err)
			return err;
	}
	return FAN_OK;
}

/* Check that each sum has at least one flow into it. */
static int check_entered(const struct look *l, const struct fan_tree *tree)
{
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++)
		if (tree->flow[i].to != tree->server)
			l->summing[tree->flow[i].to] = false;
	for (uint32_t i = 0; i < tree->sums; i++)
		if (l->summing[tree->flow[tree->workers + i].from])
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "nobody sends to \"%s\", which sends a sum",
					   name(l, tree->flow[tree->workers + i].from));
	return FAN_OK;
}

static int check_tree(const struct look *l, const struct fan_tree *tree)
{
	if (tree->job >= l->t->jobs || !(tree->share >= 0))
		return fan_why_set(l->why, FAN_E_CONFIG, "a tree of no job, or without a share");
	memset(l->summing, 0, l->t->nodes * sizeof *l->summing);
	int err = check_server(l, tree);
	if (!err)
		err = check_sums(l, tree);
	if (!err)
		err = check_workers(l, tree);
	return err ? err : check_entered(l, tree);
}

static int check_shares(const struct look *l)
{
	for (uint32_t j = 0; j < l->t->jobs; j++) {
		double sum = 0;
		for (uint32_t i = 0; i < l->p->trees; i++)
			if (l->p->tree[i].job == j)
				sum += l->p->tree[i].share;
		if (fabs(sum - 1) > SHARE_SLACK)
			return fan_why_set(l->why, FAN_E_CONFIG,
					   "job \"%s\": shares add up to %g, not to 1",
					   l->t->job[j].name, sum);
	}
	return FAN_OK;
}

static void add_needs(const struct look *l, const struct fan_tree *tree)
{
	double *need = l->need + (size_t)tree->job * fan_topo_resources(l->t);
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++) {
		const struct fan_flow *f = &tree->flow[i];
		for (uint32_t k = 0; k < f->route.hops; k++)
			need[f->route.arc[k]] += tree->share;
		if (i < tree->workers)
			need[fan_node_resource(l->t, f->from)] += tree->share;
		need[fan_node_resource(l->t, f->to)] += tree->share;
	}
}

/* How far the rates of growing jobs can still rise, for weight 1, and which resource stops them. */
static double headroom(const struct look *l, const struct fan_eval *e, uint32_t *binding)
{
	uint32_t resources = fan_topo_resources(l->t);
	double least = INFINITY;
	for (uint32_t r = 0; r < resources; r++) {
		double slope = 0;
		for (uint32_t j = 0; j < l->t->jobs; j++)
			if (l->grows[j])
				slope += l->t->job[j].weight * l->need[(size_t)j * resources + r];
		if (slope > 0 && (l->t->cap[r] - e->load_gbps[r]) / slope < least) {
			least = (l->t->cap[r] - e->load_gbps[r]) / slope;
			*binding = r;
		}
	}
	return least > 0 ? least : 0;
}

/* Raise rates of growing jobs by `more` times weight, and stop jobs that use a full resource. */
static void raise_jobs(const struct look *l, struct fan_eval *e, double more)
{
	uint32_t resources = fan_topo_resources(l->t);
	for (uint32_t j = 0; j < l->t->jobs; j++) {
		if (!l->grows[j])
			continue;
		e->job_gbps[j] += more * l->t->job[j].weight;
		for (uint32_t r = 0; r < resources; r++)
			e->load_gbps[r] +=
				more * l->t->job[j].weight * l->need[(size_t)j * resources + r];
	}
	for (uint32_t r = 0; r < resources; r++)
		for (uint32_t j = 0; j < l->t->jobs; j++)
			if (l->need[(size_t)j * resources + r] > 0 &&
			    e->load_gbps[r] >= l->t->cap[r] * (1 - FULL_SLACK))
				l->grows[j] = false;
}

static void fill(const struct look *l, struct fan_eval *e)
{
	for (uint32_t j = 0; j < l->t->jobs; j++)
		l->grows[j] = true;
	e->binding = UINT32_MAX;
	for (uint32_t round = 0; round < l->t->jobs; round++) {
		uint32_t binding = UINT32_MAX;
		double more = headroom(l, e, &binding);
		if (round == 0) {
			e->binding = binding;
			e->gbps = more;
		}
		if (binding == UINT32_MAX)
			return; /* no job grows, or nothing limits those that do */
		raise_jobs(l, e, more);
	}
}

/* The first resource to be full, rates and loads are those of `with`, which has results counted. */
static void count_results(const struct look *l, struct fan_eval *e, struct fan_eval *with)
{
	double *load_gbps = e->load_gbps;
	e->gbps = with->gbps;
	e->binding = with->binding;
	e->load_gbps = with->load_gbps;
	with->load_gbps = load_gbps;
	memcpy(e->job_gbps, with->job_gbps, l->t->jobs * sizeof *e->job_gbps);
}

/* Compute the rates again, with the load of results added. */
static int fill_with_results(const struct look *l, struct fan_eval *e)
{
	uint32_t resources = fan_topo_resources(l->t);
	struct fan_eval with = {
		.job_gbps = calloc(l->t->jobs + 1, sizeof *with.job_gbps),
		.load_gbps = calloc(resources + 1, sizeof *with.load_gbps),
	};
	int err = with.job_gbps && with.load_gbps ? FAN_OK : FAN_E_NOMEM;
	for (uint32_t i = 0; i < l->p->trees && !err; i++)
		fan_tree_add_results(l->t, &l->p->tree[i], l->p->tree[i].share, l->seen,
				     l->need + (size_t)l->p->tree[i].job * resources);
	if (!err)
		fill(l, &with);
	e->gradients_gbps = e->gbps;
	e->with_results_gbps = with.gbps;
	if (!err && l->t->results)
		count_results(l, e, &with);
	e->job_results_gbps = with.job_gbps;
	with.job_gbps = NULL;
	fan_eval_free(&with);
	return err;
}

int fan_eval(struct fan_eval *e, const struct fan_topo *t, const struct fan_plan *p,
	     struct fan_why *why)
{
	uint32_t resources = fan_topo_resources(t);
	struct look l = {.t = t, .p = p, .why = why};
	int err = FAN_E_NOMEM;
	memset(e, 0, sizeof *e);
	if (why)
		why->text[0] = '\0';
	l.need = calloc((size_t)resources * t->jobs + 1, sizeof *l.need);
	l.summing = calloc(t->nodes + 1, sizeof *l.summing);
	l.grows = calloc(t->jobs + 1, sizeof *l.grows);
	l.seen = calloc(2 * (size_t)t->links + 1, sizeof *l.seen);
	e->job_gbps = calloc(t->jobs + 1, sizeof *e->job_gbps);
	e->load_gbps = calloc(resources + 1, sizeof *e->load_gbps);
	if (!l.need || !l.summing || !l.grows || !l.seen || !e->job_gbps || !e->load_gbps)
		goto out;
	err = check_shares(&l);
	for (uint32_t i = 0; i < p->trees && !err; i++) {
		err = check_tree(&l, &p->tree[i]);
		if (!err)
			add_needs(&l, &p->tree[i]);
	}
	if (!err) {
		fill(&l, e);
		err = fill_with_results(&l, e);
	}
out:
	free(l.need);
	free(l.summing);
	free(l.grows);
	free(l.seen);
	if (err)
		fan_eval_free(e);
	return err;
}

void fan_eval_free(struct fan_eval *e)
{
	free(e->job_gbps);
	free(e->job_results_gbps);
	free(e->load_gbps);
	memset(e, 0, sizeof *e);
}

double fan_eval_gbps(const struct fan_topo *t, const struct fan_plan *p)
{
	struct fan_eval e;
	int err = fan_eval(&e, t, p, NULL);
	double gbps = err ? err : e.gbps;
	fan_eval_free(&e);
	return gbps;
}
