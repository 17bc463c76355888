/* SPDX-License-Identifier: Apache-2.0 */
/* cands.h - who may send where: groups of workers that are alike, switches that may sum, and
 * candidate routes between them.
 *
 * Workers of a job that have one link each, to the same switch, are alike to the planner: they form
 * a group, whose place is that switch.  access_gbps is the bound of their own links on the rate. */
#ifndef FAN_PLAN_CANDS_H
#define FAN_PLAN_CANDS_H

#include <stddef.h>

#include "topo.h"

struct fan_flow;

struct fan_worker_group {
	uint32_t job, at;      /* its place, a node: a switch, or the worker itself */
	uint32_t first, count; /* its members, in `member` of struct fan_cands */
};

struct fan_cands {
	const struct fan_topo *t;
	struct fan_worker_group *group;
	uint32_t groups;
	uint32_t *member;   /* the index of a worker in its job */
	uint32_t *first;    /* by job: its first worker in `group_of` */
	uint32_t *group_of; /* by job and worker (jobs one after the other) */
	uint32_t *sum;	    /* nodes that may sum, the highest capacity first */
	uint32_t sums;
	double access_gbps; /* the rate for weight 1 that the workers' own links allow */

	/* Routes from place to target.  Places are the groups, then the sums; targets are the sums,
	 * then all nodes that are servers. */
	uint32_t places, targets;
	uint32_t *target_of; /* by node: its number as a target, or FAN_NODE_NONE */
	struct fan_span {
		uint32_t first, count;
	} * span; /* by place and target: routes */
	struct fan_arcs *route;
	uint32_t routes, route_room;
	uint32_t *arc;	  /* of all routes, one after the other, for a fast scan */
	uint32_t *arc_at; /* by route, and one more: index in `arc` of its first arc */
};

struct fan_cands_options {
	uint32_t paths;	   /* most routes from a place to a target; up to FAN_PATHS_MAX */
	uint32_t sums_max; /* most candidates that may sum; 0: all switches that can */
	bool apart;	   /* each worker is a group of its own */
	bool levels;	   /* also find routes from one sum to another */
};

/* FAN_E_NOMEM; FAN_E_INVALID: a worker is more than FAN_HOPS_MAX links from its server.  `*c` is
 * empty on error. */
int fan_cands_open(struct fan_cands *c, const struct fan_topo *t,
		   const struct fan_cands_options *o);
void fan_cands_close(struct fan_cands *c);

/* As fan_cands_open, with all switches that may sum, and up to `paths` routes between a place and a
 * target: fewer if all pairs together would have more than `routes_max`. */
int fan_cands_open_bounded(struct fan_cands *c, const struct fan_topo *t, uint32_t paths,
			   double routes_max);

/* The group of worker `w` of a job. */
static inline uint32_t fan_cands_group(const struct fan_cands *c, uint32_t job, uint32_t w)
{
	return c->group_of[c->first[job] + w];
}

/* The routes of group `g` or of candidate sum `v`, to candidate sum `v` or to a server (a node). */
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

/* Set the flow of f->from, a member of group `g`, to its own link, then candidate route `r`. */
void fan_cands_flow(const struct fan_cands *c, const struct fan_worker_group *g, uint32_t r,
		    struct fan_flow *f);

#endif
