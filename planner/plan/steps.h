/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - what algorithms are made of: rates that none can exceed, whole flows from volumes,
 * local search, trees, and their shares. */
#ifndef FAN_PLAN_STEPS_H
#define FAN_PLAN_STEPS_H

#include "algorithm.h"
#include "cands.h"
#include "core/base/rng.h"
#include "plan.h"
#include "relax.h"

/* ---- bound.c ---- */

/* Rates that no plan can exceed. */

/* Without regard to routes: what all servers of a job take in together, what all switches
 * can sum (or their links bring), and what a worker sends.  Closed form: with N workers,
 * Y = min(B, sum C / N), f = min(T, Y + (B - Y) / N).  Least over the jobs, each as if it
 * was alone; by weight. */
double fan_bound_closed(const struct fan_cands *c);

/* The relaxed program over all routes that there are: flows by target, conserved at every
 * node.  No candidate routes enter; those of `c` are not looked at.  `levels`: sums may be
 * summed again.
 *
 * FAN_E_BUSY  larger than FAN_BOUND_COLUMNS, or not solved in time
 * FAN_E_NOMEM */
int fan_bound_flows(const struct fan_cands *c, bool levels, double *gbps);

/* The better of the two; the second only where it is small enough. */
double fan_bound(const struct fan_cands *c, bool levels);

/* ---- round.c ---- */

/* From volumes to whole flows: each worker picks one place at random. */

/* One rounding: for every server each worker picks a switch, or the server, with the
 * probability that its volume has there, and a route of that place likewise; sums pick
 * their routes.  Shares are those of `split` (by job and server, r->servers apart); trees
 * are fitted.
 * FAN_E_NOMEM: `*p` is empty. */
int fan_round(struct fan_plan *p, const struct fan_relax *r, const double *split,
	      struct fan_rng *rng);

/* By o->rounding: o->roundings drawings, of which the best is kept or all become columns, or the
 * one without chance.  Rates of the drawings, before anything improves them, go into `how`.
 * FAN_E_STALLED: none was feasible at all. */
int fan_round_all(struct fan_plan *p, const struct fan_relax *r, const double *split,
		  struct fan_rng *rng, const struct fan_plan_options *o, struct fan_planned *how);

/* ---- search.c ---- */

/* Local search on whole flows: one worker or one sum at a time to where it
 * loads the fullest resources least.
 *
 * It minimises the sum over all resources of load / capacity to a high power: the fullest counts
 * most, and where it cannot be relieved others still give a slope.  Results
 * count where the topology's `results` says so. */

enum fan_moves {
	FAN_MOVE_ROUTE, /* other routes to the same places */
	FAN_MOVE_PLACE, /* and other switches that send a sum, or the server */
	FAN_MOVE_OPEN,	/* and switches that send none so far */
};

/* At most `passes` over all flows; fewer when nothing moves any more.  Shares stay, and so do
 * flows of trees that sum on two levels.
 * FAN_E_NOMEM: `*p` may be changed, and is whole. */
int fan_search(const struct fan_cands *c, struct fan_plan *p, enum fan_moves moves,
	       uint32_t passes);

/* Place the workers whose flow leads to FAN_NODE_NONE: where the tree has a sum, or the server.
 * FAN_E_INVALID: there is no path for one. */
int fan_search_mend(const struct fan_cands *c, struct fan_plan *p);

/* Fill tree number `i` of the plan, which has no flows so far: its workers one by one to
 * the place that is best then, among the `count` switches of `open` (numbers of
 * candidates) and, if `direct`, the server. */
int fan_search_fill(const struct fan_cands *c, struct fan_plan *p, uint32_t i, const uint32_t *open,
		    uint32_t count, bool direct);

/* ---- trees.c ---- */

/* As many trees as it takes: the model is split not over servers alone, but over
 * trees on each of them, so that no fragment is summed by switches that are scarce while
 * others idle.
 *
 * Column generation: a program chooses shares for the trees there are; its prices tell
 * which links, switches and servers are scarce; the cheapest tree at these prices
 * joins them, until none is cheaper than those in use.  The cheapest tree is a facility
 * location problem: which switches to open (each costs a flow to the server), and which
 * worker goes where; solved by adding and dropping. */

/* Add trees to `*p`, which may have some, and set all shares; those that are added are fitted.
 * Stops at `enough_gbps`, when nothing gets better, after so many rounds, or at the bounds of
 * sizes.h.
 *
 * FAN_E_NOMEM, or as fan_lp_solve; `*p` is whole then. */
int fan_trees_grow(const struct fan_cands *c, struct fan_plan *p, double enough_gbps,
		   uint32_t rounds);

/* Grow trees from nothing and to the end, for `exact`: no plan of trees over these candidates,
 * however many, has a higher rate than `*bound`, as the papers count; 0: that is not known, since
 * there are too many sets of switches, or results count.  Then at most `trees` stay on each server.
 * FAN_E_NOMEM, or as fan_lp_solve; `*p` is whole then. */
int fan_trees_exact(const struct fan_cands *c, struct fan_plan *p, uint32_t trees, double *bound);

/* ---- pack.c ---- */

/* Which share of the model each of given trees is to carry. */

/* Shares that make the rate as large as these trees allow, by linear program; trees that
 * carry nothing are removed.  Every job needs a tree.  `price` (may be NULL): by resource,
 * what one more Gb/s of it would add to the rate; `job_price`: by job, what one Gb/s of a
 * tree of it costs at most.
 *
 * As fan_lp_solve; on error the plan is as it was. */
int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p, double *price, double *job_price);

/* How many trees of a job may stay on each of its servers: `most`, or as many as can be installed
 * if these are fewer; and of that so many tenths. */
struct fan_few {
	uint32_t most, tenths;
};

/* As fan_pack_shares, but keeps only `few` trees: those that carry most. */
int fan_pack_few(const struct fan_topo *t, struct fan_plan *p, struct fan_few few);

#endif
