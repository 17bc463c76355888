/* SPDX-License-Identifier: Apache-2.0 */
/* algorithm.h - the algorithms that make plans, and mend them. */
#ifndef FAN_PLAN_ALGORITHM_H
#define FAN_PLAN_ALGORITHM_H

#include "plan.h"

/* ---- algorithm.c ---- */

/* The algorithms that make plans, by name.
 *
 * All are functions of topology, options and seed.  Each leaves a whole plan, that fan_eval
 * accepts, or an error and an empty one. */

/* Which switch sums for a host, under the rules of switchml and atp.  doc/adr/0009 */
enum fan_sums_at {
	FAN_SUMS_NEAREST,    /* the nearest one that can sum: GRID's public simulation */
	FAN_SUMS_RACK,	     /* its rack switch, if that can sum */
	FAN_SUMS_TWO_LEVELS, /* the nearest one to the worker, and then that to the server: ATP */
};

/* Which of many solutions of a relaxed program with the same rate: the one that loads least,
 * with short routes; or that fills the most able switches first, and so needs few. */
enum fan_vertex { FAN_VERTEX_SHORT, FAN_VERTEX_FEW };

/* How volumes become whole flows, for grid and inart. */
enum fan_rounding {
	FAN_ROUND_RANDOM, /* at random, as published; the best of o->roundings */
	FAN_ROUND_SEARCH, /* at random, each followed by local search; the best */
	/* at random; a program sets shares of all of them, as trees of one plan */
	FAN_ROUND_COLUMNS,
};

struct fan_plan_options {
	uint64_t seed;
	uint32_t paths;	    /* candidate routes between two nodes */
	uint32_t roundings; /* of a relaxed plan; the best is kept; 1: as the papers have it */
	uint32_t trees;	    /* of one job on one server, for `best`; 1: as in the papers */
	uint32_t nodes;	    /* of branch and bound, for `exact`: more are not looked at */
	uint32_t choices;   /* whole numbers to be found, for `exact`: more are refused */
	enum fan_vertex vertex;
	enum fan_rounding rounding;
	enum fan_sums_at sums_at;
	const struct fan_plan *start; /* `best` is never worse than this one; NULL: none */
};

extern const struct fan_plan_options fan_plan_defaults;

/* May a sum be summed again at another switch, in all plans? */
static inline bool fan_plan_levels(const struct fan_plan_options *o)
{
	return o->sums_at == FAN_SUMS_TWO_LEVELS;
}

/* What a plan was made with, beside itself. */
struct fan_planned {
	double bound_gbps; /* no plan over its candidate routes is better; 0: it does not know */
	/* `exact` only: no plan of as many trees over these candidates that sums once is better, as
	 * the papers count */
	bool proven;
	uint32_t drawings; /* random roundings that were feasible, and their rates; 0: none */
	double least_gbps, mean_gbps, most_gbps;
};

struct fan_algorithm {
	const char *name;
	/* FAN_E_BUSY    too large for this algorithm
	 * FAN_E_STALLED no plan within its bounds
	 * FAN_E_INVALID a worker is too far from its server
	 * FAN_E_NOMEM */
	int (*run)(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		   struct fan_planned *how);
	/* Mend `*p` after something changed; NULL: it cannot.  As `run`. */
	int (*mend)(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		    struct fan_planned *how);
};

/* All of them: name, the function that plans, and the one that mends, or NULL.
 *
 * geryon    no aggregation; equal split
 * lbmm      no aggregation; split by what servers can take in
 * switchml  the switch near the worker sums, whatever it can
 * atp       that while it can, then that near the server, then the server
 * grid      linear program, randomized rounding; equal split
 * inart     split by linear program, then place and route by another
 * exact     column generation to its end; with one tree, branch and bound; small instances
 * best      all of these, consolidation, local search, and several trees */
#define FAN_ALGORITHMS(X)                                                                          \
	X(geryon, fan_geryon, NULL)                                                                \
	X(lbmm, fan_lbmm, NULL)                                                                    \
	X(switchml, fan_round_outcome, NULL)                                                       \
	X(atp, fan_atp, NULL)                                                                      \
	X(grid, fan_grid, fan_grid_mend)                                                           \
	X(inart, fan_inart, fan_inart_mend)                                                        \
	X(exact, fan_exact, NULL)                                                                  \
	X(best, fan_best, fan_best_mend)

/* In this order. */
extern const struct fan_algorithm fan_algorithms[];
extern const uint32_t fan_algorithm_count;

/* NULL if there is none. */
const struct fan_algorithm *fan_algorithm_find(const char *name);

/* The algorithms, one file each or two. */
typedef int fan_algorithm_run(const struct fan_topo *t, const struct fan_plan_options *o,
			      struct fan_plan *p, struct fan_planned *how);
#define FAN_X(name, run, mend) fan_algorithm_run run;
FAN_ALGORITHMS(FAN_X)
#undef FAN_X
fan_algorithm_run fan_grid_mend, fan_inart_mend, fan_best_mend;

/* ---- replan.c ---- */

/* A plan for what has changed, from the plan that there was.
 *
 * A switch or link failed or is busier, a job came or went: flows that still can stay where
 * they are, others are placed anew one by one, jobs without trees get some, and the
 * program of shares balances them all.  Nothing is relaxed or rounded again. */

/* Mend `*p` for the topology as it is now: what failed has no capacity left (background
 * load as large as its rate, then fan_topo_refresh), or is not in it any more, and then
 * flows over it lead to FAN_NODE_NONE.  Numbers of nodes and jobs are those of `t`.
 *
 * As the algorithms; on error `*p` is empty. */
int fan_replan(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p);

/* As fan_replan, for trees whose workers are at work: each keeps its server and its share, and jobs
 * without trees get none.  Flows that lead over what is gone are placed anew; if there are any, or
 * if `look`, all of them are looked at again: other paths are taken where they give `worth` times
 * the rate. */
int fan_replan_paths(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		     double worth, bool look);

#endif
