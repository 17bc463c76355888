/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

/* A switch in front of the node `up`, if the plan has one there: who comes to that node comes to
 * it. */
static int add_front(struct run *r, unsigned place, unsigned *fronts, int up,
		     const struct sim_link *link)
{
	const struct plan *p = &r->plan;
	if (!p->fronts[place])
		return up;
	struct host_node *h = &r->shared[*fronts];
	host_switch_init(h, &r->sim, link, &p->shared[(*fronts)++], up);
	h->mark = p->mark;
	h->restart_at = place == 1 ? p->shared_restart : 0;
	sim_wake(&r->sim, h->node);
	return h->node;
}

static struct fan_aggregator_config config_of(const struct run *r, unsigned leaf)
{
	struct fan_aggregator_config c = r->plan.sw;
	c.siblings = (uint16_t)r->plan.leaves;
	c.index = (uint16_t)leaf;
	c.nonce = fan_rng_mix(r->plan.seed + leaf);
	c.secret.k[1] += leaf + 1;
	c.group_base[2] ^= (uint8_t)(leaf + 1);
	return c;
}

/* The ranks of a job from `first` on, of `ranks`, are at this leaf. */
static uint16_t first_of(unsigned ranks, unsigned leaves, unsigned leaf)
{
	return (uint16_t)((leaf * ranks + leaves - 1) / leaves);
}

static void seat(struct run *r, struct host_worker *w, const int *at)
{
	unsigned ranks = w->job->cfg.ranks, leaves = r->plan.leaves,
		 leaf = w->rank * leaves / ranks;
	uint16_t first = first_of(ranks, leaves, leaf);
	host_worker_join_few(w, first, (uint16_t)(first_of(ranks, leaves, leaf + 1) - first));
	r->sim.node[w->node].up = at[leaf];
}

void tree_begin(struct run *r)
{
	struct sim_link link = r->plan.link;
	unsigned fronts = 0;
	int at[PLAN_LEAVES_MAX];
	link.loss /= r->plan.same_loss ? 1 : 4; /* as in add_shared */
	link.burst = 0;
	int top = add_front(r, 0, &fronts, SIM_SWITCH, &link);
	for (unsigned i = 0; i < r->plan.leaves; i++) {
		const struct fan_aggregator_config c = config_of(r, i);
		host_aggregator_init_below(&r->leaf[i], &r->sim, &link, &c, top);
		at[i] = add_front(r, i + 1, &fronts, r->leaf[i].node, &link);
	}
	for (unsigned i = 0; i < r->workers; i++)
		seat(r, &r->worker[i], at);
}

void tree_check_empty(const struct run *r)
{
	for (unsigned i = 0; i < r->plan.leaves; i++) {
		struct fan_report report = {.index = 0};
		fan_aggregator_report(r->leaf[i].aggregator, &report);
		SIM_CHECK(&r->sim, report.jobs == 0, "%u jobs are left below, state %u err %d",
			  report.jobs, report.state, report.err);
	}
}

void tree_free(struct run *r)
{
	for (unsigned i = 0; i < r->plan.leaves; i++)
		host_node_free(&r->leaf[i]);
}
