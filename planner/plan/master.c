/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "eval.h"
#include "fit.h"
#include "steps.h"

#define ROWS 50	  /* rows added at once */
#define OVER 1e-8 /* relative: overload that counts as rounding error */

int fan_master_open(struct fan_master *m, const struct fan_topo *t, double most_gbps)
{
	uint32_t resources = fan_topo_resources(t);
	memset(m, 0, sizeof *m);
	m->t = t;
	m->row = calloc(resources + 1, sizeof *m->row);
	m->of_tree = calloc(resources + 1, sizeof *m->of_tree);
	m->load = calloc(resources + 1, sizeof *m->load);
	m->seen = calloc(2 * (size_t)t->links + 1, sizeof *m->seen);
	m->first = calloc(1, sizeof *m->first);
	if (!m->row || !m->of_tree || !m->load || !m->seen || !m->first) {
		fan_master_close(m);
		return FAN_E_NOMEM;
	}
	memset(m->row, 0xff, (resources + 1) * sizeof *m->row);
	for (uint32_t j = 0; j < t->jobs; j++)
		fan_lp_row(&m->lp, 0, 0);
	fan_lp_col(&m->lp, 0, most_gbps, 1);
	for (uint32_t j = 0; j < t->jobs; j++)
		fan_lp_put(&m->lp, (int)j, -t->job[j].weight);
	return FAN_OK;
}

void fan_master_close(struct fan_master *m)
{
	fan_lp_free(&m->lp);
	free(m->row);
	free(m->of_tree);
	free(m->load);
	free(m->seen);
	free(m->first);
	free(m->job);
	free(m->need);
	memset(m, 0, sizeof *m);
}

/* ---- columns ---- */

static void count_flow(struct fan_master *m, const struct fan_flow *f, bool worker)
{
	for (uint32_t i = 0; i < f->route.hops; i++)
		m->of_tree[f->route.arc[i]] += 1;
	if (worker)
		m->of_tree[fan_node_resource(m->t, f->from)] += 1;
	m->of_tree[fan_node_resource(m->t, f->to)] += 1;
}

/* Keep the needs in m->of_tree of limited resources, and clear m->of_tree. */
static int keep_needs(struct fan_master *m)
{
	uint32_t resources = fan_topo_resources(m->t);
	if (m->needs + resources > m->need_room) {
		uint32_t room = 2 * m->need_room + resources;
		void *moved = realloc(m->need, room * sizeof *m->need);
		if (!moved)
			return FAN_E_NOMEM;
		m->need = moved;
		m->need_room = room;
	}
	for (uint32_t r = 0; r < resources; r++) {
		if (m->of_tree[r] > 0 && isfinite(m->t->cap[r]))
			m->need[m->needs++] = (struct fan_master_need){r, (float)m->of_tree[r]};
		m->of_tree[r] = 0;
	}
	return FAN_OK;
}

static bool make_room(struct fan_master *m)
{
	uint32_t room = 2 * m->tree_room + 64;
	if (m->trees + 2 <= m->tree_room)
		return true;
	void *first = realloc(m->first, room * sizeof *m->first);
	if (first)
		m->first = first;
	void *job = realloc(m->job, room * sizeof *m->job);
	if (job)
		m->job = job;
	if (first && job)
		m->tree_room = room;
	return first && job;
}

int fan_master_add(struct fan_master *m, const struct fan_tree *tree)
{
	if (!make_room(m))
		return FAN_E_NOMEM;
	for (uint32_t i = 0; i < tree->workers + tree->sums; i++)
		count_flow(m, &tree->flow[i], i < tree->workers);
	if (m->t->results)
		fan_tree_add_results(m->t, tree, 1, m->seen, m->of_tree);
	int err = keep_needs(m);
	if (err)
		return err;
	m->job[m->trees] = tree->job;
	m->first[++m->trees] = m->needs;
	return FAN_OK;
}

/* Begin with the row of the resource that each tree fills first. */
static void begin(struct fan_master *m)
{
	for (uint32_t i = 0; i < m->trees; i++) {
		uint32_t fullest = UINT32_MAX;
		double most = 0;
		for (uint32_t n = m->first[i]; n < m->first[i + 1]; n++) {
			double by = m->need[n].gbps / fmax(m->t->cap[m->need[n].resource], OVER);
			if (by > most) {
				most = by;
				fullest = m->need[n].resource;
			}
		}
		if (fullest != UINT32_MAX && m->row[fullest] < 0)
			m->row[fullest] = fan_lp_row(&m->lp, -INFINITY, m->t->cap[fullest]);
	}
}

/* Add columns for the trees that have none yet, with entries in the present rows. */
static void add_columns(struct fan_master *m)
{
	for (uint32_t i = (uint32_t)m->lp.cols - 1; i < m->trees; i++) {
		fan_lp_col(&m->lp, 0, INFINITY, 0);
		fan_lp_put(&m->lp, (int)m->job[i], 1);
		for (uint32_t n = m->first[i]; n < m->first[i + 1]; n++)
			if (m->row[m->need[n].resource] >= 0)
				fan_lp_put(&m->lp, m->row[m->need[n].resource], m->need[n].gbps);
	}
}

