/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - the steps of algorithms: bounds on the rate, rules, local search, trees, and their
 * shares. */
#ifndef FAN_PLAN_STEPS_H
#define FAN_PLAN_STEPS_H

#include "algorithm.h"
#include "cands.h"
#include "lp.h"
#include "plan.h"
#include "relax.h"

/* ---- bound.c ---- */

/* Rates that no plan can exceed. */

/* The bound without regard to routes, in closed form.  With N workers, a worker sending T, the
 * servers of a job taking in B together, and switches summing C each (or what their links bring): Y
 * = min(B, sum C / N), f = min(T, Y + (B - Y) / N).  The least over the jobs, each taken alone,
 * divided by its weight. */
double fan_bound_closed(const struct fan_cands *c);

/* The lower one of that and the bound from the relaxed program over all routes: flows by target,
 * conserved at every node.  The candidate routes of `c` are not used.  `levels`: sums may be summed
 * again.  The closed form alone if the program has more than FAN_BOUND_COLUMNS columns, takes too
 * many steps, or memory is exhausted. */
double fan_bound(const struct fan_cands *c, bool levels);

/* ---- rules.c ---- */

/* What the algorithms without a linear program share: which switch sums for a host, shortest
 * routes, and trees whose workers send to given switches. */

/* Shortest routes between all nodes that a rule may use.  Of several, a hash chooses one for each
 * pair of nodes, as in switches that spread flows. */
struct fan_rules {
	struct fan_cands c;
	uint64_t seed;	   /* of the hash */
	uint32_t *sums_at; /* by node: the switch that sums for this host, or FAN_NODE_NONE */
};

/* Find up to o->paths routes for each pair, and hosts' switches by o->sums_at.  Errors are those of
 * fan_cands_open. */
int fan_rules_open(struct fan_rules *r, const struct fan_topo *t, const struct fan_plan_options *o);
void fan_rules_close(struct fan_rules *r);

/* Let worker `w` of the tree send to `node`, a switch that sums, or the server.  The first worker
 * at a switch adds the sum's flow.  If there is no route to the switch or from it to the server, or
 * the tree has as many sums as workers, the worker sends to the server. */
void fan_rules_send(const struct fan_rules *r, struct fan_tree *tree, uint32_t w, uint32_t node);

/* Let switch `from` send its sum to switch `to`, which sums it again, if there is a route. */
void fan_rules_stack(const struct fan_rules *r, struct fan_tree *tree, uint32_t from, uint32_t to);

/* Do fan_rules_stack for all sums of the tree. */
void fan_rules_stack_all(const struct fan_rules *r, struct fan_tree *tree, uint32_t to);

/* ---- search.c ---- */

/* Local search on whole flows: it moves one worker or sum at a time to where it loads the fullest
 * resources least.
 *
 * It minimises the sum over all resources of load / capacity to a high power: the fullest resource
 * counts most, and where it cannot be relieved, the others still give a slope.  Results count if
 * the topology's `results` is set. */

enum fan_moves {
	FAN_MOVE_ROUTE, /* other routes to the same places */
	FAN_MOVE_PLACE, /* also other switches that send a sum, or the server */
	FAN_MOVE_OPEN,	/* also switches that send no sum yet */
};

/* Search in up to `passes` passes over all flows, until none moves.  Shares stay, and so do flows
 * of trees that sum on two levels.  On FAN_E_NOMEM `*p` is valid, but may have changed. */
int fan_search(const struct fan_cands *c, struct fan_plan *p, enum fan_moves moves,
	       uint32_t passes);

/* Place the workers whose flow leads to FAN_NODE_NONE: at a sum of the tree (at any switch that can
 * sum if the tree has none), or at the server.  FAN_E_INVALID: a worker has no path. */
int fan_search_mend(const struct fan_cands *c, struct fan_plan *p);

/* Fill tree `i` of the plan, which has no flows yet: place its workers one by one where each costs
 * least at that moment, among the `count` switches of `open` (numbers of candidates). */
int fan_search_fill(const struct fan_cands *c, struct fan_plan *p, uint32_t i, const uint32_t *open,
		    uint32_t count);

