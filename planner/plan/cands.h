/* SPDX-License-Identifier: Apache-2.0 */
/* cands.h - who may send where: workers that are alike, switches that may sum, and
 * candidate routes between them.
 *
 * Workers of a job on the same switch by one link are alike to the planner; they are a
 * group, whose place is that switch.  What its members' own links allow is kept apart, as
 * the bound on the common rate that they give. */
#ifndef FAN_PLAN_CANDS_H
#define FAN_PLAN_CANDS_H

#include <stddef.h>

#include "path.h"
#include "topo.h"

struct fan_flow;

struct fan_group {
	uint32_t job, at;      /* node: a switch, or the worker itself */
	uint32_t first, count; /* its members: `member` of the candidates */
};

struct fan_cands {
	const struct fan_topo *t;
	struct fan_group *group;
	uint32_t groups;
	uint32_t *member;   /* index of a worker in its job */
	uint32_t *first;    /* by job: its first worker in `group_of` */
	uint32_t *group_of; /* by job and worker (jobs one after the other) */
	uint32_t *sum;	    /* nodes that may sum, the most able first */
	uint32_t sums;
	double access_gbps; /* the rate, by weight, that the workers' own links allow */

	/* Routes from place to target.  Places are the groups and behind them the sums;
	 * targets are the sums and behind them all nodes that are servers. */
	uint32_t places, targets;
	uint32_t *target_of; /* by node: number of the target; FAN_NODE_NONE */
	struct fan_span {
		uint32_t first, count;
	} * span; /* by place and target: routes */
	struct fan_route *route;
	uint32_t routes, route_room;
	uint32_t *arc;	  /* of all routes, one after the other: many are looked at in turn */
	uint32_t *arc_at; /* by route, and one more: its first in `arc` */
};

struct fan_cands_options {
	uint32_t paths;	   /* between a place and a target; at most FAN_PATHS_MAX */
	uint32_t sums_max; /* candidates that may sum; 0: all */
	bool apart;	   /* each worker is a group of its own */
	bool levels;	   /* sums may go to another switch that sums: routes for that, too */
};

/* FAN_E_NOMEM; FAN_E_INVALID: a worker is farther than FAN_HOPS_MAX from its server.
 * `*c` is empty then. */
int fan_cands_open(struct fan_cands *c, const struct fan_topo *t,
		   const struct fan_cands_options *o);
void fan_cands_close(struct fan_cands *c);

/* As fan_cands_open, with all switches that may sum, and up to `paths` routes between a place and a
 * target: fewer where all of them together would be more than `routes_max`. */
int fan_cands_open_bounded(struct fan_cands *c, const struct fan_topo *t, uint32_t paths,
			   double routes_max);

/* The group of worker `w` of a job. */
static inline uint32_t fan_cands_group(const struct fan_cands *c, uint32_t job, uint32_t w)
{
	return c->group_of[c->first[job] + w];
}

/* Routes of group `g`, or of the candidate sum number `v`, to candidate `v` or to a
 * server's node. */
static inline struct fan_span fan_cands_to_sum(const struct fan_cands *c, uint32_t g, uint32_t v)
{
	return c->span[(size_t)g * c->targets + v];
}

static inline struct fan_span fan_cands_to_server(const struct fan_cands *c, uint32_t g,
						  uint32_t server)
{
	return c->span[(size_t)g * c->targets + c->target_of[server]];
}

static inline struct fan_span fan_cands_sum_to_server(const struct fan_cands *c, uint32_t v,
						      uint32_t server)
{
	return c->span[(size_t)(c->groups + v) * c->targets + c->target_of[server]];
}

/* Routes of candidate sum `v` to candidate sum `w`; none without `levels`. */
static inline struct fan_span fan_cands_sum_to_sum(const struct fan_cands *c, uint32_t v,
						   uint32_t w)
{
	return c->span[(size_t)(c->groups + v) * c->targets + w];
}

/* The flow of member `m` of group `g` over candidate route `r` (its first link first). */
void fan_cands_flow(const struct fan_cands *c, const struct fan_group *g, uint32_t r,
		    struct fan_flow *f);

#endif
