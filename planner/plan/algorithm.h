/* SPDX-License-Identifier: Apache-2.0 */
/* algorithm.h - the algorithms that make and mend plans. */
#ifndef FAN_PLAN_ALGORITHM_H
#define FAN_PLAN_ALGORITHM_H

#include "plan.h"

/* ---- algorithm.c ---- */

/* The algorithms that make plans, by name.
 *
 * The result depends only on topology, options and seed.  Each algorithm leaves a complete plan,
 * which fan_eval accepts, or returns an error and leaves an empty plan. */

/* Which switch sums for a host under the rules of switchml and atp (doc/adr/0009). */
enum fan_sums_at {
	FAN_SUMS_NEAREST,    /* the nearest that can sum, as in GRID's public simulation */
	FAN_SUMS_RACK,	     /* its rack switch, if that can sum */
	FAN_SUMS_TWO_LEVELS, /* the nearest to the worker, then to the server: ATP */
};

/* Many solutions of a relaxed program have the same rate.  SHORT takes the one with the least load
 * and short routes; FEW fills the switches of highest capacity first, so it needs few of them. */
enum fan_vertex { FAN_VERTEX_SHORT, FAN_VERTEX_FEW };

/* How grid and inart round volumes to whole flows. */
enum fan_rounding {
	FAN_ROUND_RANDOM, /* at random, as published; best of o->roundings */
	FAN_ROUND_SEARCH, /* at random, then local search; best of o->roundings */
	/* at random; all drawings become trees of one plan, and a program sets their shares */
	FAN_ROUND_COLUMNS,
};

struct fan_plan_options {
	uint64_t seed;
	uint32_t paths;	    /* most candidate routes between two nodes */
	uint32_t roundings; /* of a relaxed plan, the best of which is kept; 1: as in the papers */
	uint32_t trees;	    /* most trees of one job on one server; 1: as in the papers */
	uint32_t nodes;	    /* most nodes of branch and bound in `exact` */
	uint32_t choices;   /* most integer variables in `exact`; larger instances are refused */
	enum fan_vertex vertex;
	enum fan_rounding rounding;
	enum fan_sums_at sums_at;
	const struct fan_plan *start; /* `best` starts from it and is never worse; NULL: none */
};

extern const struct fan_plan_options fan_plan_defaults;

/* May plans sum a sum again at another switch? */
static inline bool fan_plan_levels(const struct fan_plan_options *o)
{
	return o->sums_at == FAN_SUMS_TWO_LEVELS;
}

/* What an algorithm found out beside the plan. */
struct fan_planned {
	double bound_gbps; /* no plan over the candidate routes exceeds it; 0: unknown */
	/* `exact` only: no plan with as many trees over these candidates that sums once has a
	 * higher rate, results not counted */
	bool proven;
	uint32_t drawings; /* feasible random roundings, and their rates below; 0: none */
	double least_gbps, mean_gbps, most_gbps;
};

struct fan_algorithm {
	const char *name;
	/* FAN_E_BUSY    the instance is too large for this algorithm
	 * FAN_E_STALLED no plan was found within its bounds
	 * FAN_E_INVALID a worker is too far from its server
	 * FAN_E_NOMEM */
	int (*run)(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		   struct fan_planned *how);
	/* Mend `*p` after a change.  NULL: the algorithm cannot.  Errors are those of `run`. */
	int (*mend)(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		    struct fan_planned *how);
};

/* All algorithms: the name, the function that plans, and the one that mends, or NULL.
 *
 * geryon    no aggregation; equal split
 * lbmm      no aggregation; split in proportion to what servers can take in
 * switchml  the switch near the worker sums; its capacity bounds the rate
 * atp       that switch while it has capacity, then the one near the server, then the server
 * grid      linear program, randomized rounding; equal split
 * inart     one linear program splits the model, another places and routes
 * exact     column generation to its end; with one tree, branch and bound; small instances
 * best      all of these, consolidation, local search, and several trees */
#define FAN_ALGORITHMS(X)                                                                          \
	X(geryon, fan_geryon, NULL)                                                                \
	X(lbmm, fan_lbmm, NULL)                                                                    \
	X(switchml, fan_switchml, NULL)                                                            \
	X(atp, fan_atp, NULL)                                                                      \
	X(grid, fan_grid, fan_grid_mend)                                                           \
	X(inart, fan_inart, fan_inart_mend)                                                        \
	X(exact, fan_exact, NULL)                                                                  \
	X(best, fan_best, fan_best_mend)

/* In the order of FAN_ALGORITHMS. */
extern const struct fan_algorithm fan_algorithms[];
extern const uint32_t fan_algorithm_count;

/* The algorithm of that name; NULL: there is none, and `why` (may be NULL) has those that are. */
const struct fan_algorithm *fan_algorithm_find(const char *name, struct fan_why *why);

typedef int fan_algorithm_run(const struct fan_topo *t, const struct fan_plan_options *o,
			      struct fan_plan *p, struct fan_planned *how);
#define FAN_X(name, run, mend) fan_algorithm_run run;
FAN_ALGORITHMS(FAN_X)
#undef FAN_X
fan_algorithm_run fan_grid_mend, fan_inart_mend, fan_best_mend;

/* ---- replan.c ---- */

/* A plan after a change, made from the earlier plan.
 *
 * A switch or link has failed or carries more load, or a job has come or gone.  Flows stay where
 * they still can; the others are placed again one by one, jobs without trees get some, and a linear
 * program balances all shares.  Nothing is relaxed or rounded again. */

/* Mend `*p` for the present topology.  What failed has no capacity left there (a background load as
 * large as its rate), or is not part of it any more; flows over the latter lead to FAN_NODE_NONE.
 * Numbers of nodes and jobs are those of `t`.
 *
 * Errors are those of the algorithms; on error `*p` is empty. */
int fan_replan(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p);

/* As fan_replan, for trees that are in use: each keeps its server and its share, and jobs without
 * trees get none.  Flows over failed nodes or links are placed again.  If there are any, or if
 * `look` is set, local search then tries other paths for all flows, and takes them if the rate is
 * more than `worth` times as high. */
int fan_replan_paths(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
		     double worth, bool look);

#endif