/* ---- trees.c ---- */

/* Many trees: the model is split not only over servers but also over trees on each of them, so that
 * no switch is overloaded while others idle.
 *
 * Column generation: a linear program sets the shares of the present trees; its prices tell which
 * links, switches and servers are scarce; the cheapest tree at these prices is added, until none is
 * cheaper than those in use.  To find the cheapest tree is a facility location problem: which
 * switches to open (each costs a flow to the server), and which worker sends where.  It is solved
 * by adding and dropping switches. */

/* Add trees to `*p`, which may have some, fit them, and set all shares.  Stops at `enough_gbps`,
 * when the rate stops growing, after `rounds` rounds, or at the bounds of topo.h.
 *
 * FAN_E_NOMEM, or the errors of fan_lp_solve; `*p` is valid then. */
int fan_trees_grow(const struct fan_cands *c, struct fan_plan *p, double enough_gbps,
		   uint32_t rounds);

/* Grow trees from none until no cheaper one exists, for `exact`.  No plan over these candidates,
 * with any number of trees, has a higher rate than `*bound`, results not counted; 0: unknown, since
 * there are too many sets of switches, or results count.  At most `trees` are kept on each server.
 * FAN_E_NOMEM, or the errors of fan_lp_solve; `*p` is valid then. */
int fan_trees_exact(const struct fan_cands *c, struct fan_plan *p, uint32_t trees, double *bound);

/* ---- master.c ---- */

/* The linear program that decides how much each of many trees carries.
 *
 * It has a column for each tree, and a row for each link, switch or host that trees load.  Of
 * thousands of rows a few dozen matter, so the program begins with few, and is solved again with
 * rows for the resources that its solution overloads, until there are none. */

/* The load that a tree puts on a resource for each Gb/s that it carries. */
struct fan_master_need {
	uint32_t resource;
	float gbps; /* an integer */
};

struct fan_master {
	const struct fan_topo *t;
	struct fan_lp lp; /* column 0: the rate; column i + 1: tree i; row j: job j */
	int *row;	  /* by resource: its row; -1: none yet */
	uint32_t trees, tree_room;
	uint32_t *job;	 /* by tree */
	uint32_t *first; /* by tree, and one more: index of its first in `need` */
	struct fan_master_need *need;
	uint32_t needs, need_room;
	double *of_tree, *load; /* by resource; of_tree is zero except while a tree is added */
	bool *seen;		/* by arc: the tree's results pass it */
	uint64_t steps;		/* of the simplex */
};

/* Begin a program whose rate is at most `most_gbps`.  On FAN_E_NOMEM `*m` is empty. */
int fan_master_open(struct fan_master *m, const struct fan_topo *t, double most_gbps);
void fan_master_close(struct fan_master *m);

/* Add a tree, of which nothing is kept but its loads.  FAN_E_NOMEM */
int fan_master_add(struct fan_master *m, const struct fan_tree *tree);

/* Find the best rate, m->lp.best, with all trees so far.  Errors are those of fan_lp_solve. */
int fan_master_solve(struct fan_master *m);

/* From the last solution: what tree `i` carries in Gb/s (0 if it was added since); the price of one
 * more Gb/s of a resource; the most that one Gb/s of a tree of the job may cost. */
double fan_master_gbps(const struct fan_master *m, uint32_t i);
double fan_master_price(const struct fan_master *m, uint32_t resource);
double fan_master_job_price(const struct fan_master *m, uint32_t job);

/* Set the shares that give the highest rate with these trees, by linear program, and remove trees
 * that carry nothing.  Every job needs a tree.
 *
 * Errors are those of fan_lp_solve; on error the plan is unchanged. */
int fan_pack_shares(const struct fan_topo *t, struct fan_plan *p);

/* How many trees of a job may stay on each of its servers: `tenths` tenths of `most`, or of the
 * number that can be installed if that is lower. */
struct fan_few {
	uint32_t most, tenths;
};

/* As fan_pack_shares, but keep only `few` trees, those that carry most. */
int fan_pack_few(const struct fan_topo *t, struct fan_plan *p, struct fan_few few);

#endif
