/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "fit.h"
#include "master.h"
#include "steps.h"

#define KEEP_OF_TEN 8	 /* tenths of the trees that one step towards few keeps */
#define SHARE_MIN   1e-7 /* a tree that carries less is removed */

static void take_shares(const struct fan_master *m, struct fan_plan *p)
{
	for (uint32_t j = 0; j < m->t->jobs; j++) {
		double sum = 0, kept = 0;
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j)
				sum += fan_master_gbps(m, i);
		if (!(sum > 0))
			continue; /* no tree can carry anything: keep the shares */
		for (uint32_t i = 0; i < p->trees; i++) {
			if (p->tree[i].job != j)
				continue;
			double share = fan_master_gbps(m, i) / sum;
			p->tree[i].share = share < SHARE_MIN ? 0 : share;
			kept += p->tree[i].share;
		}
		for (uint32_t i = 0; i < p->trees; i++)
			if (p->tree[i].job == j)
				p->tree[i].share /= kept;
	}
}

static void drop_empty(struct fan_plan *p)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->trees; i++) {
		if (p->tree[i].share > 0)
			p->tree[kept++] = p->tree[i];
		else
			free(p->tree[i].flow);
	}
	p->trees = kept;
}

int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p, double *price, double *job_price)
{
	struct fan_master m;
	int err = fan_master_open(&m, t, FAN_TOPO_GBPS_MAX);

	if (err)
		return err;
	for (uint32_t i = 0; i < p->trees && !err; i++)
		err = fan_master_add(&m, &p->tree[i]);
	if (!err)
		err = fan_master_solve(&m);
	for (uint32_t r = 0; r < fan_topo_resources(t) && price && !err; r++)
		price[r] = fan_master_price(&m, r);
	for (uint32_t j = 0; j < t->jobs && job_price && !err; j++)
		job_price[j] = fan_master_job_price(&m, j);
	if (!err) {
		take_shares(&m, p);
		if (!price)
			drop_empty(p);
	}
	fan_master_close(&m);
	return err;
}

/* How many trees of its job and server carry more than tree `i`, or as much and come earlier. */
static uint32_t rank_of(const struct fan_plan *p, uint32_t i)
{
	const struct fan_tree *a = &p->tree[i];
	uint32_t rank = 0;

	for (uint32_t k = 0; k < p->trees; k++) {
		const struct fan_tree *b = &p->tree[k];
		if (b->job == a->job && b->server == a->server &&
		    (b->share > a->share || (b->share == a->share && k < i)))
			rank++;
	}
	return rank;
}

/* How many trees may stay on the server of tree `i`. */
static uint32_t limit_of(const struct fan_topo *t, const struct fan_plan *p, uint32_t i,
			 const struct fan_few *few)
{
	return fan_fit_trees(t, p->tree[i].job, p->tree[i].server, few->most) * few->tenths / 10;
}

/* Remove the trees that carry least, so that KEEP_OF_TEN in ten, or the limit if that is more, are
 * left on each server.  False: no memory. */
static bool cut(const struct fan_topo *t, struct fan_plan *p, const struct fan_few *few)
{
	bool *drop = calloc(p->trees + 1, sizeof *drop);

	if (!drop)
		return false;
	for (uint32_t i = 0; i < p->trees; i++) {
		uint32_t limit = limit_of(t, p, i, few), all = 0;
		for (uint32_t k = 0; k < p->trees; k++)
			all += p->tree[k].job == p->tree[i].job &&
			       p->tree[k].server == p->tree[i].server;
		uint32_t next = all * KEEP_OF_TEN / 10;
		drop[i] = rank_of(p, i) >= (next > limit ? next : limit);
	}
	for (uint32_t i = 0; i < p->trees; i++)
		if (drop[i])
			p->tree[i].share = 0;
	free(drop);
	drop_empty(p);
	return true;
}

static bool are_few(const struct fan_topo *t, const struct fan_plan *p, const struct fan_few *few)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (rank_of(p, i) >= limit_of(t, p, i, few))
			return false;
	return true;
}

int fan_pack_few(const struct fan_topo *t, struct fan_plan *p, struct fan_few few)
{
	int err = fan_pack_shares(t, p, NULL, NULL);

	while (!err && !are_few(t, p, &few)) {
		if (!cut(t, p, &few))
			return FAN_E_NOMEM;
		err = fan_pack_shares(t, p, NULL, NULL);
	}
	return err;
}
