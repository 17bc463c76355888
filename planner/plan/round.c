/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "eval.h"
#include "fit.h"
#include "steps.h"

/* Pick one of `count` columns from `first` on, at random by volume; the first if all are zero. */
static uint32_t pick(const struct fan_relax *r, int first, uint32_t count, struct fan_rng *rng)
{
	double at = fan_rng_unit(rng) * fan_relax_volume(r, first, count);

	for (uint32_t i = 0; i < count; i++) {
		at -= fan_relax_volume(r, first + (int)i, 1);
		if (at < 0)
			return i;
	}
	return 0;
}

/* Pick a candidate sum, or c->sums for the server itself. */
static uint32_t pick_place(const struct fan_relax *r, uint32_t g, uint32_t s, struct fan_rng *rng)
{
	uint32_t sums = r->c->sums;
	double all = 0;

	for (uint32_t v = 0; v <= sums; v++)
		all += fan_relax_volume(r, fan_relax_q(r, g, s, v),
					fan_relax_q_routes(r, g, s, v).count);
	double at = fan_rng_unit(rng) * all;
	for (uint32_t v = 0; v <= sums; v++) {
		at -= fan_relax_volume(r, fan_relax_q(r, g, s, v),
				       fan_relax_q_routes(r, g, s, v).count);
		if (at < 0)
			return v;
	}
	return sums;
}

static void round_group(const struct fan_relax *r, uint32_t g, uint32_t s, struct fan_tree *tree,
			struct fan_rng *rng)
{
	const struct fan_cands *c = r->c;

	for (uint32_t i = 0; i < c->group[g].count; i++) {
		uint32_t v = pick_place(r, g, s, rng);
		struct fan_span span = fan_relax_q_routes(r, g, s, v);
		uint32_t route = span.first + pick(r, fan_relax_q(r, g, s, v), span.count, rng);
		uint32_t w = c->member[c->group[g].first + i];
		fan_cands_flow(c, &c->group[g], route, &tree->flow[w]);
		if (v == c->sums || fan_tree_sum(tree, c->sum[v]))
			continue;
		span = fan_relax_z_routes(r, tree->job, s, v);
		route = span.first + pick(r, fan_relax_z(r, tree->job, s, v), span.count, rng);
		fan_tree_add_sum(tree, c->sum[v])->route = c->route[route];
	}
}

int fan_round(struct fan_plan *p, const struct fan_relax *r, const double *split,
	      struct fan_rng *rng)
{
	const struct fan_topo *t = r->c->t;

	fan_plan_init(p);
	for (uint32_t j = 0; j < t->jobs; j++) {
		for (uint32_t s = 0; s < t->job[j].servers; s++) {
			double share = split[j * r->servers + s];
			if (!(share > 0))
				continue;
			struct fan_tree *tree = fan_plan_add(p, t, j, t->job[j].server[s], share);
			if (!tree) {
				fan_plan_free(p);
				return FAN_E_NOMEM;
			}
			for (uint32_t g = 0; g < r->c->groups; g++)
				if (r->c->group[g].job == j)
					round_group(r, g, s, tree, rng);
		}
	}
	int err = fan_fit_plan(t, p);
	if (err)
		fan_plan_free(p);
	return err;
}

/* ---- all drawings ---- */

static void note_rate(struct fan_planned *how, double gbps)
{
	how->least_gbps = how->drawings ? fmin(how->least_gbps, gbps) : gbps;
	how->most_gbps = how->drawings ? fmax(how->most_gbps, gbps) : gbps;
	how->mean_gbps += (gbps - how->mean_gbps) / ++how->drawings;
}

/* Take the plan after local search if its rate is higher. */
static int improve(struct fan_plan *p, const struct fan_relax *r)
{
	const struct fan_topo *t = r->c->t;
	struct fan_plan other;
	int err = fan_plan_copy(&other, p);

	if (!err)
		err = fan_search(r->c, &other, FAN_MOVE_PLACE, FAN_SEARCH_PASSES);
	if (!err)
		err = fan_fit_plan(t, &other);
	if (!err && fan_eval_gbps(t, &other) > fan_eval_gbps(t, p))
		fan_plan_move(p, &other);
	fan_plan_free(&other);
	if (err)
		fan_plan_free(p);
	return err;
}

/* Make one drawing, and improve it if `rounding` says so. */
static int draw(struct fan_plan *p, const struct fan_relax *r, const double *split,
		struct fan_rng *rng, enum fan_rounding rounding, struct fan_planned *how)
{
	int err = fan_round(p, r, split, rng);

	if (err)
		return err;
	note_rate(how, fan_eval_gbps(r->c->t, p));
	return rounding == FAN_ROUND_SEARCH ? improve(p, r) : FAN_OK;
}

int fan_round_all(struct fan_plan *p, const struct fan_relax *r, const double *split,
		  struct fan_rng *rng, const struct fan_plan_options *o, struct fan_planned *how)
{
	double best = -1;
	int err = FAN_OK;

	fan_plan_init(p);
	for (uint32_t i = 0; i < o->roundings && !err; i++) {
		struct fan_plan next;
		err = draw(&next, r, split, rng, o->rounding, how);
		double gbps = err ? err : fan_eval_gbps(r->c->t, &next);
		if (!err && o->rounding == FAN_ROUND_COLUMNS &&
		    p->trees + next.trees <= FAN_TREES_MAX) {
			for (uint32_t k = 0; k < next.trees && !err; k++)
				if (!fan_plan_add_like(p, r->c->t, &next.tree[k]))
					err = FAN_E_NOMEM;
			best = 0;
		} else if (gbps > best) {
			best = gbps;
			fan_plan_move(p, &next);
		}
		fan_plan_free(&next);
	}
	if (!err && o->rounding == FAN_ROUND_COLUMNS)
		err = fan_pack_few(r->c->t, p, (struct fan_few){o->trees, 10});
	if (err)
		fan_plan_free(p);
	return err ? err : best >= 0 ? FAN_OK : FAN_E_STALLED;
}
