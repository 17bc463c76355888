/* SPDX-License-Identifier: Apache-2.0 */
/* plan_table.c - prints plans as tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "plan.h"
#include "plan/report.h"

#define TREES_SHOWN 12
#define LOADS_SHOWN 12
#define SUMS_SHOWN  6
#define NAME_BYTES  160
#define PERCENT	    100

static void print_sums(const struct fan_topo *t, const struct fan_tree *tree)
{
	uint32_t straight = 0;

	for (uint32_t k = 0; k < tree->sums && k < SUMS_SHOWN; k++) {
		uint32_t node = tree->flow[tree->workers + k].from, n = 0;
		for (uint32_t w = 0; w < tree->workers; w++)
			n += tree->flow[w].to == node;
		printf("  %s (%u)", t->node[node].name, n);
	}
	if (tree->sums > SUMS_SHOWN)
		printf("  and %u more switches", tree->sums - SUMS_SHOWN);
	for (uint32_t w = 0; w < tree->workers; w++)
		straight += tree->flow[w].to == tree->server;
	if (straight)
		printf("  server (%u)", straight);
	printf("\n");
}

static void print_trees(const struct fan_topo *t, const struct fan_plan *p)
{
	printf("\n%-16s %-12s %8s   summed at (by how many workers)\n", "job", "server", "share");
	for (uint32_t i = 0; i < p->trees && i < TREES_SHOWN; i++) {
		const struct fan_tree *tree = &p->tree[i];
		printf("%-16s %-12s %6.2f %% ", t->job[tree->job].name, t->node[tree->server].name,
		       PERCENT * tree->share);
		print_sums(t, tree);
	}
	if (p->trees > TREES_SHOWN)
		printf("... and %u trees more; --json has them all\n", p->trees - TREES_SHOWN);
}

/* A resource and how full it is. */
struct full {
	uint32_t resource;
	double part;
};

static int fuller(const void *a, const void *b)
{
	const struct full *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? 1 : -1;
	return x->resource < y->resource ? -1 : 1;
}

static void print_loads(const struct fan_topo *t, const struct fan_eval *e)
{
	uint32_t resources = fan_topo_resources(t), count = 0;
	struct full *f = calloc(resources + 1, sizeof *f);
	char name[NAME_BYTES];

	if (!f)
		return;
	for (uint32_t r = 0; r < resources; r++)
		if (isfinite(t->cap[r]) && t->cap[r] > 0 && e->load_gbps[r] > 0)
			f[count++] = (struct full){r, e->load_gbps[r] / t->cap[r]};
	qsort(f, count, sizeof *f, fuller);
	printf("\n%-32s %10s %10s %8s\n", "fullest", "Gb/s", "free for it", "load");
	for (uint32_t i = 0; i < count && i < LOADS_SHOWN; i++) {
		fan_resource_text(t, f[i].resource, name, sizeof name);
		printf("%-32s %10.4g %11.4g %6.1f %%\n", name, e->load_gbps[f[i].resource],
		       t->cap[f[i].resource], PERCENT * f[i].part);
	}
	free(f);
}

void plan_print(const struct fan_topo *t, const struct plan_result *r)
{
	char name[NAME_BYTES];

	printf("%s: %.6g Gb/s for every worker", r->algorithm->name, r->eval.gbps);
	if (r->bound_gbps > 0)
		printf("; no plan gives more than %.6g (gap %.1f %%)", r->bound_gbps,
		       PERCENT * fan_report_gap(r->eval.gbps, r->bound_gbps));
	printf("; made in %.3g s\n", r->seconds);
	if (r->how.proven)
		printf("proven: no plan that sums once gives more over these routes, with as many trees "
		       "on a server\n");
	if (r->eval.binding != UINT32_MAX) {
		fan_resource_text(t, r->eval.binding, name, sizeof name);
		printf("%s is full first\n", name);
	}
	if (t->results)
		printf("%.6g Gb/s for gradients alone, as papers count\n", r->eval.gradients_gbps);
	else
		printf("%.6g Gb/s with the results that come back over the same links\n",
		       r->eval.with_results_gbps);
	if (r->how.drawings > 1)
		printf("%u drawings: %.6g to %.6g Gb/s, %.6g on the mean\n", r->how.drawings,
		       r->how.least_gbps, r->how.most_gbps, r->how.mean_gbps);
	if (r->refused.text[0])
		printf("cannot be installed: %s\n", r->refused.text);
	for (uint32_t j = 0; j < t->jobs && t->jobs > 1; j++)
		printf("job %-16s %10.6g Gb/s\n", t->job[j].name, r->eval.job_gbps[j]);
	print_trees(t, &r->plan);
	print_loads(t, &r->eval);
}

void plan_print_all(const struct plan_result *r, unsigned count)
{
	double geryon = 0;

	printf("%-9s %12s %12s %12s %8s %9s %7s %9s\n", "algorithm", "gradients", "with results",
	       "bound", "gap", "x geryon", "trees", "seconds");
	for (unsigned i = 0; i < count; i++) {
		if (r[i].err) {
			printf("%-9s %12s   %s\n", r[i].algorithm->name, "-",
			       r[i].err == FAN_E_BUSY ? "this instance is too large for it"
						      : fan_err_text(r[i].err));
			continue;
		}
		if (i == 0)
			geryon = r[i].eval.gbps;
		printf("%-9s %12.6g %12.6g %12.6g %6.1f %% %9.3g %7u %9.3f%s\n",
		       r[i].algorithm->name, r[i].eval.gradients_gbps, r[i].eval.with_results_gbps,
		       r[i].bound_gbps, PERCENT * fan_report_gap(r[i].eval.gbps, r[i].bound_gbps),
		       geryon > 0 ? r[i].eval.gbps / geryon : 0, r[i].plan.trees, r[i].seconds,
		       r[i].refused.text[0] ? "  cannot be installed" : "");
	}
}