/* ---- rows ---- */

/* An overloaded resource. */
struct over {
	double by; /* load / capacity */
	uint32_t resource;
};

static int compare(const void *a, const void *b)
{
	const struct over *x = a, *y = b;
	if (x->by != y->by)
		return x->by > y->by ? -1 : 1;
	return x->resource < y->resource ? -1 : x->resource > y->resource;
}

/* Add a row for a resource, with entries for all trees. */
static void put_row(struct fan_master *m, uint32_t resource, struct fan_lp_rows *rows)
{
	for (uint32_t i = 0; i < m->trees; i++) {
		uint32_t low = m->first[i], high = m->first[i + 1];
		while (low < high) {
			uint32_t mid = low + (high - low) / 2;
			if (m->need[mid].resource < resource)
				low = mid + 1;
			else
				high = mid;
		}
		if (low < m->first[i + 1] && m->need[low].resource == resource) {
			rows->col[rows->entries] = (int)i + 1;
			rows->value[rows->entries++] = m->need[low].gbps;
		}
	}
	m->row[resource] = fan_lp_row(&m->lp, -INFINITY, m->t->cap[resource]);
	rows->start[++rows->count] = rows->entries;
}

static int add_rows(struct fan_master *m, const struct over *over, uint32_t count)
{
	size_t most = (size_t)count * m->trees + 1;
	struct fan_lp_rows rows = {.start = calloc(count + 1, sizeof *rows.start),
				   .col = calloc(most, sizeof *rows.col),
				   .value = calloc(most, sizeof *rows.value)};
	int err = FAN_E_NOMEM;
	if (rows.start && rows.col && rows.value) {
		for (uint32_t i = 0; i < count; i++)
			put_row(m, over[i].resource, &rows);
		err = fan_lp_rows_warm(&m->lp, &rows);
	}
	free(rows.start);
	free(rows.col);
	free(rows.value);
	return err;
}

/* Add rows for resources that the solution overloads most.  Returns their number, 0 if none is
 * overloaded, or an error. */
static int mend(struct fan_master *m)
{
	uint32_t resources = fan_topo_resources(m->t), count = 0;
	struct over *over = calloc(resources + 1, sizeof *over);
	int err = FAN_E_NOMEM;
	memset(m->load, 0, resources * sizeof *m->load);
	for (uint32_t i = 0; i < m->trees; i++)
		for (uint32_t n = m->first[i]; n < m->first[i + 1] && m->lp.x[i + 1] > 0; n++)
			m->load[m->need[n].resource] += m->lp.x[i + 1] * m->need[n].gbps;
	for (uint32_t r = 0; r < resources && over; r++)
		if (m->row[r] < 0 && m->load[r] > m->t->cap[r] * (1 + OVER) + OVER)
			over[count++] = (struct over){m->load[r] / fmax(m->t->cap[r], OVER), r};
	if (over) {
		qsort(over, count, sizeof *over, compare);
		if (count > ROWS)
			count = ROWS;
		err = count ? add_rows(m, over, count) : FAN_OK;
	}
	free(over);
	return err ? err : (int)count;
}

int fan_master_solve(struct fan_master *m)
{
	int more = 1;
	if (!m->lp.warm)
		begin(m);
	add_columns(m);
	int err = fan_lp_solve_warm(&m->lp, &m->steps);
	while (!err && more > 0) {
		more = mend(m);
		if (more)
			err = more < 0 ? more : fan_lp_solve_warm(&m->lp, &m->steps);
	}
	return err;
}

double fan_master_gbps(const struct fan_master *m, uint32_t i)
{
	return (int)i + 1 < m->lp.warm_cols ? fmax(m->lp.x[i + 1], 0) : 0;
}

double fan_master_price(const struct fan_master *m, uint32_t resource)
{
	return m->row[resource] < 0 || !m->lp.price ? 0 : fabs(m->lp.price[m->row[resource]]);
}

double fan_master_job_price(const struct fan_master *m, uint32_t job)
{
	return m->lp.price ? fabs(m->lp.price[job]) : INFINITY;
}

/* ---- the share of the model that each tree carries ---- */

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

int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p)
{
	struct fan_master m;
	int err = fan_master_open(&m, t, FAN_TOPO_GBPS_MAX);
	if (err)
		return err;
	for (uint32_t i = 0; i < p->trees && !err; i++)
		err = fan_master_add(&m, &p->tree[i]);
	if (!err)
		err = fan_master_solve(&m);
	if (!err) {
		take_shares(&m, p);
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
	int err = fan_pack_shares(t, p);
	while (!err && !are_few(t, p, &few)) {
		if (!cut(t, p, &few))
			return FAN_E_NOMEM;
		err = fan_pack_shares(t, p);
	}
	return err;
}
